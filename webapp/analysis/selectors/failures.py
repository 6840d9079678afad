"""The costs of failures, by cause: lost work, the next start, or all of a run that ended so."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import BooleanField, Exists, ExpressionWrapper, OuterRef, Q, QuerySet

from advisor.costing.training import added_usd
from rules import failure_causes
from rules import lives as ends
from webapp.accounts.models import Workspace
from webapp.analysis import scope
from webapp.analysis.models import Life
from webapp.runs.models import Job, Run, began

SPOT = "spot"
WORDS = failure_causes.WORDS | {
    SPOT: "Spot machine reclaimed",
    ends.SILENT: "Machine went silent",
}
"""Cause -> its title."""
_MAY_HAVE_FAILED = (
    Q(ending__in=[*ends.FAILURES, ends.SILENT])
    | Q(ending=ends.REPLACED, lost_us__gt=0)
    | Q(ending=ends.STOPPED, node__purchase_option=SPOT)
    | Q(ending=ends.OPEN, run__state=Run.LOST)
)
_NEXT = Life.objects.filter(run=OuterRef("run"), number__gt=OuterRef("number"))
RECLAIMED = (
    Q(ending=ends.SILENT)
    | Q(ending=ends.OPEN, run__state=Run.LOST)
    | Q(Exists(_NEXT), ending=ends.STOPPED, node__purchase_option=SPOT)
)
INTERRUPTED = RECLAIMED | Q(ending__in=("hardware", "signal", "timeout", "unknown"))
"""The interruptions: endings without errors of the program, which come again at the same step."""


@dataclass(frozen=True)
class FailureLine:
    """One failure of a run. Seconds are of GPUs, or of nodes without GPUs; usd None: no price."""

    life: Life
    next: Life | None
    """The life that was started after the failure; None if there was none, as far as known."""
    not_continued_usd: Decimal | None = Decimal(0)
    """The run's cost beside its lost work and its restarts, if it ended so and nothing continues
    it."""

    @property
    def run(self) -> Run:
        return self.life.run

    @property
    def at(self) -> datetime:
        return self.life.ended_at

    @property
    def cause(self) -> str:
        """Return the cause, one of `WORDS`. A spot machine that goes silent, or is told to stop and
        replaced, was taken back.
        """
        ending = self.life.ending
        is_spot = self.life.node.purchase_option == SPOT
        if ending in (ends.SILENT, ends.OPEN, ends.STOPPED):
            return SPOT if is_spot else ends.SILENT
        return "unknown" if ending == ends.REPLACED else ending

    @property
    def words(self) -> str:
        return WORDS[self.cause]

    @property
    def lost_seconds(self) -> float:
        return self.life.lost_us / 1e6

    @property
    def lost_usd(self) -> Decimal | None:
        return self.life.lost_usd

    @property
    def is_lost_known(self) -> bool:
        """Return whether the numbers of the steps before and after the failure are known."""
        return self.life.is_lost_known and (self.next is None or self.next.is_lost_known)

    @property
    def start_seconds(self) -> float:
        return self.next.start_us / 1e6 if self.next else 0.0

    @property
    def start_usd(self) -> Decimal | None:
        """Return the cost of restart, loading, start-up and first steps."""
        return self.next.start_usd if self.next else Decimal(0)

    @property
    def usd(self) -> Decimal | None:
        return added_usd((self.lost_usd, self.start_usd, self.not_continued_usd))


@dataclass
class FailureSum:
    """Failures together. usd None: none has a price."""

    label: str
    job: Job | None = None
    """The job of all failures; None for several jobs, or if not grouped by job."""
    count: int = 0
    unpriced_count: int = 0
    unknown_count: int = 0
    """The number of failures whose lost work isn't known."""
    lost_usd: Decimal | None = None
    start_usd: Decimal | None = None
    not_continued_usd: Decimal | None = None
    usd: Decimal | None = None

    def add(self, failure: FailureLine) -> None:
        self.count += 1
        self.unknown_count += not failure.is_lost_known
        if failure.usd is None:
            self.unpriced_count += 1
            return
        self.lost_usd = (self.lost_usd or Decimal(0)) + (failure.lost_usd or Decimal(0))
        self.start_usd = (self.start_usd or Decimal(0)) + (failure.start_usd or Decimal(0))
        rest = failure.not_continued_usd or Decimal(0)
        self.not_continued_usd = (self.not_continued_usd or Decimal(0)) + rest
        self.usd = (self.usd or Decimal(0)) + failure.usd


@dataclass(frozen=True)
class FailureTable:
    """Failures with their sums. `failures` are sorted, the newest first."""

    failures: list[FailureLine] = field(default_factory=list)

    @property
    def by_cause(self) -> list[FailureSum]:
        return self._sums(lambda failure: failure.words)

    @property
    def by_job(self) -> list[FailureSum]:
        sums = self._sums(lambda failure: str(failure.run.job))
        jobs = {str(each.run.job): each.run.job for each in self.failures}
        return [replace(each, job=jobs[each.label]) for each in sums]

    @property
    def total(self) -> FailureSum:
        return _sum("Total", self.failures)

    def _sums(self, label: Callable[[FailureLine], str]) -> list[FailureSum]:
        """Return the sums, the most expensive first."""
        groups: dict[str, list[FailureLine]] = defaultdict(list)
        for failure in self.failures:
            groups[label(failure)].append(failure)
        sums = [_sum(name, group) for name, group in groups.items()]
        return sorted(sums, key=lambda each: (-(each.usd or 0), -each.count, each.label))


