"""Money in rows and across months: nothing is lost or counted twice, and there are no floats."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest
from django.core.exceptions import ValidationError
from django.db.models import Sum
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.costing.apportion import usd_before
from advisor.costing.cost import NodeUse, cost_of_run
from advisor.pricing.book import PriceBook
from advisor.pricing.price import PriceKey, PriceRow
from tests.web import factories
from webapp.runs.models import Run
from webapp.spend.months import Month

KEY = PriceKey("aws", "ec2", "us-east-1", "p3.8xlarge", "on_demand")
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Pacific/Chatham",
         "Australia/Lord_Howe")  # fmt: skip
MOST_NANO_USD = 10**15

starts = st.integers(0, 300 * 86_400 * 10**6).map(lambda us: FIRST + timedelta(microseconds=us))
lengths = st.integers(1, 70 * 86_400 * 10**6).map(lambda us: timedelta(microseconds=us))
prices = st.integers(1, 10**11).map(lambda nano: Decimal(nano).scaleb(-9))
shares = st.fractions(Fraction(1, 16), 1)


def book(usd: Decimal, later_usd: Decimal, changed_at: datetime) -> list[PriceRow]:
    """One price until a moment, another from then on."""
    before = PriceRow(KEY, usd, FIRST - timedelta(days=9), changed_at, "list")
    return [before, PriceRow(KEY, later_usd, changed_at, None, "list")]


@given(starts, lengths, prices, prices, starts, shares, st.sampled_from(ZONES))
def test_the_months_of_any_zone_sum_to_the_cost_over_midnights_dst_and_price_changes(
    start, length, usd, later_usd, changed_at, share, zone
):
    rows = book(usd, later_usd, changed_at)
    held = (start, start + length)
    cost = cost_of_run([NodeUse("a", KEY, (held,), share)], PriceBook(rows))
    months = [Month(2026, 1, ZoneInfo(zone)).shifted(n) for n in range(-1, 14)]

    by_month = [_spent(cost.parts, held, month.start, month.end) for month in months]

    assert sum(by_month) == cost.total_usd
    for month, spent in zip(months, by_month, strict=True):
        clipped = max(start, month.start), min(held[1], month.end)
        exact = Fraction(0)
        for row in rows:
            begin, end = max(clipped[0], row.valid_from), clipped[1]
            end = min(end, row.valid_to) if row.valid_to else end
            seconds = max((end - begin) // timedelta(microseconds=1), 0)
            exact += Fraction(row.usd_per_hour) * seconds * share / (3600 * 10**6)
        # The parts of days and of cuts are each rounded to a nano-dollar.
        assert abs(Fraction(spent) - exact) <= Fraction(3, 10**9)


def _spent(parts, held, start: datetime, end: datetime) -> Decimal:  # type: ignore[no-untyped-def]
    return sum((_share_of(part, held, start, end) for part in parts), Decimal(0))


def _share_of(part, held, start: datetime, end: datetime) -> Decimal:  # type: ignore[no-untyped-def]
    """The part of a day's cost between two moments, as in the monthly table."""
    day = datetime.combine(part.day, datetime.min.time(), UTC)
    of_day = [(max(held[0], day), min(held[1], day + timedelta(days=1)))]
    before = [usd_before(part.usd, of_day, part.price_rows, at) for at in (start, end)]
    return before[1] - before[0]


@given(prices, starts, lengths, st.lists(starts, min_size=1, max_size=9))
def test_what_was_spent_before_a_moment_never_falls_and_ends_at_the_whole(
    usd, start, length, moments
):
    held = [(start, start + length)]
    amounts = [usd_before(usd, held, (), moment) for moment in sorted(moments)]
    assert amounts == sorted(amounts)
    assert usd_before(usd, held, (), start) == 0
    assert usd_before(usd, held, (), start + length) == usd
    assert all(0 <= each <= usd for each in amounts)


def test_a_machine_held_for_no_time_costs_what_it_costs_from_then_on():
    """A provider's minimum of a run that never was: it has a start and no length."""
    held = [(FIRST, FIRST)]
    assert usd_before(Decimal(1), held, (), FIRST) == 0
    assert usd_before(Decimal(1), held, (), FIRST + timedelta(seconds=1)) == 1


def micro(number: int) -> datetime:
    return FIRST + timedelta(microseconds=number)


@pytest.mark.parametrize(("at", "spent"), [(0, 0), (1, 1), (2, 2), (3, 5), (4, 8), (5, 8)])
def test_each_microsecond_before_a_moment_costs_the_price_of_its_time(at, spent):
    rows = book(Decimal(1), Decimal(3), changed_at=micro(2))
    assert usd_before(Decimal(8), [(micro(0), micro(4))], rows, micro(at)) == spent


def test_time_is_split_evenly_if_none_of_the_prices_was_valid_then():
    """The run used a later price."""
    rows = [
        PriceRow(KEY, Decimal(1), micro(10), micro(20), "list"),
        PriceRow(KEY, Decimal(3), micro(20), None, "list"),
    ]
    assert usd_before(Decimal(3), [(micro(0), micro(3))], rows, micro(1)) == 1


amounts = st.lists(st.integers(-MOST_NANO_USD, MOST_NANO_USD), min_size=1, max_size=30)


@pytest.mark.django_db
def test_the_databases_sum_is_exact_to_the_nano_dollar():
    """SQLite has no decimals, and PostgreSQL's would do: both sum whole numbers. This runs on
    both, and what it expects is Python's exact sum."""
    job = factories.job(factories.workspace())
    model = factories.run(job)

    @given(amounts)
    @settings(max_examples=30)
    def sums(nano: list[int]) -> None:
        Run.objects.filter(job=job).delete()
        Run.objects.bulk_create(_with_cost(model, number, usd) for number, usd in enumerate(nano))
        total = Run.objects.filter(job=job).aggregate(sum=Sum("cost_usd"))["sum"]
        assert isinstance(total, Decimal)
        assert total == Decimal(sum(nano)).scaleb(-9)
        assert sorted(Run.objects.values_list("cost_usd", flat=True)) == sorted(
            Decimal(each).scaleb(-9) for each in nano
        )

    sums()


def _with_cost(model: Run, number: int, nano_usd: int) -> Run:
    values = {"workspace": model.workspace, "job": model.job, "number": number}
    return Run(id=f"{number:032x}", cost_usd=Decimal(nano_usd).scaleb(-9), **values)


@pytest.mark.django_db
def test_a_float_is_refused_as_money():
    run = factories.run(factories.job(factories.workspace()))
    run.cost_usd = 0.1  # type: ignore[assignment]
    with pytest.raises(ValidationError, match="never a float"):
        run.save()
