"""Sums what following recommendations saved, what could still be saved, and what was missed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple
from uuid import UUID

from django.db.models import Count, Min, QuerySet, Sum
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Coalesce

from advisor.advice.recommendation import PRIOR
from advisor.money import rounded_usd
from advisor.proof.calibration import score
from webapp.accounts.models import Workspace
from webapp.advice import recounting, scope
from webapp.advice.models import IS_OPEN, RealisedSaving, Recommendation, SavingsRecount
from webapp.advice.selectors.inbox import OpenSaving, open_saving
from webapp.advice.selectors.savings import (
    Saving,
    UsdRange,
    calibration_of,
    pairs,
    saving_of,
    with_savings,
)
from webapp.runs.scope import runs_of
from webapp.spend.curve import Curve, curve
from webapp.spend.months import Month, current_month
from webapp.spend.year import usd_by_month

MONTHS_SHOWN = 12
MOST_FOLLOWED, MOST_JOBS = 50, 100
"""The most followed recommendations, and the most jobs, that the page lists."""
_FOLLOWED = (
    *("uuid", "title", "state", "state_reason", "changed_at", "snoozed_until", "is_provisional"),
    *("rung", "reopened_by_id"),
    *("saving_low_usd", "saving_usd", "saving_high_usd", "monthly_saving_usd"),
    *("realised_low_usd", "realised_usd", "realised_high_usd", "realised_runs"),
    *("job__name", "run__number", "claimed_by__number", "proven_by__number"),
)
"""The columns that the page shows of each followed recommendation: its row and those of its runs
are wide."""
_OPEN = (
    *("job_id", "job__name", "job__uuid", "monthly_saving_usd", "saving_low_usd", "saving_usd"),
    *("rung", "seen_at", "run__cost_usd"),
    KeyTextTransform("instance_type", "run__configuration"),
)
"""The columns of `_Open`."""


class _Realised(NamedTuple):
    """Figures of each run that followed a recommendation: many, so not as models."""

    usd: Decimal
    low_usd: Decimal
    high_usd: Decimal
    baseline_usd: Decimal | None
    predicted_low_usd: Decimal | None
    predicted_usd: Decimal | None
    predicted_high_usd: Decimal | None
    recommendation_id: int
    state: str
    job_id: int
    job_name: str
    job_uuid: UUID
    began_at: datetime


_REALISED = (
    *("usd", "low_usd", "high_usd", "baseline_usd"),
    *("predicted_low_usd", "predicted_usd", "predicted_high_usd", "recommendation"),
    *("recommendation__state", "recommendation__job", "recommendation__job__name"),
    *("recommendation__job__uuid", Coalesce("run__started_at", "run__created_at")),
)
"""The columns of `_Realised`."""


@dataclass
class SavedTotal:
    """A sum over runs. The interval adds up those of the runs, so it is on the cautious side."""

    usd: Decimal = Decimal(0)
    low_usd: Decimal = Decimal(0)
    high_usd: Decimal = Decimal(0)
    runs: int = 0

    def add(self, saved: _Realised) -> None:
        self.usd += saved.usd
        self.low_usd += saved.low_usd
        self.high_usd += saved.high_usd
        self.runs += 1


@dataclass
class MonthLine:
    """Line of a month. `sums` are those of the months up to this one."""

    month: Month
    spend_usd: Decimal | None
    """The spend; None if no run has a price."""
    saved: SavedTotal = field(default_factory=SavedTotal)
    sums: UsdRange = field(default_factory=lambda: UsdRange(Decimal(0), Decimal(0), Decimal(0)))


@dataclass
class JobLine:
    name: str
    uuid: UUID
    saved: SavedTotal = field(default_factory=SavedTotal)
    """The proven saving."""
    unproven: SavedTotal = field(default_factory=SavedTotal)
    is_open: bool = False
    """True if the job has an open recommendation."""
    open_usd: Decimal | None = None
    """The possible saving a month, by its best open recommendation; None if it has none, or no
    price."""
    missed_usd: Decimal | None = None
    """The saving that later runs missed since somebody saw that recommendation; None if there is
    none or it has no price, or nobody has seen it."""


@dataclass(frozen=True)
class FollowedLine:
    row: Recommendation
    saving: Saving
    calibration: float | None
    """The realised saving over the promised one; None if unknown."""


@dataclass(frozen=True)
class SavingsPage:
    """Page of savings. `months` are the last ones, the oldest first. A saving is counted when its
    run began.
    """

    months: list[MonthLine]
    earlier: SavedTotal
    """The proven saving of runs that began before the first month."""
    jobs: list[JobLine]
    """The jobs with a figure: the most saved first, then by what is open."""
    job_count: int
    """The number of all jobs, also of those that aren't listed."""
    missed_usd: Decimal | None
    """The missed saving of all jobs; None if nothing is known."""
    followed: list[FollowedLine]
    followed_count: int
    """The number of all followed recommendations, also of those that aren't listed."""
    proven: SavedTotal
    unproven: SavedTotal
    open: OpenSaving
    calibration: float | None
    """The realised saving over the promised one, of proven ones; None if unknown."""
    calibrated_count: int
    recount: SavingsRecount | None
    """The recount of what an earlier version had counted, until a person closes the note; None
    without a note."""

    @property
    def is_empty(self) -> bool:
        return not self.followed and not self.open.job_count

    @cached_property
    def chart(self) -> Curve | None:
        """Return the curve of the proven sums, or None if there are none."""
        if not self.proven.runs:
            return None
        before = UsdRange(self.earlier.low_usd, self.earlier.usd, self.earlier.high_usd)
        return curve([before, *(line.sums for line in self.months)])


