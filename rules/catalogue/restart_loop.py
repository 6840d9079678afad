"""The training is started repeatedly, and never gets further.

## What it checks
The starts of the run that failed for the same cause, one after another: an exit code, a signal,
memory, an error of the hardware, a machine that went silent. Of each, the highest step that it
reached; those of earlier runs of the same training count too.

## Why it costs money
Each start is paid in full, and nothing of it is kept.

## When it fires
From `fewest` failed starts in a row of which none after the first got more than `progress_pct`
beyond the highest step before, or which ended within `short_seconds` without any step.

## When it is wrong
Starts that look for a machine that works fail often before one succeeds. If the numbers of steps
aren't known, the rule says that it lacks data.

## How to fix it
Read the error of the first failure: a failure at the same step has its cause in the data, the
learning rate or the memory, and comes again. Limit the number of restarts (`--max-restarts`,
`max_retry_attempts`, `backoffLimit`).

## Parameters
`fewest`, `progress_pct` and `short_seconds`.

## Sources
Jeon et al. (Philly, ATC 2019): jobs that are retried after an error of their program mostly fail
again. Kubernetes' CrashLoopBackOff and PyTorch's `max_restarts` (3 in torchrun's examples) limit
the same. 1 % and five minutes are ours. At most all starts after the first could have been avoided,
at least those after the second.
"""

from __future__ import annotations

from dataclasses import dataclass

from rules.category import TIME
from rules.evidence import clamp_seconds
from rules.failure_causes import CAUSES
from rules.frame import RunFrame
from rules.ledger_labels import LIVES
from rules.lives import SILENT, RunLife, lives
from rules.lost_steps import run_steps
from rules.machine_time import held_seconds, seconds_of_run
from rules.rule import Claim, Directness, Numbers, Parameter, Rule, Values, Verdict, Window
from rules.step_ranges import RESUMED, StepRange
from rules.wording import write_count

NAMES = (*CAUSES, SILENT)
WORDS = {
    "oom": "out of memory",
    "nan": "a loss that isn't a number",
    "hardware": "an error of the hardware",
    "timeout": "a timeout",
    "signal": "a signal",
    "exit_code": "an error of the program",
    "unknown": "an unknown cause",
    SILENT: "a machine that went silent",
}


@dataclass(frozen=True)
class _Start:
    """`life` None: of an earlier run, of which only the steps are known."""

    life: RunLife | None
    reached: int
    """The highest step; 0: none."""
    is_known: bool = True


def measure(frame: RunFrame, values: Values) -> Numbers:
    starts = [*_earlier(frame), *_own(frame, values["short_seconds"])]
    loop = _longest_loop(starts, values["progress_pct"] / 100)
    own = [start.life for start in loop if start.life is not None]
    after_first = [s.life for s in loop[1:] if s.life is not None]
    after_second = [s.life for s in loop[2:] if s.life is not None]
    numbers = {
        "run_seconds": frame.duration_seconds,
        "failed_starts_count": float(sum(life.has_failed for life in lives(frame))),
        "loop_count": float(len(loop)) if own else 0.0,
        "step_number": float(loop[-1].reached) if own else None,
        "cause_number": float(NAMES.index(own[-1].ending)) if own else None,
        "steps_are_known": float(all(start.is_known for start in starts)),
        "after_first_seconds": _seconds(frame, after_first),
        "after_second_seconds": _seconds(frame, after_second),
    }
    windows = [Window(life.began_seconds, life.ended_seconds) for life in own]
    return Numbers(numbers, tuple(windows))


def judge(numbers: Numbers, values: Values) -> Verdict:
    count, run = numbers.get("loop_count") or 0.0, numbers.get("run_seconds") or 0.0
    failed = numbers.get("failed_starts_count") or 0.0
    if count < values["fewest"]:
        if not numbers.get("steps_are_known"):
            return Verdict("insufficient_data", "Missing: the steps that a failed start reached.")
        if not failed:
            return Verdict("passed", "No start failed.")
        loop = f"fewer than {values['fewest']:g} in a row without progress"
        return Verdict("passed", f"{write_count(failed, 'failed start')}, {loop}.")
    step = numbers.get("step_number") or 0.0
    cause = _cause(numbers.get("cause_number"))
    reached = f"none got beyond step {step:,.0f}" if step else "none reached a step"
    high = clamp_seconds(numbers.get("after_first_seconds") or 0.0, run)
    low = clamp_seconds(numbers.get("after_second_seconds") or 0.0, high)
    return Verdict(
        "fired",
        f"{write_count(count, 'start')} in a row failed{cause}; {reached}.",
        advice="Read the error of the first failure, mend its cause, and limit the restarts.",
        claims=(Claim.from_range(LIVES, low, high),),
        severity="high",
        dedupe_key="restart_loop",
    )


