"""Counts of how the rules judged the newest runs of a workspace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal

from django.db.models import Count, Q, Sum

from webapp.accounts.models import Workspace
from webapp.analysis.models import Judgement
from webapp.rulebook.preview import recent_runs

MOST_RUNS = 300
"""The newest runs: each has a wide row of each rule."""


@dataclass(frozen=True)
class RuleActivity:
    """The runs that a rule looked at.

    Attributes:
        judged: had what the rule needs, so that it fired or passed.
        lacking: lacked some of it.
        fired: are among those that were judged.
        usd_low, usd_high: what fixes of its findings give back, without what other findings claim
            of the same time; None if no finding of it has a price.
        unpriced: have a finding whose time has no price, which the sums lack.
    """

    judged: int = 0
    lacking: int = 0
    fired: int = 0
    usd_low: Decimal | None = None
    usd_high: Decimal | None = None
    unpriced: int = 0

    @property
    def needed(self) -> int:
        """Return the runs to which the rule applies."""
        return self.judged + self.lacking


def recent_activity(workspace: Workspace) -> Mapping[str, RuleActivity]:
    """Return by rule what it did in the newest MOST_RUNS runs of the last 30 days."""
    newest = recent_runs(workspace).newest_first().values_list("pk", flat=True)[:MOST_RUNS]
    rows = Judgement.objects.filter(run__in=list(newest)).order_by()
    fired = Q(state=Judgement.FIRED)
    counted = rows.values("rule").annotate(
        judged=Count("pk", filter=fired | Q(state=Judgement.PASSED)),
        lacking=Count("pk", filter=Q(state=Judgement.INSUFFICIENT)),
        fired=Count("pk", filter=fired),
        usd_low=Sum("waste_usd_low", filter=fired),
        usd_high=Sum("waste_usd_high", filter=fired),
        unpriced=Count("pk", filter=fired & Q(waste_usd_high=None, waste_seconds_high__gt=0)),
    )
    columns = (each.name for each in fields(RuleActivity))
    return {rule: RuleActivity(*did) for rule, *did in counted.values_list("rule", *columns)}