def savings_page(workspace: Workspace, now: datetime) -> SavingsPage:
    months = _months(workspace, now)
    own = scope.recommendations_of(workspace)
    saved = _realised(workspace)
    proven = [each for each in saved if each.state in Recommendation.PROVEN]
    unproven = [each for each in saved if each.state not in Recommendation.PROVEN]
    earlier = _count_by_month(months, proven)
    known = pairs(proven)
    followed = own.filter(state__in=Recommendation.FOLLOWED)
    jobs = _by_job(workspace, own, proven, unproven)
    missed = [line.missed_usd for line in jobs if line.missed_usd is not None]
    listed = followed.only(*_FOLLOWED).order_by("-changed_at", "-pk")[:MOST_FOLLOWED]
    return SavingsPage(
        months=months,
        earlier=earlier,
        jobs=jobs[:MOST_JOBS],
        job_count=len(jobs),
        missed_usd=sum(missed, Decimal(0)) if missed else None,
        followed=[
            FollowedLine(row, saving_of(row), calibration_of(row)) for row in with_savings(listed)
        ],
        followed_count=followed.count(),
        proven=_sum(proven),
        unproven=_sum(unproven),
        open=open_saving(own),
        calibration=score(known),
        calibrated_count=len(known),
        recount=recounting.note_of(workspace),
    )


def _realised(workspace: Workspace) -> list[_Realised]:
    rows = scope.realised_savings_of(workspace).select_related(None).values_list(*_REALISED)
    return [_Realised(*row) for row in rows]


def proven_sum(saved: QuerySet[RealisedSaving]) -> SavedTotal:
    """Return the sum of savings that are proven, and of those that are proven to cost more."""
    counted = saved.filter(recommendation__state__in=Recommendation.PROVEN).order_by()
    sums = counted.aggregate(
        runs=Count("pk"), **{name: Sum(name) for name in ("usd", "low_usd", "high_usd")}
    )
    return SavedTotal(**sums) if sums["runs"] else SavedTotal()


def _months(workspace: Workspace, now: datetime) -> list[MonthLine]:
    """Return the months, without those before the first run."""
    last = current_month(workspace, now)
    months = [last.months_later(-back) for back in range(MONTHS_SHOWN)]
    usd = usd_by_month(workspace, months)
    runs = runs_of(workspace).filter(started_at__gte=months[-1].start)
    first = runs.aggregate(first=Min("started_at"))["first"]
    while len(months) > 1 and months[-1].first_day not in usd:
        if first is not None and first < months[-1].end:
            break
        months.pop()
    return [MonthLine(month, usd.get(month.first_day)) for month in reversed(months)]


