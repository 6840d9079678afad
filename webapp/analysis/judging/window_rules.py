"""The rules that looks judge: on a run's last minutes, as soon as something is true."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from rules.frame import RunFrame
from rules.registry import all_rules
from rules.rule import Rule, Values
from webapp.analysis.judging import tails


def window_rules(values: Mapping[str, Values]) -> dict[Rule, timedelta]:
    """Return the rules with how much of a run each needs."""
    windows = {
        rule: timedelta(seconds=rule.window_seconds(values[rule.id]))
        for rule in all_rules().values()
        if rule.window_seconds is not None
    }
    return {rule: length for rule, length in windows.items() if length <= tails.LONGEST}


def quiet_until(frame: RunFrame, values: Mapping[str, Values], since: datetime) -> datetime:
    """Return the time before which none of the rules finds more than in a frame that begins at
    `since`.
    """
    soonest = [
        rule.soonest_seconds(frame, values[rule.id]) if rule.soonest_seconds else 0.0
        for rule in window_rules(values)
    ]
    return since + timedelta(seconds=min(soonest, default=0.0))
