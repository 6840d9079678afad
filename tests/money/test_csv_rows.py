"""Own rates as CSV, in and out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.pricing.csv_rows import MOST_ROWS, lines, own_rate, read
from advisor.pricing.price import OWN_RATE, PriceKey, PriceRow

HEADER = "provider,service,instance_type,region,usd_per_hour,valid_from\n"


def test_it_reads_a_rate_with_its_defaults():
    rows, refused = read(StringIO(HEADER + "aws, ec2, p4d.24xlarge, us-east-1, $12.5, 2026-01-31"))
    assert refused == []
    key = PriceKey("aws", "ec2", "us-east-1", "p4d.24xlarge")
    start = datetime(2026, 1, 31, tzinfo=UTC)
    assert rows == [PriceRow(key, Decimal("12.5"), start, None, "your rate", OWN_RATE)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("aws,ec2,p4d.24xlarge,,twelve,2026-01-31", "usd_per_hour is 'twelve'; write it as 1.25"),
        ("aws,ec2,p4d.24xlarge,,-1,2026-01-31", "between 0 and 1,000,000"),
        ("aws,ec2,p4d.24xlarge,,NaN,2026-01-31", "between 0 and"),
        ("aws,ec2,p4d.24xlarge,,1.0000000001,2026-01-31", "more than nine decimals"),
        ("aws,ec2,p4d.24xlarge,,1,31.1.2026", "valid_from is '31.1.2026'; write it as 2026-01-31"),
        ("aws,ec2,,,1,2026-01-31", "instance_type is empty"),
        (",ec2,p4d.24xlarge,,1,2026-01-31", "provider is empty"),
        ("aws,ec2,c5\x07large,,1,2026-01-31", "instance_type contains an unprintable character"),
        (f"aws,ec2,{'x' * 65},,1,2026-01-31", "instance_type is longer than 64"),
    ],
)
def test_it_names_the_line_and_the_field_that_it_cant_read(line, words):
    rows, refused = read(StringIO(f"{HEADER}aws,ec2,c5.large,,1,2026-01-31\n{line}\n"))
    assert len(rows) == 1
    assert [each.line for each in refused] == [3]
    assert words in str(refused[0])


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("provider,service,valid_from", "usd_per_hour is missing"),
        (HEADER.strip() + ",price", "unknown column price"),
        ("", "provider is missing"),
    ],
)
def test_it_says_what_is_wrong_with_the_header(header, words):
    rows, refused = read(StringIO(header + "\n"))
    assert rows == []
    assert words in str(refused[0])


def test_it_reads_so_many_lines_and_no_more():
    line = "aws,ec2,c5.large,,1,2026-01-31\n"
    rows, refused = read(StringIO(HEADER + line * (MOST_ROWS + 5)))
    assert len(rows) == MOST_ROWS
    assert "more than 10,000 lines" in str(refused[0])


def test_what_comes_before_a_line_that_is_no_csv_is_kept():
    line = "aws,ec2,c5.large,,1,2026-01-31\n"
    rows, refused = read(StringIO(HEADER + line + "x" * 200_000 + line + line))
    assert len(rows) == 1
    assert str(refused[0]).startswith("line 3: not readable as CSV")
    assert read(StringIO("x" * 200_000))[0] == []


def test_a_gpu_is_known_by_whatever_name_its_driver_gives_it():
    columns = {"provider": "on_premises", "service": "gpu_hour", "usd_per_hour": "1.1",
            "valid_from": "2026-01-01", "instance_type": "NVIDIA H100 80GB HBM3"}  # fmt: skip
    assert own_rate(columns).key.instance_type == "H100-SXM"
    assert own_rate(columns | {"instance_type": "Our GPU"}).key.instance_type == "Our GPU"


texts = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), max_size=20)
moments = st.integers(0, 10**6).map(
    lambda n: datetime(2024, 1, 1, tzinfo=UTC) + timedelta(minutes=n)
)


@given(
    name=texts.filter(bool),
    region=texts,
    usd=st.decimals(0, 1000, places=9),
    start=moments,
    length=st.none() | st.integers(1, 10**6),
    source=texts.filter(bool),
)
def test_what_is_exported_is_read_back_the_same(name, region, usd, start, length, source):
    key = PriceKey("gcp", "machine", region, name)
    end = None if length is None else start + timedelta(seconds=length)
    row = PriceRow(key, usd, start, end, source, OWN_RATE)
    rows, refused = read(StringIO("".join(lines([row]))))
    assert refused == []
    assert rows == [row]


@pytest.mark.parametrize("source", ["=1+1", "+1", "-1", "@x"])
def test_a_spreadsheet_takes_nothing_for_a_formula(source):
    key = PriceKey("gcp", "machine", "", "a")
    row = PriceRow(key, Decimal(1), datetime(2026, 1, 1, tzinfo=UTC), None, source, OWN_RATE)
    assert f",'{source}," in "".join(lines([row]))