def _count_by_month(months: Sequence[MonthLine], saved: Iterable[_Realised]) -> SavedTotal:
    """Fill the lines; return what was saved before the first of them."""
    earlier = SavedTotal()
    for each in saved:
        began_at = each.began_at
        within = (line.saved for line in reversed(months) if line.month.start <= began_at)
        next(within, earlier).add(each)
    low, mid, high = earlier.low_usd, earlier.usd, earlier.high_usd
    for line in months:
        low, mid = low + line.saved.low_usd, mid + line.saved.usd
        high += line.saved.high_usd
        line.sums = UsdRange(low, mid, high)
    return earlier


def _by_job(
    workspace: Workspace,
    own: QuerySet[Recommendation],
    proven: Iterable[_Realised],
    unproven: Iterable[_Realised],
) -> list[JobLine]:
    lines: dict[int, JobLine] = {}

    def line_of(job_id: int, name: str, uuid: UUID) -> JobLine:
        return lines.setdefault(job_id, JobLine(name, uuid))

    for each in proven:
        line_of(each.job_id, each.job_name, each.job_uuid).saved.add(each)
    for each in unproven:
        line_of(each.job_id, each.job_name, each.job_uuid).unproven.add(each)
    best = _best_open(own)
    missed = _missed(workspace, best)
    for row in best:
        line = line_of(row.job_id, row.job_name, row.job_uuid)
        line.is_open, line.open_usd = True, row.monthly_saving_usd
        line.missed_usd = missed.get(row.job_id)
    order = [(-line.saved.usd, -(line.open_usd or 0), line.name, line) for line in lines.values()]
    return [line for *_, line in sorted(order, key=lambda each: each[:3])]


class _Open(NamedTuple):
    """Figures of each open recommendation: many, so not as models."""

    job_id: int
    job_name: str
    job_uuid: UUID
    monthly_saving_usd: Decimal | None
    saving_low_usd: Decimal | None
    saving_usd: Decimal | None
    rung: str
    seen_at: datetime | None
    run_usd: Decimal | None
    instance_type: str | None
    """The instance type of its evidence."""


def _best_open(own: QuerySet[Recommendation]) -> list[_Open]:
    """Return, for each job, the recommendation that saves most a month."""
    best: dict[int, _Open] = {}
    opened = own.filter(IS_OPEN).select_related(None).order_by("pk")
    for row in map(_Open._make, opened.values_list(*_OPEN)):
        other = best.get(row.job_id)
        if other is None or (row.monthly_saving_usd or 0) > (other.monthly_saving_usd or 0):
            best[row.job_id] = row
    return list(best.values())


def _missed(workspace: Workspace, best: Iterable[_Open]) -> dict[int, Decimal]:
    """Return the missed saving by job: the recommendation's share of the evidence's cost, of each
    later run on the same machines that began after somebody had seen it.
    """
    shown = {row.job_id: row for row in best if row.seen_at is not None and _share(row) is not None}
    if not shown:
        return {}
    since = min(row.seen_at for row in shown.values() if row.seen_at is not None)
    later = runs_of(workspace).filter(
        job__in=shown, probe__isnull=True, started_at__gte=since, cost_usd__isnull=False
    )
    figures = (
        later.select_related(None)
        .order_by()
        .values_list(
            "job_id", "started_at", "cost_usd", KeyTextTransform("instance_type", "configuration")
        )
    )
    sums: defaultdict[int, Fraction] = defaultdict(Fraction)
    for job_id, began_at, cost_usd, machine in figures:
        row = shown[job_id]
        is_like = machine == row.instance_type
        is_later = row.seen_at is not None and began_at is not None and began_at > row.seen_at
        if is_like and is_later:
            sums[job_id] += Fraction(cost_usd or 0) * (_share(row) or 0)
    return {job_id: rounded_usd(sums[job_id]) for job_id in shown}


def _share(row: _Open) -> Fraction | None:
    """Return the share of the cost that is saved; for estimates that nobody has measured, its low
    end. None without a price.
    """
    saving_usd = row.saving_low_usd if row.rung == PRIOR else row.saving_usd
    if saving_usd is None or not row.run_usd:
        return None
    return min(Fraction(saving_usd) / Fraction(row.run_usd), Fraction(1))


def _sum(saved: Iterable[_Realised]) -> SavedTotal:
    whole = SavedTotal()
    for each in saved:
        whole.add(each)
    return whole
