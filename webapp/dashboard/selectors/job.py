"""The page of a job: its runs, a sentence about the last one, and the points of its charts."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import ClassVar

from django.db.models import Count, Sum
from django.utils import timezone

from webapp.advice.selectors.candidates import RecommendationDetails, advice
from webapp.advice.selectors.recommendations import (
    by_saving,
    decided_recommendations,
    open_recommendations,
)
from webapp.analysis import scope
from webapp.analysis.models import AcceptedLevel, Regression
from webapp.analysis.selectors.ledger import JOB_DAYS, LedgerView, job_ledger
from webapp.analysis.selectors.verdict import VerdictHistory, verdict_history
from webapp.analysis.selectors.work import WorkUnit, common_unit
from webapp.dashboard.selectors.baseline import baseline_of
from webapp.dashboard.selectors.history import History, history
from webapp.dashboard.selectors.probes import UNREAD, ProbeLine, probe_lines
from webapp.runs.models import Job, Run
from webapp.spend.budget_status import BudgetLine, standing_of

CHART_RUNS = 120
MOST_PAST = 5
MOST_DECIDED = 20


@dataclass(frozen=True)
class JobPage:
    """Page of a job. `charted` are the latest runs without probes, oldest first."""

    job: Job
    charted: list[Run]
    unit: WorkUnit | None
    ledger_days: ClassVar[int] = JOB_DAYS
    before: Run | None
    """The run that the last run is compared with."""
    run_count: int
    total_usd: Decimal | None
    unpriced_count: int
    recommendations: list[RecommendationDetails]
    budget: BudgetLine | None
    """The state of the job's own budget this month; None if it has none."""

    @property
    def last(self) -> Run | None:
        return self.charted[-1] if self.charted else None

    @property
    def tags(self) -> dict[str, str]:
        """Return the tags of the last run."""
        return {**self.job.tags, **(self.last.tags if self.last else {})}

    @cached_property
    def verdicts(self) -> VerdictHistory | None:
        """The verdicts on successive runs; None if none was judged yet."""
        return verdict_history(self.charted)

    @cached_property
    def probes(self) -> list[ProbeLine]:
        return probe_lines(self.job)

    @cached_property
    def open_regressions(self) -> list[Regression]:
        return list(scope.open_regressions_of(self.job))

    @property
    def last_good(self) -> Run | None:
        """The last finished run before the newest open regression; None if no regression is
        open."""
        worse = [row.since.number for row in self.open_regressions[:1]]
        good = (run for run in reversed(self.charted) if worse and run.number < worse[0])
        return next((r for r in good if r.state == Run.FINISHED and not r.is_excluded), None)

    @cached_property
    def past_regressions(self) -> list[Regression]:
        """The last that ended or were accepted."""
        over = scope.regressions_of(self.job).exclude(ended_by=None, is_accepted=False)
        return list(over[:MOST_PAST])

    @cached_property
    def accepted_levels(self) -> list[AcceptedLevel]:
        return list(scope.accepted_levels_of(self.job)[:MOST_PAST])

    @cached_property
    def decided(self) -> list[RecommendationDetails]:
        """The latest recommendations that were followed or decided on."""
        return advice(decided_recommendations(self.job)[:MOST_DECIDED])

    @cached_property
    def ledger(self) -> LedgerView | None:
        """The waste ledger of the last days' runs; None if nothing was measured."""
        return job_ledger(self.job)

    @property
    def change_pct(self) -> float | None:
        """Cost of the last finished run against the one before it, per unit of work if counted."""
        last, before = self.last, self.before
        if last is None or before is None or last.state != Run.FINISHED:
            return None
        now, then = self._comparable_usd(last), self._comparable_usd(before)
        return float((now - then) / then * 100) if now is not None and then else None

    def history(self, wanted: str = "", until: int | None = None) -> History:
        """Return the charted runs of a range. `until` chooses those that end with the run of this
        number.
        """
        chosen = _charted(self.job, until) if until is not None else None
        runs, unit = (chosen, common_unit(chosen)) if chosen else (self.charted, self.unit)
        return history(
            runs,
            unit,
            self.open_regressions,
            self._followed,
            wanted="until" if chosen else wanted,
            is_full=len(runs) == CHART_RUNS,
        )

    @property
    def _followed(self) -> dict[int, str]:
        """Return, by a run's number, the advice that it was the first to follow."""
        claims = ((item.row.claimed_by, item.row.title) for item in self.decided)
        return {run.number: title for run, title in claims if run is not None}

    def _comparable_usd(self, run: Run) -> Decimal | None:
        return self.unit.cost_usd(run) if self.unit else run.cost_usd


def job_page(job: Job) -> JobPage:
    charted = _charted(job)
    for run in charted:
        run.job = job
    # Only columns of the index `runs_counted`.
    sums = job.present_runs.aggregate(
        count=Count("*"), usd=Sum("cost_usd"), priced=Count("cost_usd")
    )
    return JobPage(
        job=job,
        charted=charted,
        unit=common_unit(charted),
        before=baseline_of(charted[-1]) if charted else None,
        run_count=sums["count"],
        total_usd=sums["usd"],
        unpriced_count=sums["count"] - sums["priced"],
        recommendations=advice(by_saving(open_recommendations(job))),
        budget=standing_of(job, timezone.now()),
    )


def _charted(job: Job, until: int | None = None) -> list[Run]:
    """Return the newest runs, or those up to a run, oldest first; empty if that isn't a run of this
    job.
    """
    newest = job.compared_runs.newest_first().defer(*UNREAD)
    if until is None:
        return list(newest[:CHART_RUNS])[::-1]
    end = newest.filter(number=until).first()
    return [*list(newest.began_before(end)[: CHART_RUNS - 1])[::-1], end] if end else []
