"""Calibrates the intervals of new estimates by how past ones of a workspace held."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.proof.calibration import widen_interval, widening
from advisor.recommend import Recommendation as Advised
from webapp.accounts.models import Workspace
from webapp.advice.models import RealisedSaving
from webapp.advice.selectors.savings import pairs
from webapp.analysis.outcome import Outcome

LOOKED_AT = 1000
"""The newest savings of runs that are compared with what was promised."""


def calibrate(advised: Sequence[Advised], outcome: Outcome) -> list[Advised]:
    """Return the advice with intervals as wide as past estimates of the same kind in the workspace
    call for. Without a price they have none.
    """
    workspace, cost_usd = outcome.run.workspace, outcome.cost.total_usd
    if cost_usd is None:
        return list(advised)
    return [widen_interval(each, factor_of(workspace, each.kind), cost_usd) for each in advised]


def factor_of(workspace: Workspace, kind: str) -> float:
    """Return the factor of intervals, 1 or more."""
    checked = RealisedSaving.objects.filter(
        recommendation__job__workspace=workspace,
        recommendation__kind=kind,
        recommendation__run__deleted_at=None,
    )
    return widening(pairs(checked.order_by("-pk")[:LOOKED_AT]))