def _own(frame: RunFrame, short_seconds: float) -> list[_Start]:
    steps = run_steps(frame)
    has_steps = bool(steps.ranges) or steps.is_lost_unknown
    return [
        _own_start(life, steps.ranges, has_steps, frame, short_seconds) for life in lives(frame)
    ]


def _own_start(
    life: RunLife, ranges: list[StepRange], has_steps: bool, frame: RunFrame, short_seconds: float
) -> _Start:
    began, ended = round(life.began_seconds * 1e6), round(life.ended_seconds * 1e6)
    reached = [r.last for r in ranges if began <= r.began_us < ended]
    if reached:
        return _Start(life, max(reached))
    held = [held_seconds(n, frame, _span(life)) for n in frame.nodes.values()]
    is_short = max(held, default=0.0) < short_seconds
    is_known = is_short or (has_steps and not _has_rows(frame, life)) or not life.has_failed
    return _Start(life, 0, is_known)


def _has_rows(frame: RunFrame, life: RunLife) -> bool:
    """Return whether it made steps, of which the numbers aren't known."""
    begin, end = life.began_seconds, life.ended_seconds
    starts = (node.rows[0] for node in run_steps(frame).nodes.values())
    return any(bool(((each >= begin) & (each < end)).any()) for each in starts)


def _earlier(frame: RunFrame) -> list[_Start]:
    """Return the starts of the training's other runs that ended before this run began."""
    before = sorted((r for r in frame.other_steps if r.ended_us <= 0), key=lambda r: r.began_us)
    found: list[_Start] = []
    reached_us = None
    for each in before:
        is_new = reached_us is None or (each.begins == RESUMED and each.began_us >= reached_us)
        if is_new:
            found.append(_Start(None, each.last))
        else:
            found[-1] = _Start(None, max(each.last, found[-1].reached))
        reached_us = max(each.ended_us, reached_us if reached_us is not None else each.ended_us)
    return found


def _longest_loop(starts: list[_Start], progress: float) -> list[_Start]:
    """Return the most failed starts in a row, with the same cause, of which none after the first
    got further.
    """
    best, loop, longest = 0, list[_Start](), list[_Start]()
    for start in starts:
        if not _may_belong(start) or _differs(start, loop) or start.reached > best * (1 + progress):
            loop = []
        if _may_belong(start):
            loop = [*loop, start]
        best = max(best, start.reached)
        longest = loop if len(loop) > len(longest) else longest
    return longest


def _may_belong(start: _Start) -> bool:
    return start.is_known and (start.life is None or start.life.has_failed)


def _differs(start: _Start, loop: list[_Start]) -> bool:
    known = [each.life.ending for each in loop if each.life is not None]
    return start.life is not None and bool(known) and known[-1] != start.life.ending


def _cause(number: float | None) -> str:
    """Say how the last one ended; empty if it isn't known, or by no number that we have."""
    if number is None or not 0 <= number < len(NAMES):
        return ""
    return f" ({WORDS[NAMES[int(number)]]})"


def _seconds(frame: RunFrame, found: list[RunLife]) -> float:
    """Return the time for which nodes were held in these lives, as time of the run."""
    by_node = {
        node.key: sum(held_seconds(node, frame, _span(life)) for life in found)
        for node in frame.nodes.values()
    }
    return seconds_of_run(frame, by_node)


def _span(life: RunLife) -> Window:
    return Window(life.began_seconds, life.ended_seconds)


RULE = Rule(
    id="restart_loop",
    title="Restart loop",
    category=TIME,
    version=1,
    needs=(),
    claims_on=LIVES,
    directness=Directness.TOLD_CAUSE,
    parameters=(
        Parameter(
            "fewest",
            "starts",
            3,
            2,
            1000,
            "Fires from this many failed starts",
            "ours",
            whole=True,
            save=2,
            safe=5,
        ),
        Parameter(
            "progress_pct",
            "%",
            1,
            0,
            100,
            "More than this beyond the highest step is progress",
            "ours",
            measured=True,
        ),
        Parameter(
            "short_seconds",
            "s",
            300,
            1,
            86_400,
            "A start without a step that ends within this made no progress",
            "ours",
            measured=True,
        ),
    ),
    measure=measure,
    judge=judge,
)
