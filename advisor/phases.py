"""The run's time by phase: start-up, training, evaluation, checkpoints and end."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pandas as pd

from rules.checkpoints import checkpoint_stalls
from rules.frame import NodeFrame, RunFrame
from rules.intervals import covered_seconds, merge_windows
from rules.ledger import WasteLedger
from rules.rule import Window
from rules.stages import ScriptStage, stages_of
from rules.training_loop import phase_spans

START, LOOP, END = "initialise", "train", "finalise"
LABELS: Mapping[str, str] = {"evaluate": "evaluation", "checkpoint": "checkpoint"}
"""Phases that the ledger has labels for."""


def phase_seconds(
    frame: RunFrame, training: pd.DataFrame, ledger: WasteLedger | None
) -> dict[str, float]:
    """Return the wall seconds of each phase; they sum to the run's. Empty without steps and several
    stages.

    Evaluations and checkpoints have as much as their labels of the ledger. What of them comes after
    the last step is no end, the rest is no training.
    """
    phases = _by_steps(frame, training)
    if ledger is None or LOOP not in phases:
        return phases
    labelled = _labelled(frame, ledger)
    end = phases[END]
    for phase, seconds in labelled.items():
        after = min(seconds, end, _after(frame, phase, frame.duration_seconds - end))
        within = min(seconds - after, phases[LOOP])
        phases[END] -= after
        phases[LOOP] -= within
        phases[phase] = phases.get(phase, 0.0) + after + within
    return phases


def _labelled(frame: RunFrame, ledger: WasteLedger) -> dict[str, float]:
    """Return each label's part of the run, by phase. GPUs that were never used wait in every
    phase.
    """
    held = ledger.node_seconds()
    used = sum(held.values()) - held.get("unused_gpu", 0.0)
    parts = {phase: held.get(label, 0.0) for phase, label in LABELS.items()}
    return {
        phase: frame.duration_seconds * part / used
        for phase, part in parts.items()
        if part > 0 and used > 0
    }


def _after(frame: RunFrame, phase: str, since: float) -> float:
    """Return how much of the phase lies after `since`, on the node with most of it."""
    rest = Window(since, frame.duration_seconds)
    spans = (_spans(node, frame, phase) for node in frame.nodes.values())
    return max((covered_seconds(merge_windows(each), rest) for each in spans), default=0.0)


def _spans(node: NodeFrame, frame: RunFrame, phase: str) -> list[Window]:
    if phase == "evaluate":
        return phase_spans(node, phase, frame.duration_seconds)
    saved = checkpoint_stalls(node, frame)
    return saved[0] if saved else []


def _by_steps(frame: RunFrame, training: pd.DataFrame) -> dict[str, float]:
    """Return the wall seconds before the first step, between first and last, and after, and those
    of the other stages of a shell script by their names; empty without steps and several stages.
    """
    stages = _stages(frame)
    if not len(training):
        return _seconds_of(stages, 0.0, frame.duration_seconds)
    columns = ("start_seconds", "duration_seconds", "count")
    starts, lengths, counts = (training[name].to_numpy(dtype=float) for name in columns)
    start = max(float(np.fmin.reduce(starts)), 0.0)
    end = min(float(np.fmax.reduce(starts + lengths * counts)), frame.duration_seconds)
    others = [s for s in stages if not s.window.start_seconds <= start < s.window.end_seconds]
    before = _seconds_of(others, 0.0, start)
    after = _seconds_of(others, end, frame.duration_seconds)
    phases = {
        START: max(start - sum(before.values()), 0.0),
        LOOP: max(end - start, 0.0),
        END: max(frame.duration_seconds - end - sum(after.values()), 0.0),
    }
    whole = {name: before.get(name, 0.0) + after.get(name, 0.0) for name in (*before, *after)}
    return {**phases, **{_unlike(name, phases): seconds for name, seconds in whole.items()}}


def _stages(frame: RunFrame) -> list[ScriptStage]:
    """Return those of the first node that has several."""
    nodes = (stages_of(node, frame.duration_seconds) for node in frame.nodes.values())
    return next((stages for stages in nodes if len(stages) > 1), [])


def _seconds_of(stages: list[ScriptStage], begin: float, end: float) -> dict[str, float]:
    """Return the seconds by name between two times; of stages side by side the first has the
    time.
    """
    seconds: dict[str, float] = {}
    for stage in stages:
        first = max(stage.window.start_seconds, begin)
        last = min(stage.window.end_seconds, end)
        if last > first:
            seconds[stage.name] = seconds.get(stage.name, 0.0) + last - first
            begin = last
    return seconds


def _unlike(name: str, phases: Collection[str]) -> str:
    return f"{name} (stage)" if name in phases else name
