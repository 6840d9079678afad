"""The saving of a recommendation: the one place from which pages, API and mails take the
figures.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate
from typing import Protocol

from django.db.models import Prefetch, prefetch_related_objects

from advisor.advice.recommendation import PRIOR
from advisor.advice.risk import describe_risk
from advisor.proof.calibration import Pair, score
from webapp.advice.models import RealisedSaving, Recommendation
from webapp.runs.models import Run

RUNGS = {
    "measured": "measured on this job",
    "same": "this run's own figures",
    "history": "other jobs of the workspace ran on both",
    "prior": "public measurements: measure first",
}
_OF_RUN = ("number", "started_at", "created_at")
"""The columns that are read of each run that saved: its row is wide."""


@dataclass(frozen=True)
class UsdRange:
    """Amount in USD; `low` to `high` is a 90 % interval."""

    low: Decimal
    mid: Decimal
    high: Decimal


@dataclass(frozen=True)
class Saving:
    """Saving of a recommendation. `estimated` per run and `monthly_usd` were promised; None without
    a price. `realised` is what `runs` later runs saved, signed; None if not measured. `is_at_least`
    means that it rests on public measurements alone, so that only its low end counts in sums.
    """

    estimated: UsdRange | None
    monthly_usd: Decimal | None
    realised: UsdRange | None
    runs: int
    is_at_least: bool = False

    @property
    def certain_usd(self) -> Decimal | None:
        """Return the saving per run, the low end if only that counts; None without a price."""
        if self.estimated is None:
            return None
        return self.estimated.low if self.is_at_least else self.estimated.mid

    @property
    def is_idle(self) -> bool:
        """Return whether no run of the last 30 days would have saved by it."""
        return self.monthly_usd == 0 and not self.is_at_least

    @property
    def per_run_usd(self) -> Decimal | None:
        """Return the saving per run; None without a price."""
        return self.estimated.mid if self.estimated else None


def saving_of(row: Recommendation) -> Saving:
    return Saving(
        estimated=_range(row.saving_low_usd, row.saving_usd, row.saving_high_usd),
        monthly_usd=row.monthly_saving_usd,
        realised=_range(row.realised_low_usd, row.realised_usd, row.realised_high_usd),
        runs=row.realised_runs,
        is_at_least=row.rung == PRIOR,
    )


def rung_words(row: Recommendation) -> str:
    """Return the basis of the estimate in words; empty if an earlier version wrote the row."""
    return RUNGS.get(row.rung, "")


def risk_words(row: Recommendation) -> str:
    return describe_risk(row.risk)


@dataclass(frozen=True)
class SavingLine:
    """Saving of one run, and the sum up to it."""

    row: RealisedSaving
    sum_usd: Decimal


def saving_lines(row: Recommendation) -> list[SavingLine]:
    """Return the savings by run, in order of time."""
    saved = sorted(_savings(row), key=lambda each: (each.run.began_at, each.run.number))
    sums = accumulate((each.usd for each in saved), initial=Decimal(0))
    return [SavingLine(each, usd) for each, usd in zip(saved, list(sums)[1:], strict=True)]


def calibration_of(row: Recommendation) -> float | None:
    """Return the realised saving over the promised one; None if nothing was promised or
    measured.
    """
    return score(pairs(_savings(row)))


def with_savings(rows: Iterable[Recommendation]) -> list[Recommendation]:
    """Return the rows with what each run saved and which went back, in three queries for all of
    them; in none if no row was followed.
    """
    listed = list(rows)
    followed = [row for row in listed if row.state in Recommendation.FOLLOWED]
    runs = Run.objects.only(*_OF_RUN)
    prefetch_related_objects(followed, Prefetch("savings__run", runs))
    prefetch_related_objects(followed, Prefetch("not_followed_by", runs))
    return listed


class SavedRun(Protocol):
    """Saving of one run, and what was promised for its work."""

    @property
    def recommendation_id(self) -> int: ...
    @property
    def usd(self) -> Decimal: ...
    @property
    def baseline_usd(self) -> Decimal | None: ...
    @property
    def predicted_low_usd(self) -> Decimal | None: ...
    @property
    def predicted_usd(self) -> Decimal | None: ...
    @property
    def predicted_high_usd(self) -> Decimal | None: ...


def pairs(savings: Iterable[SavedRun]) -> list[Pair]:
    """Return one pair of each recommendation: what it promised for the work of its runs, and what
    they saved.
    """
    sums: dict[int, list[Decimal]] = {}
    for each in savings:
        promised = (each.predicted_low_usd, each.predicted_usd, each.predicted_high_usd)
        if None not in promised:
            figures = (*promised, each.usd, each.baseline_usd)
            known = sums.setdefault(each.recommendation_id, [Decimal(0)] * len(figures))
            sums[each.recommendation_id] = [
                a + (b or Decimal(0)) for a, b in zip(known, figures, strict=True)
            ]
    return [Pair(*figures) for figures in sums.values()]


def runs_gone_back(row: Recommendation) -> list[Run]:
    """Return the later runs that didn't follow it, because they went back; the newest first."""
    if row.state not in Recommendation.FOLLOWED:
        return []
    return sorted(row.not_followed_by.all(), key=lambda run: (run.began_at, run.number))[::-1]


def saved_by(run: Run) -> list[RealisedSaving]:
    """Return what this run saved by following recommendations, in the order of their adoption."""
    own = RealisedSaving.objects.filter(run=run, recommendation__run__deleted_at=None)
    return list(own.select_related("recommendation__run").order_by("pk"))


def _savings(row: Recommendation) -> list[RealisedSaving]:
    return list(row.savings.all()) if row.realised_runs else []


def _range(low: Decimal | None, mid: Decimal | None, high: Decimal | None) -> UsdRange | None:
    return None if low is None or mid is None or high is None else UsdRange(low, mid, high)