def failures_of_runs(runs: Sequence[Run]) -> FailureTable:
    """Return the failures of a training's runs."""
    return _table(Life.objects.filter(run__in=[run.pk for run in runs]))


def failures_between(
    workspace: Workspace, start: datetime, end: datetime, job: Job | None = None
) -> FailureTable:
    """Return the failures at or after `start` and before `end`; of one job, if it is given."""
    lives = scope.lives_of(workspace, job)
    return _table(lives.filter(ended_at__gte=start, ended_at__lt=end))


def _table(lives: QuerySet[Life]) -> FailureTable:
    related = lives.select_related("run__job", "node").defer("run__metric_progress", "times")
    found = list(related.filter(_MAY_HAVE_FAILED).order_by("-ended_at", "-number"))
    runs = {life.run_id: life.run for life in found}
    successors = _next_runs({run.training_id for run in runs.values()} - {None})
    following = _following(found, successors)
    failures = [FailureLine(life, following.get(life.pk)) for life in found]
    ended_so = [each for each in failures if _ended_so(each, successors)]
    rests = _rests(ended_so, successors) if ended_so else {}
    return FailureTable(
        [
            replace(each, not_continued_usd=rests.get(each.life.pk, Decimal(0)))
            for each in failures
            if _has_failed(each)
        ]
    )


def _has_failed(failure: FailureLine) -> bool:
    """Return whether the life failed. A machine that was stopped, and not started again, was
    perhaps stopped by a person.
    """
    return failure.life.ending != ends.STOPPED or failure.next is not None


def _ended_so(failure: FailureLine, continued: Container[UUID]) -> bool:
    """Return whether the run ended with this failure. A run that continues it may have no lives
    yet, or be too large to have any.
    """
    is_last = failure.next is None and failure.run.pk not in continued
    return is_last and failure.run.state in (Run.FAILED, Run.LOST)


def _rests(
    failures: Iterable[FailureLine], successors: Mapping[UUID, UUID]
) -> dict[int, Decimal | None]:
    """Return, by life, what its run cost beside what its failures are counted with: their lost
    work, and the starts that followed them.
    """
    last = {each.run.pk: each.life for each in failures}
    before = {run: earlier for earlier, run in successors.items() if run in last}
    lives = _lives_of({*last, *before.values()})
    counted = {run: _counted(lives[run], lives[before[run]][-1:] if run in before else [])
               for run in last}  # fmt: skip
    return {
        life.pk: _less(life.run.cost_usd, added_usd(counted[run])) for run, life in last.items()
    }


def _lives_of(runs: Iterable[UUID]) -> Mapping[UUID, list[Life]]:
    """Return the runs' lives in order, with `has_failed`."""
    rows = Life.objects.filter(run__in=list(runs)).order_by("run", "number").defer("times")
    of_run: dict[UUID, list[Life]] = defaultdict(list)
    for life in rows.annotate(has_failed=ExpressionWrapper(_MAY_HAVE_FAILED, BooleanField())):
        of_run[life.run_id].append(life)
    return of_run


def _counted(own: Sequence[Any], before: Sequence[Any]) -> list[Decimal | None]:
    """Return the amounts of a run's lives that belong to failures.

    Args:
        before: the last life of the run that it continues, if there is one.
    """
    lost = [life.lost_usd for life in own if life.has_failed]
    pairs = itertools.pairwise([*before, *own])
    return lost + [after.start_usd for first, after in pairs if first.has_failed]


def _less(whole: Decimal | None, part: Decimal | None) -> Decimal | None:
    return None if whole is None or part is None else whole - part


def _following(found: Sequence[Life], successors: Mapping[UUID, UUID]) -> dict[int, Life]:
    """Return the next life after each one, in its run or else in the training's next run."""
    wanted = Q(run__in={life.run_id for life in found}, number__gt=0)
    wanted |= Q(run__in=list(successors.values()), number=0)
    later = Life.objects.filter(wanted).defer("times") if found else ()
    known = {(life.run_id, life.number): life for life in later}
    first = {run: known.get((successor, 0)) for run, successor in successors.items()}
    following = (
        (life.pk, known.get((life.run_id, life.number + 1)) or first.get(life.run_id))
        for life in found
    )
    return {life: after for life, after in following if after is not None}


def _next_runs(trainings: Iterable[int | None]) -> dict[UUID, UUID]:
    """Return, by run, the present run of its training that began after it."""
    known = list(trainings)
    if not known:
        return {}
    runs = Run.objects.present().ordinary().filter(training__in=known)
    in_order = runs.alias(began=began()).order_by("training", "began", "pk")
    rows = list(in_order.values_list("training", "pk"))
    pairs = itertools.pairwise(rows)
    return {first: second for (one, first), (other, second) in pairs if one == other}


def _sum(label: str, failures: Iterable[FailureLine]) -> FailureSum:
    summed = FailureSum(label)
    for failure in failures:
        summed.add(failure)
    return summed
