"""The price that holds at a time: precedence, zones, dates, and "no price"."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.pricing.book import PriceBook
from advisor.pricing.price import BUNDLED, OWN_RATE, REFRESHED, PriceKey, PriceRow

KEY = PriceKey("aws", "ec2", "us-east-1", "m5.xlarge")
JANUARY = datetime(2025, 1, 1, tzinfo=UTC)
JULY = datetime(2025, 7, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def row(usd: str, valid_from: datetime = JANUARY, valid_to: datetime | None = None, **rest):
    fields = {"key": KEY, "source": "a test", **rest}
    return PriceRow(usd_per_hour=Decimal(usd), valid_from=valid_from, valid_to=valid_to, **fields)


def usd_at(book: PriceBook, when: datetime, key: PriceKey = KEY) -> tuple[str, bool] | None:
    priced = book.price_at(key, when)
    return (str(priced.row.usd_per_hour), priced.later) if priced else None


def test_an_own_rate_goes_before_a_refreshed_price_and_that_before_a_bundled_one():
    rows = [
        row("3", JULY, precedence=BUNDLED),
        row("2", JANUARY, precedence=REFRESHED),
        row("1", JANUARY, JULY, precedence=OWN_RATE),
    ]
    book = PriceBook(rows)
    assert usd_at(book, JULY - DAY) == ("1", False)
    assert usd_at(book, JULY) == ("2", False)


def test_the_exact_zone_goes_before_the_region():
    zone = replace(KEY, zone="us-east-1a")
    book = PriceBook([row("2", JULY), row("1", JANUARY, key=zone)])
    assert usd_at(book, JULY + DAY, zone) == ("1", False)
    assert usd_at(book, JULY + DAY, replace(KEY, zone="us-east-1b")) == ("2", False)
    assert usd_at(book, JULY + DAY) == ("2", False)


def test_an_own_rate_of_the_region_goes_before_a_list_price_of_the_zone():
    zone = replace(KEY, zone="us-east-1a")
    book = PriceBook([row("2", key=zone), row("1", precedence=OWN_RATE)])
    assert usd_at(book, JULY, zone) == ("1", False)


def test_the_latest_valid_from_wins_among_equals():
    book = PriceBook([row("1", JANUARY), row("2", JULY)])
    assert usd_at(book, JULY - timedelta(microseconds=1)) == ("1", False)
    assert usd_at(book, JULY) == ("2", False)


def test_before_the_first_row_the_earliest_price_is_used_and_marked():
    book = PriceBook([row("2", JULY), row("1", JANUARY)])
    assert usd_at(book, JANUARY - DAY) == ("1", True)


def test_between_two_rows_the_next_price_is_used_and_marked():
    book = PriceBook([row("1", JANUARY, JANUARY + DAY), row("2", JULY)])
    assert usd_at(book, JANUARY + DAY) == ("2", True)


def test_there_is_no_price_after_the_last_row_has_ended_nor_for_another_machine():
    book = PriceBook([row("1", JANUARY, JULY)])
    assert book.price_at(KEY, JULY) is None
    assert book.price_at(replace(KEY, instance_type="m5.large"), JANUARY) is None
    assert book.price_at(replace(KEY, purchase_option="spot"), JANUARY) is None
    assert [span.row for span in book.spans(KEY, JULY, JULY + DAY)] == [None]


def test_spans_split_at_each_change_and_leave_no_gap():
    book = PriceBook([row("1", JANUARY), row("2", JULY, JULY + DAY)])
    start, end = JANUARY - DAY, JULY + 3 * DAY
    spans = book.spans(KEY, start, end)
    pieces = [(s.start, s.end, str(s.row.usd_per_hour), s.later) for s in spans if s.row]
    assert pieces == [
        (start, JANUARY, "1", True),
        (JANUARY, JULY, "1", False),
        (JULY, JULY + DAY, "2", False),
        (JULY + DAY, end, "1", False),
    ]


moments = st.integers(0, 40).map(lambda days: JANUARY + days * DAY)


@st.composite
def some_rows(draw):
    start = draw(moments)
    length = draw(st.none() | st.integers(1, 20))
    return row(
        str(draw(st.integers(1, 9))),
        start,
        None if length is None else start + length * DAY,
        precedence=draw(st.sampled_from([BUNDLED, REFRESHED, OWN_RATE])),
        source=draw(st.sampled_from("ab")),
    )


@given(st.lists(some_rows(), max_size=6), moments, moments, st.randoms())
def test_a_span_has_one_price_throughout_whatever_the_order_of_the_rows(rows, one, other, random):
    start, end = min(one, other), max(one, other)
    book = PriceBook(rows)
    spans = book.spans(KEY, start, end)
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert [(s.start, s.end) for s in PriceBook(shuffled).spans(KEY, start, end)] == [
        (s.start, s.end) for s in spans
    ]
    edges = [start, *(span.end for span in spans)]
    assert [span.start for span in spans] == edges[:-1]
    assert edges[-1] == end
    for span in spans:
        for hours in range(0, 24 * (span.end - span.start).days, 12):
            priced = book.price_at(KEY, span.start + timedelta(hours=hours))
            assert (priced.row if priced else None) == span.row


keys = st.builds(
    PriceKey,
    provider=st.sampled_from(["aws", "gcp"]),
    service=st.sampled_from(["ec2", "machine"]),
    region=st.sampled_from(["us-east-1", "eu-west-1", ""]),
    instance_type=st.sampled_from(["m5.xlarge", "n1-standard-8", "n1-standard-8+1xt4", ""]),
    purchase_option=st.sampled_from(["on_demand", "spot"]),
    zone=st.sampled_from(["a", ""]),
    operating_system=st.sampled_from(["linux", "windows"]),
)


def may_price(known: PriceKey, wanted: PriceKey) -> bool:
    """Return whether all that the row's key names is the machine's."""
    names = {wanted.instance_type, wanted.instance_type.partition("+")[0], ""}
    return (
        known.provider == wanted.provider
        and known.purchase_option == wanted.purchase_option
        and known.operating_system == wanted.operating_system
        and known.instance_type in names
        and known.region in (wanted.region, "")
        and known.zone in (wanted.zone, "")
    )


@given(st.lists(st.tuples(some_rows(), keys), max_size=30), keys, moments)
def test_prices_of_other_machines_count_for_nothing(rows, wanted, when):
    keyed = [replace(each, key=key) for each, key in rows]
    alike = [each for each in keyed if may_price(each.key, wanted)]
    assert PriceBook(keyed).price_at(wanted, when) == PriceBook(alike).price_at(wanted, when)


def test_the_types_of_a_place_are_those_with_a_price_there():
    rows = [
        row("1"),
        row("1", key=replace(KEY, instance_type="c5.large")),
        row("1", key=replace(KEY, instance_type="r5.large", region="us-west-2")),
        row("1", key=replace(KEY, instance_type="m5.large", purchase_option="spot")),
    ]
    assert PriceBook(rows).instance_types(KEY) == ["c5.large", "m5.xlarge"]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (row("0"), "usd_per_hour is 0"),
        (row("-1", precedence=OWN_RATE), "usd_per_hour is -1"),
        (row("NaN"), "usd_per_hour is NaN"),
        (row("1", JULY, JULY), "valid_to must be after"),
        (row("1", JULY.replace(tzinfo=None)), "valid_from has no time zone"),
    ],
)
def test_it_refuses_a_row_that_would_make_a_wrong_cost_and_says_why(bad, words):
    with pytest.raises(ValueError, match=words):
        PriceBook([bad])


def test_a_machine_of_ones_own_may_be_free():
    book = PriceBook([row("0", precedence=OWN_RATE)])
    assert usd_at(book, JULY) == ("0", False)


def test_a_time_in_another_zone_is_the_same_moment():
    tokyo = timezone(timedelta(hours=9))
    book = PriceBook([row("1", JANUARY, JULY), row("2", JULY)])
    assert usd_at(book, JULY.astimezone(tokyo)) == ("2", False)
    assert usd_at(book, datetime(2025, 7, 1, 8, 59, tzinfo=tokyo)) == ("1", False)
