"""Finds when a run hangs: its work has begun, and then nothing makes progress."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rules.activity import work_began
from rules.frame import NodeFrame, RunFrame
from rules.idle import has_gpus, is_mostly_set
from rules.intervals import intervals_where, merge_windows, subtract_windows, total_seconds
from rules.rule import Window
from rules.starvation import wanted_cores
from rules.stillness import find_activity, is_known, stillness, unknown
from rules.told import told_moments, untold
from rules.training_loop import phase_spans, weighted_median

STEPS_WITHOUT_ONE = 10.0
GAP_SECONDS = 120.0
"""Unknown time up to this long may be part of a hang; several nodes have several gaps."""
PAUSE_SECONDS = 30.0
"""A longer time without the end of a step is left out of what the GPUs and cores do at work."""
PHASES = ("initialise", "checkpoint", "finalise")
EVALUATION_CORES = 0.75
"""The cores above which a recorded evaluation works; with less, it may hang (ours)."""
HABIT_COUNT, HABIT_TIMES = 3, 2.0
"""Pauses that ended by themselves so often are the run's habit, up to so many times their median
length (ours): `epoch_gaps` tells them."""
EVERYWHERE = ("still", "may_be_still")
NEEDED_TO_TELL_SPINNING = "power of the GPUs"
"""The evidence without which, and without SM activity, a busy GPU may wait in a collective
operation."""
NEEDED_TO_POLL = ("reads and writes", "memory")
"""The evidence without which, and without reported steps, polling can't be told from work."""


@dataclass(frozen=True)
class Hangs:
    windows: list[Window]
    is_certain: bool = False
    """The last one rests on reported steps and on all evidence about the run's own processes."""
    has_steps: bool = False
    missing: tuple[str, ...] = ()
    """The evidence that would be needed to judge time that looks like a hang, in words."""


def hangs(frame: RunFrame, idle_seconds: float, spin_seconds: float) -> list[Window] | None:
    """Return the windows of `find_hangs`, or None if unknown."""
    found = find_hangs(frame, idle_seconds, spin_seconds)
    return None if found is None else found.windows


def find_hangs(frame: RunFrame, idle_seconds: float, spin_seconds: float) -> Hangs | None:
    """Time in which no step ends and nothing works, and that nothing recorded explains.

    None: the work has not begun, or it is unknown whether GPUs and cores stand still.
    """
    began = [n.warm_up_end_seconds() for n in frame.nodes.values() if work_began(n)]
    if not began:
        return None
    if not all(is_known(node, frame) for node in frame.nodes.values()):
        return None
    silent = silences(frame)
    if silent is None and not has_gpus(frame):
        return None
    least = idle_seconds, spin_seconds
    if silent is not None:
        least = _long_enough(frame, least)
        if not _long(silent, min(least)):
            return Hangs([], has_steps=True)
    flags = _together(frame, silent)
    flags = flags[flags.index >= min(began)]
    if silent is not None:
        return _with_steps(frame, flags, silent, least)
    return _without_steps(frame, flags.assign(still=untold(flags["still"], frame)), least)


def earliest_end_seconds(frame: RunFrame, idle_seconds: float, spin_seconds: float) -> float:
    """Return the second of the frame before which no hang is found that isn't in the frame already.

    A hang begins at the end of a step or, without reported steps, within the frame. What arrives
    later can only bring later ends.
    """
    least = min(idle_seconds, spin_seconds)
    if not (frame.steps["phase"] == "train").any():
        return least
    ends = _step_ends(frame)
    known = ends[np.isfinite(ends)]
    return least + float(known.max(initial=0.0))


def silences(frame: RunFrame) -> list[Window] | None:
    """Return the times between the ends of steps of any rank, and moments at which the training
    told something else, from the first to the run's end.

    None if no training steps were reported.
    """
    steps = frame.steps
    if not frame.is_train.any():
        return None
    columns = ("start_seconds", "duration_seconds", "count")
    start, length, count = (steps[name].to_numpy(dtype=float) for name in columns)
    firsts, lasts = start + length, np.nan_to_num(count, nan=1.0)
    # In place: these columns take most of the memory that judging a long run needs.
    lasts *= length
    lasts += start
    told = told_moments(frame)
    told = told[told > np.fmin.reduce(firsts)]
    if len(told):
        firsts, lasts = np.concatenate([firsts, told]), np.concatenate([lasts, told])
    order = np.argsort(firsts, kind="stable")
    order = order[np.isfinite(firsts[order]) & np.isfinite(lasts[order])]
    firsts, lasts = firsts[order], lasts[order]
    np.maximum.accumulate(lasts, out=lasts)
    ends = firsts
    ends[:-1], ends[-1] = firsts[1:], max(frame.duration_seconds, lasts[-1])
    long = np.flatnonzero(ends - lasts >= PAUSE_SECONDS)
    return [Window(float(lasts[i]), float(ends[i])) for i in long]


