"""The cost of a run by node and day."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from webapp.analysis.models import CostPart
from webapp.prices.models import Price
from webapp.runs.models import Run


@dataclass(frozen=True)
class CostLine:
    """The cost of one node on one day, and the price rows used."""

    row: CostPart
    prices: list[Price]

    @property
    def length(self) -> timedelta:
        return timedelta(microseconds=self.row.microseconds)


def cost_lines(run: Run) -> list[CostLine]:
    """Return the cost lines, which add up to the run's cost exactly."""
    parts = CostPart.objects.filter(run=run).defer("charges").select_related("node")
    parts = parts.prefetch_related("prices")
    return [CostLine(part, list(part.prices.all())) for part in parts]
