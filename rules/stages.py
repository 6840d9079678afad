"""The stages of a run that is a shell script: prepare, train, evaluate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rules.frame import NodeFrame
from rules.intervals import merge_windows, subtract_windows
from rules.rule import Window
from rules.training_loop import events_of


@dataclass(frozen=True)
class ScriptStage:
    """One command of the script."""

    name: str
    window: Window


def stages_of(node: NodeFrame, end_seconds: float) -> list[ScriptStage]:
    """Return the stages in the order of their begins; a stage whose end isn't known lasts to
    `end_seconds`.
    """
    begins = {
        data.get("number"): (str(data.get("name") or ""), at - _seconds(data, "seconds"))
        for at, data in events_of(node, "stage_begin")
    }
    windows = {number: (name, began, end_seconds) for number, (name, began) in begins.items()}
    for at, data in events_of(node, "stage_end"):
        ended = at - _seconds(data, "ago_seconds")
        name = str(data.get("name") or "")
        windows[data.get("number")] = (name, ended - _seconds(data, "seconds"), ended)
    found = [ScriptStage(name, Window(b, max(e, b))) for name, b, e in windows.values()]
    return sorted(found, key=lambda stage: stage.window.start_seconds)


def start_up(node: NodeFrame, work_seconds: float, from_seconds: float = 0.0) -> list[Window]:
    """Return the time before work began, without the stages that ran before: they are no
    start-up.
    """
    whole = [Window(min(from_seconds, work_seconds), work_seconds)]
    return subtract_windows(whole, other_stages(node, work_seconds, work_seconds))


def other_stages(node: NodeFrame, work_seconds: float, end_seconds: float) -> list[Window]:
    """Return the time of all stages but that in which work began."""
    windows = [stage.window for stage in stages_of(node, end_seconds)]
    other = [w for w in windows if not w.start_seconds <= work_seconds < w.end_seconds]
    return list(merge_windows(w for w in other if w.end_seconds > w.start_seconds))


def _seconds(data: dict[str, Any], name: str) -> float:
    value = data.get(name)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return max(0.0, float(value)) if is_number and value is not None else 0.0