def ended_well(frame: RunFrame) -> bool:
    """Return whether its session finished, or its process exited with 0."""
    for node in frame.nodes.values():
        ends = node.events[node.events["kind"].isin(["session_end", "process_exit"])]
        for data in ends["data"]:
            state, code = data.get("state"), data.get("exit_code")
            if state not in (None, "finished") or (isinstance(code, int) and code != 0):
                return False
    return True


def _with_steps(
    frame: RunFrame, flags: pd.DataFrame, silent: list[Window], least: tuple[float, float]
) -> Hangs:
    windows = _between_steps(frame, flags, silent, least)
    if windows:
        return Hangs(windows, not _lacks(frame, windows[-1]), has_steps=True)
    possible = flags.assign(still=flags["may_be_still"], spins=flags["may_spin"])
    is_unknown = bool(_between_steps(frame, possible, silent, least))
    return Hangs([], has_steps=True, missing=(NEEDED_TO_TELL_SPINNING,) if is_unknown else ())


def _between_steps(
    frame: RunFrame, flags: pd.DataFrame, silent: list[Window], least: tuple[float, float]
) -> list[Window]:
    idle_seconds, spin_seconds = least
    shortest = min(idle_seconds, spin_seconds)
    long = _long(silent, shortest)
    still = _within(_stretches(frame, flags["still"], shortest), long)
    spinning = _within(_stretches(frame, flags["still"] & flags["spins"], shortest), long)
    if frame.final and ended_well(frame):
        still, spinning = (_before_the_end(each, frame) for each in (still, spinning))
    windows = _lasting(frame, still, idle_seconds) + _lasting(frame, spinning, spin_seconds)
    return _unusual(list(merge_windows(windows)), silent, frame.duration_seconds)


def _without_steps(frame: RunFrame, flags: pd.DataFrame, least: tuple[float, float]) -> Hangs:
    """Find hangs without reported steps. Rest may be a person who reads; but nobody polls or spins
    for so long.
    """
    idle_seconds, spin_seconds = least
    spinning = _stretches(frame, flags["still"] & flags["spins"], spin_seconds)
    polling = _stretches(frame, flags["still"] & flags["polls"], idle_seconds)
    windows = _lasting(frame, spinning, spin_seconds)
    missing: set[str] = set()
    for window in _lasting(frame, polling, idle_seconds):
        lacks = _lacks(frame, window) & set(NEEDED_TO_POLL)
        missing |= lacks
        windows += [] if lacks else [window]
    lacking = [f"{words} of the run's processes" for words in sorted(missing)]
    return Hangs(list(merge_windows(windows)), missing=() if windows else tuple(lacking))


def _long_enough(frame: RunFrame, least: tuple[float, float]) -> tuple[float, float]:
    """Return the least durations, also longer than steps take."""
    idle_seconds, spin_seconds = (max(each, _long_for_steps(frame)) for each in least)
    return idle_seconds, spin_seconds


def _together(frame: RunFrame, silent: list[Window] | None) -> pd.DataFrame:
    """Return the flags of `stillness` at the ticks at which every node is known: those `EVERYWHERE`
    hold of all nodes, the others of some.
    """
    known = [stillness(n, frame, _at_work(n, frame, silent)) for n in frame.nodes.values()]
    if len(known) == 1:
        return known[0]
    both = pd.concat(known, axis=1, keys=range(len(known))).dropna().astype(bool)
    return pd.DataFrame(
        {
            name: _of_nodes(both, name).agg("all" if name in EVERYWHERE else "any", axis=1)
            for name in known[0].columns
        }
    )


def _of_nodes(flags: pd.DataFrame, name: str) -> pd.DataFrame:
    return flags.loc[:, flags.columns.get_level_values(1) == name]


def _at_work(node: NodeFrame, frame: RunFrame, silent: list[Window] | None) -> pd.Series[bool]:
    """Return whether steps ended around each of the node's ticks."""
    times = node.judged.index.to_numpy(dtype=float)
    if silent is None:
        return pd.Series(False, index=node.judged.index)
    starts = np.array([w.start_seconds for w in silent])
    ends = np.array([w.end_seconds for w in silent])
    began = float(frame.steps.loc[frame.steps["phase"] == "train", "start_seconds"].min())
    inside = np.searchsorted(starts, times, "right") > np.searchsorted(ends, times, "right")
    return pd.Series((times >= began) & ~inside, index=node.judged.index)


