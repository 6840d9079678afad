"""Compares two runs: the changes, the costs, and the result in one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from advisor.comparison import wording
from advisor.comparison.attribution import CostFactors, Term, attribute
from advisor.comparison.caveats import caveats
from advisor.comparison.changes import Change, changes_of
from advisor.comparison.job_metrics import USUAL, JobMetrics
from advisor.comparison.markdown import markdown
from advisor.comparison.quality import Quality, quality_of_b
from advisor.comparison.refusals import is_unfinished, other_workload, reasons
from advisor.comparison.rows import MetricRow, metric_rows
from advisor.comparison.run_facts import RunFacts
from advisor.comparison.work import SharedWork, shared_work

__all__ = ["Change", "Comparison", "MetricRow", "RunFacts", "compare"]


@dataclass(frozen=True)
class Comparison:
    """`a` is the earlier run, `b` the run compared with it."""

    a: RunFacts
    b: RunFacts
    sentence: str
    configuration_changes: tuple[Change, ...]
    metrics: tuple[MetricRow, ...]
    per_work: SharedWork
    attribution: tuple[Term, ...] | None
    """Adds up to `b`'s cost minus `a`'s; None if a cost or a factor isn't known."""
    warnings: tuple[str, ...]
    incomparable_because: tuple[str, ...]
    """The reasons why the costs are not compared, by run and field; empty if they are."""
    is_same_work: bool
    """The same workload and the same amount of work."""
    quality: Quality
    """Results that are or may be worse in `b`."""
    saving_usd: Decimal | None
    """`a`'s cost minus `b`'s, signed; None if no saving can be claimed."""

    @property
    def why(self) -> str:
        """Return the causes of the difference in cost, in one sentence; empty if unknown."""
        return wording.describe_causes(self.attribution)

    @property
    def exactly(self) -> str:
        """Return the calculation from `a`'s cost to `b`'s, to the nano-dollar; empty if unknown."""
        return wording.describe_calculation(self.a.cost_usd, self.b.cost_usd, self.attribution)

    @property
    def cost_change_pct(self) -> Decimal | None:
        """Return the change of the cost for the same work, start-up included; for different amounts
        of work the change of the cost per unit without start-up. None if `incomparable_because`.
        """
        work = self.per_work
        old, new = (
            (work.a_usd, work.b_usd) if work.is_same else (work.a_growing_usd, work.b_growing_usd)
        )
        if self.incomparable_because or not old or new is None:
            return None
        return 100 * (new / old - 1)

    def markdown(self) -> str:
        """Return Markdown for a pull request or an issue: the sentence, the changes, and collapsed
        figures.
        """
        return markdown(self)


def compare(a: RunFacts, b: RunFacts, metrics: JobMetrics = USUAL) -> Comparison:
    """Compare `b` with the earlier run `a`.

    A saving is claimed only for two complete, finished, priced runs that did the same work, if the
    later results aren't worse.

    Args:
        metrics: how the job's metrics are judged.
    """
    changes = changes_of(a, b)
    work = shared_work(a, b, batch_differs=any("batch" in change.name for change in changes))
    refused = reasons(a, b, work)
    is_same_workload = not other_workload(a, b)
    is_same = is_same_workload and work.is_same
    quality = quality_of_b(a.quality, b.quality, metrics)
    return Comparison(
        a=a,
        b=b,
        sentence=wording.sentence(a, b, work, quality, is_same_workload=is_same_workload),
        configuration_changes=changes,
        metrics=tuple(metric_rows(a, b, work, metrics, is_compared=not refused)),
        per_work=work,
        attribution=_attribution(a, b),
        warnings=tuple(caveats(a, b, work, changes, quality)),
        incomparable_because=refused,
        is_same_work=is_same,
        quality=quality,
        saving_usd=_saving(a, b) if is_same and not quality else None,
    )


def _saving(a: RunFacts, b: RunFacts) -> Decimal | None:
    if is_unfinished(a) or is_unfinished(b) or a.cost_usd is None or b.cost_usd is None:
        return None
    return a.cost_usd - b.cost_usd


def _attribution(a: RunFacts, b: RunFacts) -> tuple[Term, ...] | None:
    """Return the causes, or None; also for a partial run: what is missing would look like a
    cause.
    """
    if a.incomplete_because or b.incomplete_because:
        return None
    before, after = _cost_factors(a), _cost_factors(b)
    return attribute(before, after) if before and after else None


def _cost_factors(run: RunFacts) -> CostFactors | None:
    if run.cost_usd is None or run.usd_per_hour is None or run.duration_seconds is None:
        return None
    seconds = Decimal(str(run.duration_seconds))
    phases = {name: Decimal(str(round(s, 6))) for name, s in run.phase_seconds.items()}
    return CostFactors(
        run.cost_usd, run.usd_per_hour, run.node_count, seconds, phases, run.electricity_usd
    )
