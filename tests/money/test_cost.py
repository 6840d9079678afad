"""The cost of a run: exact to the last digit, however its time was split."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.costing.cost import NodeUse, cost_of_run, merge_intervals, shares_on_machine
from advisor.money import display_usd, rounded_usd
from advisor.pricing.book import PriceBook
from advisor.pricing.bundled import bundled_prices
from advisor.pricing.price import OWN_RATE, PriceKey, PriceRow

NOON = datetime(2025, 3, 30, 12, tzinfo=UTC)
MIDNIGHT = datetime(2025, 4, 1, tzinfo=UTC)
KEY = PriceKey("aws", "ec2", "us-east-1", "m5.xlarge")
OTHER = replace(KEY, instance_type="c5.large")
HALF = Fraction(1, 2)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def row(usd: str, valid_from: datetime = NOON - timedelta(days=400), key=KEY, **rest) -> PriceRow:
    return PriceRow(key, Decimal(usd), valid_from, rest.pop("valid_to", None), "a test", **rest)


BOOK = PriceBook([row("0.192"), row("0.085", key=OTHER)])


def use(start: datetime, length: float, node: str = "1", key: PriceKey = KEY, **rest) -> NodeUse:
    return NodeUse(node, key, ((start, start + seconds(length)),), **rest)


def published(instance_type: str, count: int, length: float) -> Decimal | None:
    key = PriceKey("aws", "sagemaker_training", "us-west-2", instance_type)
    uses = [use(datetime(2020, 12, 9, tzinfo=UTC), length, str(n), key) for n in range(count)]
    return cost_of_run(uses, PriceBook(bundled_prices())).total_usd


def test_the_published_case_is_right_to_the_last_digit():
    before, after = published("ml.p3.8xlarge", 3, 503), published("ml.p3.2xlarge", 2, 502)
    assert before == Decimal("6.15672")
    assert after == Decimal("1.06675")
    assert round(100 * (1 - after / before), 2) == Decimal("82.67")


def test_it_costs_price_times_seconds_times_share():
    cost = cost_of_run([use(NOON, 1800, share=Fraction(1, 4))], BOOK)
    assert cost.total_usd == Decimal("0.024")
    (part,) = cost.parts
    assert (part.day, part.seconds) == (NOON.date(), 1800)
    assert [r.usd_per_hour for r in part.price_rows] == [Decimal("0.192")]
    assert not part.later_price
    assert not part.estimated


@pytest.mark.parametrize(
    ("given_seconds", "billed_seconds"), [(0.4, 60), (30, 60), (60, 60), (60.2, 60.2), (503, 503)]
)
def test_a_machine_started_for_the_run_is_billed_for_sixty_seconds_at_least(
    given_seconds, billed_seconds
):
    owned = cost_of_run([use(NOON, given_seconds, owns_machine=True)], BOOK)
    assert owned.parts[0].seconds == Decimal(str(billed_seconds))
    lent = cost_of_run([use(NOON, given_seconds)], BOOK)
    assert lent.parts[0].seconds == Decimal(str(given_seconds))


@pytest.mark.parametrize("given_seconds", ["0.4", "10"])
def test_the_minimum_is_a_provider_s_and_is_not_applied_to_sagemaker(given_seconds):
    key = replace(KEY, service="sagemaker_training")
    uses = [use(NOON, float(given_seconds), key=key, owns_machine=True)]
    cost = cost_of_run(uses, PriceBook([row("1", key=key)]))
    assert cost.parts[0].seconds == Decimal(given_seconds)


@pytest.mark.parametrize(
    ("began_at", "billed_seconds"),
    [
        ((0, 30), 60),
        ((0, 55), 65),
        ((0, 30, 300), 70),
        ((0, 50, 59), 69),
    ],
)
def test_each_start_has_one_minimum_and_no_second_is_charged_twice(began_at, billed_seconds):
    """Each time is 10 s long."""
    held = tuple((NOON + seconds(at), NOON + seconds(at + 10)) for at in began_at)
    cost = cost_of_run([NodeUse("1", KEY, held, owns_machine=True)], BOOK)
    assert cost.parts[0].seconds == billed_seconds


def _attempts(*began_at: float, **rest) -> list[NodeUse]:
    """Return nodes that used one machine for 10 s each."""
    return [use(NOON + seconds(at), 10, f"{at}", owns_machine=True, **rest) for at in began_at]


def test_two_attempts_on_a_machine_that_was_started_once_pay_one_minimum():
    once = cost_of_run(_attempts(0, 30, machine_start="i-1"), BOOK)
    assert [(p.node_key, p.seconds) for p in once.parts] == [("0", 30), ("30", 30)]
    assert once.total_usd == cost_of_run([use(NOON, 60)], BOOK).total_usd
    later = cost_of_run(_attempts(0, 300, machine_start="i-1"), BOOK)
    assert [(p.node_key, p.seconds) for p in later.parts] == [("0", 60), ("300", 10)]


def test_two_starts_pay_two_minimums():
    one, other = _attempts(0, 300)
    uses = [replace(one, machine_start="i-1 a"), replace(other, machine_start="i-1 b")]
    assert sum(part.seconds for part in cost_of_run(uses, BOOK).parts) == 120


def test_a_minimum_goes_on_after_the_last_of_uses_at_once():
    """The minimum goes on at the shares of those that ended last."""
    long, short = use(NOON, 20, "a", share=HALF / 2), use(NOON + seconds(5), 5, "b", share=HALF)
    owned = [replace(u, owns_machine=True, machine_start="i-1") for u in (long, short)]
    assert [(p.node_key, p.seconds) for p in cost_of_run(owned, BOOK).parts] == [
        ("a", 60),
        ("b", 5),
    ]


def test_nodes_that_used_a_machine_for_no_time_pay_its_minimum_once():
    nothing = [use(NOON, 0, n, owns_machine=True, machine_start="i-1") for n in ("1", "2")]
    assert sum(p.seconds for p in cost_of_run(shares_on_machine(nothing), BOOK).parts) == 60
    later = replace(nothing[0], intervals=((NOON + seconds(10),) * 2,))
    after = [*_attempts(0, machine_start="i-1"), later]
    assert sum(p.seconds for p in cost_of_run(shares_on_machine(after), BOOK).parts) == 60


def test_an_owner_pays_the_minimum_of_a_machine_for_all_attempts():
    owner, other = _attempts(0, 10, machine_start="i-1")
    uses = [owner, replace(other, owns_machine=False)]
    assert sum(part.seconds for part in cost_of_run(uses, BOOK).parts) == 60


def test_it_splits_at_midnight_utc_and_at_the_end_of_a_month():
    cost = cost_of_run([use(MIDNIGHT - seconds(1800), 3600)], BOOK)
    assert [(p.day, p.seconds, p.usd) for p in cost.parts] == [
        (date(2025, 3, 31), 1800, Decimal("0.096")),
        (date(2025, 4, 1), 1800, Decimal("0.096")),
    ]


def test_the_days_are_those_of_utc_in_whatever_zone_the_times_come():
    tokyo = timezone(timedelta(hours=9))
    there = cost_of_run([use((MIDNIGHT - seconds(1800)).astimezone(tokyo), 3600)], BOOK)
    assert there == cost_of_run([use(MIDNIGHT - seconds(1800), 3600)], BOOK)


def test_the_zone_of_the_server_changes_nothing(monkeypatch):
    expected = cost_of_run([use(MIDNIGHT - seconds(1800), 3600)], BOOK)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert cost_of_run([use(MIDNIGHT - seconds(1800), 3600)], BOOK) == expected
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_change_to_summer_time_is_nothing_in_utc():
    changed = cost_of_run([use(datetime(2025, 3, 30, 0, tzinfo=UTC), 7200)], BOOK)
    usual = cost_of_run([use(datetime(2025, 3, 20, 0, tzinfo=UTC), 7200)], BOOK)
    assert changed.total_usd == usual.total_usd == Decimal("0.384")


def test_a_run_across_a_price_change_pays_each_price_for_its_time():
    book = PriceBook([row("2"), row("1", NOON)])
    (part,) = cost_of_run([use(NOON - seconds(900), 3600)], book).parts
    assert part.usd == Decimal("0.5") + Decimal("0.75")
    assert [r.usd_per_hour for r in part.price_rows] == [2, 1]


def test_it_says_that_a_price_is_later_or_estimated():
    book = PriceBook([row("2", NOON + seconds(60), estimated=True)])
    (part,) = cost_of_run([use(NOON, 60)], book).parts
    assert part.later_price
    assert part.estimated


def test_a_node_without_price_makes_no_price_and_never_nothing():
    strange = replace(KEY, instance_type="unheard.of")
    cost = cost_of_run([use(NOON, 3600, "1"), use(NOON, 3600, "2", strange)], BOOK)
    assert cost.total_usd is None
    assert cost.missing == ("2",)
    assert cost.known_usd == Decimal("0.192")


def test_a_node_whose_price_ended_during_the_run_has_no_price():
    book = PriceBook([row("2", valid_to=NOON)])
    cost = cost_of_run([use(NOON - seconds(1800), 3600)], book)
    assert (cost.total_usd, cost.missing, cost.known_usd) == (None, ("1",), Decimal(1))


def test_a_node_held_for_no_time_yet_still_lacks_its_price():
    strange = replace(KEY, instance_type="unheard.of")
    assert cost_of_run([use(NOON, 0, key=strange)], BOOK).total_usd is None
    assert cost_of_run([use(NOON, 0)], BOOK).total_usd == 0


def test_a_large_cost_is_exact_to_the_nano_dollar():
    """Floats have 16 digits."""
    length = timedelta(days=300, microseconds=1)
    held = NodeUse("1", KEY, ((NOON, NOON + length),), units=4096)
    cost = cost_of_run([held], PriceBook([row("98.320000001")]))
    hours = Fraction(length // timedelta(microseconds=1), 3600 * 10**6)
    assert cost.total_usd == rounded_usd(Fraction("98.320000001") * 4096 * hours)


def test_a_run_without_nodes_costs_nothing():
    cost = cost_of_run([], BOOK)
    assert (display_usd(cost.total_usd), display_usd(cost.known_usd)) == ("$0.00", "$0.00")


def test_an_own_machine_may_cost_nothing():
    book = PriceBook([row("0", precedence=OWN_RATE)])
    assert cost_of_run([use(NOON, 3600)], book).total_usd == 0


def test_the_shares_of_one_node_may_change_with_time():
    uses = [use(NOON, 1800), use(NOON + seconds(1800), 1800, share=HALF)]
    (part,) = cost_of_run(uses, BOOK).parts
    assert (part.seconds, part.usd) == (3600, Decimal("0.144"))


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ([use(NOON, -1)], "node 1: interval ends"),
        ([use(NOON.replace(tzinfo=None), 1)], "node 1: intervals need a time zone"),
        ([use(NOON, 1, share=Fraction(3, 2))], "node 1: share is 3/2"),
        ([NodeUse("1", KEY, ((NOON, NOON.replace(tzinfo=None)),))], "node 1: intervals need a"),
        ([use(NOON, 1, share=Fraction(0))], "node 1: share is 0"),
        ([use(NOON, 1, units=0)], "node 1: 0 units"),
        ([use(NOON, 10), use(NOON + seconds(5), 10)], "node 1: two uses overlap"),
        ([use(NOON, 10), use(NOON, 10, share=HALF)], "node 1: two uses overlap"),
    ],
)
def test_it_refuses_what_can_not_be_and_names_the_node(bad, words):
    with pytest.raises(ValueError, match=words):
        cost_of_run(bad, BOOK)


moments = st.integers(0, 6 * 86_400 * 10**6).map(
    lambda us: datetime(2025, 3, 28, tzinfo=UTC) + timedelta(microseconds=us)
)
lengths = st.integers(0, 3 * 86_400 * 10**6).map(lambda us: timedelta(microseconds=us))
intervals = st.builds(lambda start, length: (start, start + length), moments, lengths)
prices = st.integers(1, 10**12).map(lambda nano: Decimal(nano).scaleb(-9))
shares = st.fractions(min_value=Fraction(1, 128), max_value=1, max_denominator=128)


times = st.integers(0, 240).map(lambda halves: NOON + seconds(halves / 2))
starts_and_ends = st.lists(st.tuples(times, times).map(sorted).map(tuple), min_size=1, max_size=6)


@given(starts_and_ends)
def test_merged_intervals_are_in_order_with_breaks_between_them_and_hold_the_same_time(given_ones):
    joined = merge_intervals(given_ones)
    assert all(end < following for (_, end), (following, _) in pairwise(joined))
    assert {edge for each in joined for edge in each} <= {
        edge for each in given_ones for edge in each
    }
    assert all(any(start <= a and b <= end for start, end in joined) for a, b in given_ones)
    assert sum((end - start for start, end in joined), seconds(0)) == _time_in(given_ones)


@given(starts_and_ends, st.sampled_from([Fraction(1), HALF]), st.sampled_from(["", "i-1"]))
def test_a_start_is_billed_to_the_minimum_at_least_and_each_second_once(given_ones, share, start):
    """Any nodes may have used the machine, and its share may have changed on the way."""
    uses = [
        NodeUse(
            f"{number}" if start else "1",
            KEY,
            ((begin, end),),
            share if number % 2 else Fraction(1),
            owns_machine=True,
            machine_start=start,
        )
        for number, (begin, end) in enumerate(_cut(given_ones))
    ]
    first = min(begin for begin, _ in given_ones)
    billed = [*given_ones, (first, first + seconds(60))]
    cost = cost_of_run(uses, BOOK)
    assert sum(part.seconds for part in cost.parts) == Decimal(
        str(_time_in(billed).total_seconds())
    )


def _cut(given_ones):
    """Return the same times without overlaps, cut at each end."""
    edges = sorted({edge for each in given_ones for edge in each})
    empty = [(start, end) for start, end in merge_intervals(given_ones) if start == end]
    cut = [
        (start, end)
        for start, end in pairwise(edges)
        if any(a <= start and end <= b for a, b in given_ones)
    ]
    return sorted(cut + empty)


def _time_in(given_ones) -> timedelta:
    """Return the time in at least one interval, by half seconds."""
    halves = {
        half
        for start, end in given_ones
        for half in range((start - NOON) // seconds(0.5), (end - NOON) // seconds(0.5))
    }
    return len(halves) * seconds(0.5)


@given(intervals, prices, prices, shares, st.booleans(), st.lists(st.fractions(0, 1), max_size=5),
       st.randoms())  # fmt: skip
def test_cutting_the_time_anywhere_and_in_any_order_changes_nothing(
    interval, usd, later_usd, share, owns_machine, cuts, random
):
    book = PriceBook([row(str(usd)), row(str(later_usd), MIDNIGHT - seconds(5000))])
    start, end = interval
    edges = sorted([start, *(start + (end - start) * float(cut) for cut in cuts), end])
    pieces = list(pairwise(edges))
    random.shuffle(pieces)
    whole = NodeUse("1", KEY, (interval,), share, owns_machine)
    assert cost_of_run([replace(whole, intervals=tuple(pieces))], book) == cost_of_run(
        [whole], book
    )


@given(intervals, prices, shares, st.integers(1, 9))
def test_equal_nodes_cost_exactly_as_often_as_they_are(interval, usd, share, count):
    book = PriceBook([row(str(usd))])
    nodes = [NodeUse(str(n), KEY, (interval,), share) for n in range(count)]
    one = cost_of_run(nodes[:1], book).total_usd
    assert cost_of_run(nodes, book).total_usd == count * one


@given(st.lists(intervals, max_size=4), st.lists(intervals, max_size=4), prices, shares)
def test_the_parts_sum_to_the_total_in_whole_nano_usd(one, other, usd, share):
    book = PriceBook([row(str(usd)), row("0.085", key=OTHER)])
    uses = [NodeUse("1", KEY, tuple(one), share), NodeUse("2", OTHER, tuple(other))]
    cost = cost_of_run(uses, book)
    assert sum(part.usd for part in cost.parts) == cost.total_usd
    assert all(part.usd >= 0 and part.usd.as_tuple().exponent == -9 for part in cost.parts)
    assert len({(part.node_key, part.day) for part in cost.parts}) == len(cost.parts)
    assert cost_of_run(uses[::-1], book) == cost


@given(intervals, prices, shares)
def test_the_total_is_within_half_a_nano_usd_of_the_exact_product(interval, usd, share):
    microseconds = (interval[1] - interval[0]) // timedelta(microseconds=1)
    exact = Fraction(usd) * microseconds * share / (3600 * 10**6)
    cost = cost_of_run([NodeUse("1", KEY, (interval,), share)], PriceBook([row(str(usd))]))
    assert abs(Fraction(cost.total_usd) - exact) <= Fraction(1, 2 * 10**9)


@given(intervals, prices, lengths)
def test_a_run_that_goes_on_leaves_the_days_that_are_over_as_they_are(interval, usd, more):
    book = PriceBook([row(str(usd))])
    start, end = interval
    before = cost_of_run([NodeUse("1", KEY, ((start, end),))], book).parts
    after = cost_of_run([NodeUse("1", KEY, ((start, end + more),))], book).parts
    assert after[: max(len(before) - 1, 0)] == before[:-1]


runs = st.lists(
    st.tuples(st.integers(0, 50), st.integers(1, 50), shares, st.sampled_from("ab")), max_size=5
)


@given(runs)
def test_runs_on_one_machine_never_pay_for_more_than_the_machine(given_runs):
    uses = [
        use(NOON + seconds(start), length, f"{n}", share=share)
        for n, (start, length, share, _) in enumerate(given_runs)
    ]
    scaled = shares_on_machine(uses)
    for second in range(101):
        when = NOON + seconds(second)
        wanted = {u.node_key: u.share for u in uses if _holds(u, when)}
        paid = {u.node_key: u.share for u in scaled if _holds(u, when)}
        assert paid.keys() == wanted.keys()
        assert sum(paid.values()) == min(sum(wanted.values()), 1)
        for key, share in paid.items():
            assert share * sum(wanted.values()) == wanted[key] * sum(paid.values())
    machine = cost_of_run(
        [NodeUse("m", KEY, tuple(i for u in uses for i in u.intervals))], BOOK
    ).total_usd
    assert cost_of_run(scaled, BOOK).total_usd <= machine + Decimal("1e-9") * len(uses)


@given(runs, st.sets(st.integers(0, 4)))
def test_the_wanted_uses_are_scaled_as_among_all(given_runs, wanted):
    uses = [
        use(NOON + seconds(start), length, f"{n}", share=share)
        for n, (start, length, share, _) in enumerate(given_runs)
    ]
    keys = {f"{n}" for n in wanted}
    whole = shares_on_machine(uses)
    assert shares_on_machine(uses, keys) == tuple(u for u in whole if u.node_key in keys)


def test_a_crowd_on_one_machine_is_no_work_without_end():
    """The square of such a crowd is a minute, its cube a day."""
    crowd = [use(NOON + seconds(n), 5_000, f"{n}") for n in range(3_000)]
    pieces = shares_on_machine(crowd, {"0"})
    assert {piece.share for piece in pieces} == {Fraction(1, n) for n in range(1, 3_001)}


def _holds(one: NodeUse, when: datetime) -> bool:
    return any(start <= when < end for start, end in one.intervals)


def test_a_run_alone_on_its_machine_keeps_its_share():
    alone = use(NOON, 100, share=Fraction(1, 3))
    assert shares_on_machine([alone]) == (alone,)


@pytest.mark.parametrize(
    ("usd", "shown"),
    [
        (None, "no price"),
        ("0", "$0.00"),
        ("0.00001", "<$0.0001"),
        ("0.01234", "$0.0123"),
        ("0.01235", "$0.0124"),
        ("0.99994", "$0.9999"),
        ("0.99996", "$1.00"),
        ("6.15672", "$6.16"),
        ("1.005", "$1.01"),
        ("-0.0031", "−$0.0031"),
        ("12345.6", "$12,345.60"),
    ],
)
def test_it_shows_four_decimals_below_a_dollar_and_cents_from_there(usd, shown):
    assert display_usd(None if usd is None else Decimal(usd)) == shown
