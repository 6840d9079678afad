"""The comparison of bundled prices with what other public sources saw."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from advisor.pricing.bundled import bundled_prices
from advisor.pricing.price import PriceKey, PriceRow
from tools import compare_prices

HEADER = "provider,instance_type,region,purchase_option,usd_per_hour,first_seen,last_seen,source\n"
CUT = datetime(2025, 6, 1, tzinfo=UTC)
P5 = PriceKey("aws", "ec2", "us-east-1", "p5.48xlarge")
ROWS = (
    PriceRow(P5, Decimal("98.32"), datetime(2024, 1, 1, tzinfo=UTC), CUT, "one", seen_at=CUT),
    PriceRow(P5, Decimal("55.04"), CUT, None, "one", seen_at=datetime(2026, 7, 20, tzinfo=UTC)),
)


def compared(tmp_path: Path, *lines: str) -> list[compare_prices.Comparison]:
    file = tmp_path / "second.csv"
    file.write_text(HEADER + "\n".join(lines))
    return compare_prices.compare(ROWS, compare_prices.read_figures([file]))


def test_it_compares_a_figure_with_the_price_of_its_day(tmp_path):
    [old, new] = compared(
        tmp_path,
        "aws,p5.48xlarge,us-east-1,on_demand,98.32,2025-01,2025-04-04,other",
        "aws,p5.48xlarge,us-east-1,on_demand,60,2026-01-01,2026-01-01,other",
    )
    assert (old.row, old.agrees, old.is_of_the_time) == (ROWS[0], True, True)
    assert (new.row, new.agrees) == (ROWS[1], False)
    assert new.line() == (
        "aws p5.48xlarge us-east-1 on_demand: $55.04 (one, 2025-06-01 to 2026-07-20); "
        "$60 (other, 2026-01-01 to 2026-01-01): differs by +9.0 %"
    )


@pytest.mark.parametrize(("usd", "agrees"), [("55.09", True), ("55.10", False), ("54.98", False)])
def test_it_takes_a_thousandth_for_rounding(tmp_path, usd, agrees):
    [only] = compared(tmp_path, f"aws,p5.48xlarge,us-east-1,on_demand,{usd},2026-01,2026-01,other")
    assert only.agrees is agrees


def test_it_takes_the_nearest_figure_and_says_that_it_is_of_another_time(tmp_path):
    [only] = compared(
        tmp_path,
        "aws,p5.48xlarge,us-east-1,on_demand,70,2023-01-01,2023-01-01,other",
        "aws,p5.48xlarge,us-east-1,on_demand,80,2023-12-01,2023-12-01,other",
    )
    assert only.figure.usd_per_hour == 80
    assert not only.is_of_the_time
    assert ", of another time" in only.line()


def test_a_source_is_no_second_source_for_itself_nor_for_another_machine(tmp_path):
    lines = (
        "aws,p5.48xlarge,us-east-1,on_demand,55.04,2026-01-01,2026-01-01,one",
        "aws,p5.48xlarge,us-east-2,on_demand,55.04,2026-01-01,2026-01-01,other",
        "aws,p5.48xlarge,us-east-1,spot,20,2026-01-01,2026-01-01,other",
    )
    assert compared(tmp_path, *lines) == []


def test_the_command_prints_each_row_and_how_many_agree(tmp_path, monkeypatch, capsys):
    file = tmp_path / "second.csv"
    columns = "instance_type,region,price_kind,usd_per_hour,first_seen,last_seen,source\n"
    line = "{},us-east-1,on_demand,{},2026-07-01,2026-07-20,other\n"
    file.write_text(columns + line.format("g5.xlarge", "1.006") + line.format("g6.xlarge", "9"))
    monkeypatch.setattr("sys.argv", ["compare_prices", str(file), "--check", "--rows=9999"])
    assert compare_prices.main() == 1
    said = capsys.readouterr().out
    assert "g5.xlarge us-east-1 on_demand: $1.006 (" in said
    others = len(bundled_prices()) - 2
    assert f"1 agree within 0.1 %, 1 differ, {others:,} have no second source" in said
    assert "c5.large us-east-1 spot: $" in said
    assert said.count(": no second source\n") == others
    assert "2 by other, last seen 2026-07-20 to 2026-07-20" in said
