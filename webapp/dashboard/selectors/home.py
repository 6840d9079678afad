"""The home page: what needs somebody, what is spent and saved, and what runs now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import accumulate
from statistics import median
from typing import Any
from uuid import UUID

from django.db.models import Count, F, QuerySet, Sum, Window
from django.db.models.functions import RowNumber

from advisor.costing.projection import Projection
from webapp.accounts.models import Workspace
from webapp.advice.scope import realised_savings_of, recommendations_of
from webapp.advice.selectors.inbox import OpenSaving, open_saving
from webapp.analysis.selectors.ledger import LedgerView, runs_ledger
from webapp.dashboard.selectors.attention import AttentionItem, attention
from webapp.dashboard.selectors.unpriced import UnpricedRuns, unpriced_runs
from webapp.directives.selectors import MayAsk, may_ask
from webapp.runs.models import Run, began
from webapp.runs.scope import runs_of
from webapp.spend.axis import Axis, axis
from webapp.spend.budget_status import standings
from webapp.spend.months import Month, current_month
from webapp.spend.savings import SavedTotal, proven_sum
from webapp.spend.scope import budgets_of
from webapp.spend.sums import usd_by_day

LEDGER_DAYS = 30
MOST_RUNNING = 10
USUAL_RUNS = 5
"""The number of finished runs of a job from which the usual cost of a running run is taken."""
WIDTH, HEIGHT = 1000.0, 140.0


@dataclass(frozen=True)
class DayPlace:
    """A day of the month, with what was spent up to its end, as a part of the chart's width."""

    day: date
    usd: Decimal
    x: float
    width: float


@dataclass(frozen=True)
class Pace:
    """The spend of a month, day by day, beside the month before. `line` and `before` are SVG points
    in a box of WIDTH x HEIGHT."""

    month: Month
    usd: Decimal | None
    """The spend so far; None if runs began and none of them has a price."""
    then_usd: Decimal | None
    """The spend of the month before, up to the same day; None as in `usd`."""
    unpriced_count: int
    """The number of this month's runs that aren't in the sum."""
    line: str
    before: str
    axis: Axis
    days: list[DayPlace]
    """The days so far, which lead to their runs."""

    @property
    def is_empty(self) -> bool:
        return not self.line and not self.before

    @property
    def is_unknown(self) -> bool:
        """Return whether runs began and no price says what they cost."""
        return self.is_empty and (self.usd is None or self.then_usd is None)


@dataclass(frozen=True)
class RunningLine:
    run: Run
    usual_usd: Decimal | None
    """The median of the job's last finished runs; None if there are none with a price."""
    usual_seconds: float | None
    """The median duration of these runs; None if there are none."""
    usual_runs: int
    ask: MayAsk | None
    """The possible requests; None if the reader may request nothing, or nothing of the run has
    arrived."""

    @property
    def projected(self) -> Projection | None:
        """The cost at the end, at its present pace; None if its total amount of work is unknown."""
        return self.run.summary.projected


@dataclass(frozen=True)
class RunningSum:
    """Sums of all running runs, also those that aren't listed."""

    count: int
    usd: Decimal | None
    """The cost so far; None if none has a price."""
    unpriced_count: int


@dataclass(frozen=True)
class HomePage:
    attention: list[AttentionItem]
    running: list[RunningLine]
    running_sum: RunningSum
    pace: Pace
    ledger: LedgerView | None
    """The ledger of the runs that began in the last days; None if nothing was measured."""
    open: OpenSaving
    proven: SavedTotal

    @property
    def ledger_days(self) -> int:
        return LEDGER_DAYS


def home_page(workspace: Workspace, now: datetime, *, may_change: bool) -> HomePage:
    """Return the home page. `may_change` says whether the reader may change things in this
    workspace.
    """
    runs = runs_of(workspace)
    running = runs.filter(state=Run.RUNNING)
    recent = runs.filter(started_at__gte=now - timedelta(days=LEDGER_DAYS)).select_related(None)
    unpriced = unpriced_runs(workspace, current_month(workspace, now), now)
    budgets = standings(workspace, budgets_of(workspace), now)
    listed = list(_with_sums(running).order_by("-started_at")[:MOST_RUNNING])
    asks = may_ask(listed) if may_change and listed else {}
    return HomePage(
        attention=attention(workspace, budgets, unpriced, now),
        running=_running_lines(listed, runs, asks),
        running_sum=_running_sum(listed),
        pace=pace(workspace, now, unpriced),
        ledger=runs_ledger(recent),
        open=open_saving(recommendations_of(workspace)),
        proven=proven_sum(realised_savings_of(workspace)),
    )


