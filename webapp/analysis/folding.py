"""Writes which findings of a run another one explains, and which share of their waste counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from rules.folding import Place, places
from webapp.analysis.models import Judgement
from webapp.runs.models import Run

NOT_FIRED = Place("", 1.0)


def placed(waste_seconds: Mapping[str, float], run: Run) -> Mapping[str, Place]:
    """By rule; a rule that didn't fire has nowhere to be folded.

    Args:
        waste_seconds: rule id -> upper end of the waste, of every rule that fired.
    """
    run_seconds = run.duration.total_seconds() if run.duration else 0.0
    return defaultdict(lambda: NOT_FIRED, places(waste_seconds, run_seconds))


def fold(run: Run) -> None:
    """Call in the transaction that changed some of the run's judgements."""
    rows = list(Judgement.objects.filter(run=run))
    waste = {row.rule: row.waste_seconds_high for row in rows if row.state == Judgement.FIRED}
    by_rule = placed(waste, run)
    changed = [row for row in rows if _place(row, by_rule[row.rule])]
    Judgement.objects.bulk_update(changed, ["explained_by", "counted_share"])


def _place(row: Judgement, place: Place) -> bool:
    """Returns False if nothing changed."""
    before = Place(row.explained_by, row.counted_share)
    row.explained_by, row.counted_share = place.explained_by, place.counted_share
    return before != place