def _stretches(frame: RunFrame, flags: pd.Series[bool], least_seconds: float) -> list[Window]:
    step = frame.resolution_seconds
    return intervals_where(flags, step, least_seconds, gap_seconds=GAP_SECONDS)


def _lasting(frame: RunFrame, windows: list[Window], least_seconds: float) -> list[Window]:
    """Return the parts of the windows that nothing explains and in which nothing moves."""
    windows = _long(windows, least_seconds)
    if not windows:
        return []
    windows = _long(_unexplained(frame, windows), least_seconds)
    step = frame.resolution_seconds
    for node in frame.nodes.values():
        moves = [flags for w in windows for flags in find_activity(node, frame, w)]
        works = [w for flags in moves for w in intervals_where(flags, step)]
        windows = _long(subtract_windows(windows, works), least_seconds)
    return windows


def _long(windows: Iterable[Window], least_seconds: float) -> list[Window]:
    return [w for w in windows if w.end_seconds - w.start_seconds >= least_seconds - 1e-9]


def _within(windows: list[Window], silent: list[Window]) -> list[Window]:
    """Return the parts of the windows that lie in the silences."""
    pairs = ((w, s) for w in windows for s in silent)
    both = (
        Window(max(w.start_seconds, s.start_seconds), min(w.end_seconds, s.end_seconds))
        for w, s in pairs
    )
    return [w for w in both if w.end_seconds > w.start_seconds]


def _before_the_end(windows: list[Window], frame: RunFrame) -> list[Window]:
    """Return the windows without those after the last step of a run that ended well: they are its
    idle tail.
    """
    last = float(_step_ends(frame).max())
    return [w for w in windows if w.start_seconds < last - frame.resolution_seconds]


def _step_ends(frame: RunFrame) -> NDArray[np.float64]:
    steps = frame.steps
    ends = steps["start_seconds"] + steps["duration_seconds"] * steps["count"].fillna(1)
    return ends.to_numpy(dtype=float)


def _long_for_steps(frame: RunFrame) -> float:
    """Return the time of ten median steps, without each rank's first unless there is no other."""
    parts = zip(*(node.training_lengths() for node in frame.nodes.values()), strict=True)
    lengths, counts = (np.concatenate(part) if len(part) > 1 else part[0] for part in parts)
    if not len(lengths):
        train = frame.steps[frame.steps["phase"] == "train"]
        lengths = train["duration_seconds"].to_numpy(dtype=float)
        counts = np.ones(len(lengths))
    return STEPS_WITHOUT_ONE * weighted_median(lengths, counts)


def _unexplained(frame: RunFrame, windows: list[Window]) -> list[Window]:
    """Return the windows without phases that are normally idle, and without evaluation that works
    on the cores.
    """
    for node in frame.nodes.values():
        for phase in PHASES:
            windows = subtract_windows(windows, phase_spans(node, phase, frame.duration_seconds))
        windows = subtract_windows(windows, _evaluation_on_cores(node, frame, windows))
    return windows


def _evaluation_on_cores(node: NodeFrame, frame: RunFrame, windows: list[Window]) -> list[Window]:
    """Return the parts of evaluations in the windows that work; all of them if the cores are
    unknown.
    """
    spans = _within(phase_spans(node, "evaluate", frame.duration_seconds), windows)
    cores = wanted_cores(node, frame.resolution_seconds) if spans else None
    if cores is None:
        return spans
    works = intervals_where(is_mostly_set(cores > EVALUATION_CORES), frame.resolution_seconds)
    return _within(works, spans)


def _lacks(frame: RunFrame, window: Window) -> set[str]:
    return {words for n in frame.nodes.values() for words in unknown(n, frame, window)}


def _unusual(windows: list[Window], silent: list[Window], end_seconds: float) -> list[Window]:
    """Return the windows without pauses that the run has come back from often."""
    ended = [s for s in silent if s.end_seconds < end_seconds]
    pauses = [total_seconds(_within(windows, [s])) for s in ended]
    recovered = [seconds for seconds in pauses if seconds > 0]
    if len(recovered) < HABIT_COUNT:
        return windows
    return _long(windows, HABIT_TIMES * float(np.median(recovered)))