def _with_sums(running: QuerySet[Run]) -> QuerySet[Any]:
    """Add the sums of all runs to each, so that those that aren't listed need no query of their
    own.
    """
    return running.annotate(
        all_count=Window(Count("pk")),
        priced_count=Window(Count("cost_usd")),
        all_usd=Window(Sum("cost_usd")),
    )


def _running_sum(listed: list[Any]) -> RunningSum:
    if not listed:
        return RunningSum(0, None, 0)
    one = listed[0]
    return RunningSum(one.all_count, one.all_usd, one.all_count - one.priced_count)


def _running_lines(
    running: list[Run], runs: QuerySet[Run], asks: Mapping[UUID, MayAsk]
) -> list[RunningLine]:
    finished = runs.filter(
        job__in={run.job_id for run in running}, state=Run.FINISHED, probe__isnull=True
    )
    newest = Window(RowNumber(), partition_by=F("job_id"), order_by=began().desc())
    latest = finished.select_related(None).annotate(place=newest).filter(place__lte=USUAL_RUNS)
    by_job: dict[int, list[tuple[Decimal | None, float]]] = {}
    figures = latest.order_by().values_list("job_id", "cost_usd", "started_at", "ended_at")
    for job_id, usd, started_at, ended_at in figures if running else ():
        if started_at is not None and ended_at is not None:
            known = by_job.setdefault(job_id, [])
            known.append((usd, (ended_at - started_at).total_seconds()))
    return [_running_line(run, by_job.get(run.job_id, []), asks.get(run.pk)) for run in running]


def _running_line(
    run: Run, usual: list[tuple[Decimal | None, float]], ask: MayAsk | None
) -> RunningLine:
    costs = [usd for usd, _ in usual if usd is not None]
    seconds = [length for _, length in usual]
    return RunningLine(
        run=run,
        usual_usd=median(costs) if costs else None,
        usual_seconds=median(seconds) if seconds else None,
        usual_runs=len(usual),
        ask=ask,
    )


def pace(workspace: Workspace, now: datetime, unpriced: UnpricedRuns) -> Pace:
    """Return the pace. Days are UTC's, as costs are kept; a month begins in the workspace's time
    zone.
    """
    month = current_month(workspace, now)
    earlier = month.months_later(-1)
    before, mine = usd_by_day(workspace, earlier.start, month.start, now)
    today = (now.astimezone(UTC).date() - month.start.date()).days
    sums, sums_before = _sums(mine, month), _sums(before, earlier)
    top = max(sums[today], sums_before[-1])
    days = max(len(sums), len(sums_before))
    first, width = month.start.date(), WIDTH / days
    usd, then_usd = sums[today], sums_before[min(today, len(sums_before) - 1)]
    scale = axis(top, [first + timedelta(days=n) for n in range(days)])
    return Pace(
        axis=scale,
        days=[
            DayPlace(scale.days[n], usd, round(n * width, 1), round(width, 1))
            for n, usd in enumerate(sums[: today + 1])
        ],
        month=month,
        usd=usd if usd or not unpriced.month_count else None,
        then_usd=then_usd if then_usd or not unpriced.then_count else None,
        unpriced_count=unpriced.month_count,
        line=_points(sums[: today + 1], scale.top_usd if top else top, days),
        before=_points(sums_before, scale.top_usd, days) if sums_before[-1] else "",
    )


def _sums(usd: Mapping[date, Decimal], month: Month) -> list[Decimal]:
    """Return what was spent up to the end of each of the month's days."""
    first = month.start.date()
    last = (month.end - timedelta(microseconds=1)).astimezone(UTC).date()
    days = [first + timedelta(days=n) for n in range((last - first).days + 1)]
    return list(accumulate(usd.get(day, Decimal(0)) for day in days))


def _points(sums: list[Decimal], top: Decimal, days: int) -> str:
    """Return the points, from 0 at the start of the first day; empty if nothing is spent at all."""
    if not top:
        return ""
    step = WIDTH / days
    places = enumerate([Decimal(0), *sums])
    return " ".join(f"{n * step:.1f},{HEIGHT * (1 - float(usd / top)):.1f}" for n, usd in places)
