"""The money of a run, as its page shows it besides the cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from advisor.costing.electricity import Electricity
from advisor.costing.metric_cost import BestValue, MetricsAndCost, best_values
from advisor.costing.projection import Projection
from webapp.analysis.selectors.verdict import RunVerdict, verdict_of
from webapp.analysis.selectors.work import WorkUnit, counted_units
from webapp.runs.models import Run


@dataclass(frozen=True)
class PhaseCost:
    """Cost of a phase; `share` is that of the run's cost, 0..1, or None if the run cost nothing."""

    name: str
    usd: Decimal
    share: float | None


@dataclass(frozen=True)
class RunMoney:
    basis: str
    """`list` or `your rate`."""
    list_usd: Decimal | None
    """The same run at the list price; None without a list price."""
    phases: list[PhaseCost]
    projected: Projection | None
    """The projection; None if the run has ended, or its total amount of work is unknown."""
    per_work: list[tuple[WorkUnit, Decimal]]
    until_best: list[BestValue]
    electricity: Electricity | None
    """The electricity in the cost; None: no rate of its machines has a price for it."""
    notes: list[str]
    billed_usd: Decimal | None
    billed_difference_usd: Decimal | None
    """Billed minus counted, signed; None if one of them is unknown."""
    verdict: RunVerdict | None

    @property
    def is_discounted(self) -> bool:
        return self.basis != "list"

    @property
    def has_more(self) -> bool:
        """Return whether there is more to show than the cost."""
        details = (self.phases, self.per_work, self.until_best, self.notes, self.projected)
        return any(details) or self.is_discounted or self.billed_usd is not None


def run_money(run: Run) -> RunMoney:
    """Return the run's money from its row alone."""
    return RunMoney(
        basis=run.summary.basis,
        list_usd=run.summary.list_usd,
        phases=list(_phases(run)),
        projected=None if run.has_ended else run.summary.projected,
        per_work=[(unit, unit.cost_usd(run) or Decimal(0)) for unit in counted_units(run)],
        until_best=list(best_values(_trained(run))),
        electricity=run.summary.electricity,
        notes=run.summary.cost_notes,
        billed_usd=run.billed_usd,
        billed_difference_usd=billed_difference_usd(run),
        verdict=verdict_of(run),
    )


def _phases(run: Run) -> Iterator[PhaseCost]:
    whole = run.cost_usd
    for name, usd in run.summary.phase_usd.items():
        yield PhaseCost(name, usd, float(usd / whole) if whole else None)


def _trained(run: Run) -> MetricsAndCost:
    length = run.duration.total_seconds() if run.duration else None
    return MetricsAndCost(run.metric_progress, run.cost_usd, length)


def billed_difference_usd(run: Run) -> Decimal | None:
    if run.cost_usd is None or run.billed_usd is None:
        return None
    return run.billed_usd - run.cost_usd
