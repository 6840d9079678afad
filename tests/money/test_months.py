"""The months of any time zone sum to the cost of a run, and each has what its seconds cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from random import Random
from zoneinfo import ZoneInfo

import pytest

from advisor.costing.charges import as_document, from_document
from advisor.costing.cost import cost_of_run
from advisor.pricing.book import PriceBook
from tests.money.random_runs import YEAR, ZONES, RandomRun, exact_usd, random_run, rounded
from tests.web import factories
from webapp.accounts.models import Workspace
from webapp.analysis.models import CostPart
from webapp.runs.models import Job, Run
from webapp.spend.months import Month
from webapp.spend.sums import spends, usd_by_day
from webapp.spend.year import by_month

pytestmark = pytest.mark.django_db

EVERYDAY, ALL = 40, 3_000


def months(zone: str) -> list[Month]:
    """Return months from before the earliest run to after the latest. Each begins at midnight
    there.
    """
    found = [Month(YEAR - 1, 12, ZoneInfo(zone)).months_later(n) for n in range(15)]
    for month in found:
        local = month.start.astimezone(ZoneInfo(zone))
        assert (local.day, local.time()) == (1, time())
    return found


@pytest.fixture
def workspace() -> Workspace:
    return factories.workspace()


def stored(workspace: Workspace, runs: list[RandomRun]) -> list[Run]:
    """Store each in a job of its own, with the rows that its analysis writes."""
    return [_stored(factories.job(workspace, f"job-{n}"), run) for n, run in enumerate(runs)]


def _stored(job: Job, run: RandomRun) -> Run:
    row = factories.run(job, cost=None, started_at=run.start)
    keys = sorted({use.node_key for use in run.uses})
    nodes = {key: factories.node(row, machine_id=key) for key in keys}
    cost = cost_of_run(run.uses, PriceBook(run.rows))
    CostPart.objects.bulk_create(
        CostPart(
            run=row,
            node=nodes[part.node_key],
            day=part.day,
            microseconds=int(part.seconds * 10**6),
            usd=part.usd,
            charges=as_document(part.day, part.charges),
        )
        for part in cost.parts
    )
    row.cost_usd = cost.total_usd
    row.save(update_fields=["cost_usd"])
    return row


@pytest.mark.parametrize(
    "count", [EVERYDAY, pytest.param(ALL, marks=pytest.mark.long)], ids=["some", "all"]
)
def test_the_months_of_random_runs_sum_to_their_costs_in_every_zone(
    workspace: Workspace, count: int
) -> None:
    """Each month has what its seconds cost, by an independent count in fractions."""
    random = Random(20261123)
    runs = [random_run(random) for _ in range(count)]
    rows = stored(workspace, runs)
    for zone in ZONES:
        spent = defaultdict(dict)
        for month in months(zone):
            for each in spends(workspace, month.start, month.end):
                spent[each.job][month.first_day] = each.usd or Decimal(0)
        for run, row in zip(runs, rows, strict=True):
            by_day = spent[row.job.name]
            assert sum(by_day.values()) == row.cost_usd, (zone, run)
            for month in months(zone):
                expected = _expected(run, month.start, month.end)
                assert by_day.get(month.first_day, 0) == expected, (zone, month, run)
        shown = by_month(workspace, months(zone)[::-1])
        assert sum(each.usd or 0 for each in shown) == sum(row.cost_usd for row in rows)
        assert [each.usd or 0 for each in shown[::-1]] == [
            sum(by_day.get(month.first_day, 0) for by_day in spent.values())
            for month in months(zone)
        ]


def _expected(run: RandomRun, start: datetime, end: datetime) -> Decimal:
    """Return the expected cost: each node's running cost is rounded where a month begins."""
    total = Fraction(0)
    for key in {use.node_key for use in run.uses}:
        total += rounded(exact_usd(run, key, end)) - rounded(exact_usd(run, key, start))
    return Decimal(int(total * 10**9)).scaleb(-9)


def test_the_bars_of_a_month_sum_to_the_month(workspace: Workspace) -> None:
    random = Random(7)
    stored(workspace, [random_run(random) for _ in range(20)])
    for month in months("Asia/Kathmandu"):
        (bars,) = usd_by_day(workspace, month.start, month.end)
        whole = sum(each.usd or 0 for each in spends(workspace, month.start, month.end))
        assert sum(bars.values()) == whole


def _parts() -> Iterator[tuple[RandomRun, object]]:
    random = Random(11)
    for _ in range(60):
        run = random_run(random)
        for part in cost_of_run(run.uses, PriceBook(run.rows)).parts:
            yield run, part


def test_any_moments_split_a_part_into_amounts_that_are_never_negative_and_sum_to_it() -> None:
    random = Random(12)
    for run, part in _parts():
        paid = from_document(part.day, as_document(part.day, part.charges))
        assert paid == part.charges
        midnight = datetime.combine(part.day, datetime.min.time(), run.start.tzinfo)
        edges = [edge for each in paid.charges for edge in (each.start, each.end)]
        some = [midnight + timedelta(microseconds=random.randrange(86_400 * 10**6)) for _ in "abc"]
        moments = sorted([midnight, *edges, *some, midnight + timedelta(days=1)])
        before = [paid.usd_before(moment) for moment in moments]
        assert before == sorted(before)
        assert (before[0], before[-1]) == (0, part.usd)
        earlier = exact_usd(run, part.node_key, midnight)
        for moment, usd in zip(moments, before, strict=True):
            exact = exact_usd(run, part.node_key, moment)
            assert Fraction(usd) == rounded(exact) - rounded(earlier)
