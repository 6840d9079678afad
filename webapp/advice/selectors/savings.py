"""What a recommendation saves: the one place from which pages, API and mails take the figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate
from typing import Protocol

from django.db.models import Prefetch, prefetch_related_objects

from advisor.proof.calibration import Pair, score
from webapp.advice.models import RealisedSaving, Recommendation
from webapp.runs.models import Run

RUNGS = {
    "measured": "measured on this job",
    "same": "same GPU",
    "history": "other jobs of the workspace ran on both",
    "prior": "public measurements: measure first",
}
RISKS = ((0.8, "very low"), (1.6, "low"), (2.4, "medium"), (3.2, "high"), (4.0, "very high"))
"""Up to this risk of 4, in words."""
_OF_RUN = ("number", "started_at", "created_at")
"""What is read of each run that saved: its row is wide."""


@dataclass(frozen=True)
class Range:
    """USD; `low` to `high` is a 90 % interval."""

    low: Decimal
    mid: Decimal
    high: Decimal


@dataclass(frozen=True)
class Saving:
    """`estimated` per run and `monthly_usd` were promised; None: no price. `realised` is what
    `runs` later runs saved, signed; None: not measured."""

    estimated: Range | None
    monthly_usd: Decimal | None
    realised: Range | None
    runs: int

    @property
    def per_run_usd(self) -> Decimal | None:
        """None: no price."""
        return self.estimated.mid if self.estimated else None


def saving_of(row: Recommendation) -> Saving:
    return Saving(
        estimated=_range(row.saving_low_usd, row.saving_usd, row.saving_high_usd),
        monthly_usd=row.monthly_saving_usd,
        realised=_range(row.realised_low_usd, row.realised_usd, row.realised_high_usd),
        runs=row.realised_runs,
    )


def rung_words(row: Recommendation) -> str:
    """Empty: written by an earlier version."""
    return RUNGS.get(row.rung, "")


def risk_words(row: Recommendation) -> str:
    return next((words for most, words in RISKS if row.risk <= most), RISKS[-1][1])


@dataclass(frozen=True)
class SavingLine:
    """What one run saved, and the sum up to it."""

    row: RealisedSaving
    sum_usd: Decimal


def saving_lines(row: Recommendation) -> list[SavingLine]:
    """By run, in order of time."""
    saved = sorted(_savings(row), key=lambda each: (each.run.began_at, each.run.number))
    sums = accumulate((each.usd for each in saved), initial=Decimal(0))
    return [SavingLine(each, usd) for each, usd in zip(saved, list(sums)[1:], strict=True)]


def calibration_of(row: Recommendation) -> float | None:
    """Realised over promised; None: nothing was promised or measured."""
    return score(pairs(_savings(row)))


def with_savings(rows: Iterable[Recommendation]) -> list[Recommendation]:
    """The rows with what each run saved, in two queries for all of them; in none if nothing was."""
    listed = list(rows)
    runs = Prefetch("savings__run", Run.objects.only(*_OF_RUN))
    prefetch_related_objects([row for row in listed if row.realised_runs], runs)
    return listed


class Realised(Protocol):
    """What one run saved, and what was promised for its work."""

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


def pairs(savings: Iterable[Realised]) -> list[Pair]:
    """One of each recommendation: what it promised for the work of its runs, and what they
    saved."""
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


def saved_by(run: Run) -> list[RealisedSaving]:
    """What this run saved by following recommendations."""
    own = RealisedSaving.objects.filter(run=run, recommendation__run__deleted_at=None)
    return list(own.select_related("recommendation__run").order_by("pk"))


def _savings(row: Recommendation) -> list[RealisedSaving]:
    return list(row.savings.all()) if row.realised_runs else []


def _range(low: Decimal | None, mid: Decimal | None, high: Decimal | None) -> Range | None:
    return None if low is None or mid is None or high is None else Range(low, mid, high)
