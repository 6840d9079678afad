"""The training takes long to work again after a failure.

## What it checks
For each start after the first one: the time from the end of the process before, or from the start
of the new machine, to the first training step. Time without a machine isn't counted.

## Why it costs money
The machines are paid for while they wait, start, load the checkpoint and prepare the data.

## When it fires
From `fewest` restarts, if the median takes at least `restart_seconds`, and all of them together at
least `share_pct` of the run.

## When it is wrong
When a restart had to repair something first, such as a file system. A restart without any step is
not counted here: see `restart_loop`.

## How to fix it
Keep the image, the packages and the data on the machine or on a volume that outlives it. Load the
checkpoint from a local disk, with mmap or in parallel. Keep the compiler's cache
(`TORCHINDUCTOR_CACHE_DIR`). Shorten the timeout after which the launcher notices the failure.

## Parameters
`fewest`, `restart_seconds`, `share_pct`, and `fair_seconds`: what a restart takes after the fix.

## Sources
Five minutes: what the advisor assumes for a replaced spot machine (ours). Meta (Effective Training
Time, pytorch.org) and NVIDIA count the time to recover as time without training. One minute for a
prepared restart, and 2 % of the run, are ours.
"""

from __future__ import annotations

import numpy as np

from rules.category import TIME
from rules.evidence import clamp_seconds
from rules.frame import NodeFrame, RunFrame
from rules.global_steps import first_rank
from rules.lives import RunLife, lives
from rules.machine_time import held_seconds, seconds_of_run
from rules.rule import Claim, Numbers, Parameter, Rule, Values, Verdict, Window
from rules.training_loop import training_columns
from rules.wording import lasting, write_count

RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.5, 1.0

LABELS = ("restart", "restore", "initialise")


def measure(frame: RunFrame, values: Values) -> Numbers:
    waits = {node.key: _waits(node, frame) for node in frame.nodes.values()}
    longest = _longest_of_each(frame, waits)
    lengths = [window.end_seconds - window.start_seconds for window in longest]
    held = {
        key: sum(held_seconds(frame.nodes[key], frame, window) for _, window in found)
        for key, found in waits.items()
    }
    numbers = {
        "run_seconds": frame.duration_seconds,
        "restarts_count": float(len(longest)),
        "restart_seconds": float(np.median(lengths)) if lengths else None,
        "all_seconds": seconds_of_run(frame, held),
    }
    return Numbers(numbers, tuple(longest))


def judge(numbers: Numbers, values: Values) -> Verdict:
    count, run = numbers.get("restarts_count") or 0.0, numbers.get("run_seconds") or 0.0
    median, every = numbers.get("restart_seconds"), numbers.get("all_seconds")
    if not count:
        return Verdict("passed", "No restart reached a step.")
    if median is None or every is None:
        return Verdict("insufficient_data", "Missing: how long the restarts took.")
    if count < values["fewest"]:
        took = f"{write_count(count, 'restart')} to the first step took {lasting(median)}"
        return Verdict("passed", f"{took}; fewer than {values['fewest']:g} aren't judged.")
    share = round(100 * every / run, 6) if run > 0 else 0.0
    each = " each (median)" if count > 1 else ""
    summary = (
        f"{write_count(count, 'restart')} took {lasting(median)}{each} to the first step, "
        f"{share:.1f} % of the run."
    )
    if median < values["restart_seconds"] or share < values["share_pct"]:
        return Verdict("passed", summary)
    above = max(1 - values["fair_seconds"] / median, 0.0)
    return Verdict(
        "fired",
        summary,
        advice="Keep image, data and compiler cache on the machine; load the checkpoint locally.",
        claims=(
            Claim(
                LABELS, clamp_seconds(every, run), RECOVERABLE_LOW * above, RECOVERABLE_HIGH * above
            ),
        ),
        severity="high" if share >= 10 else "medium",
        dedupe_key="slow_restart",
    )


def _waits(node: NodeFrame, frame: RunFrame) -> list[tuple[int, Window]]:
    """Return the number of each life after the first that has steps on this node, and its start."""
    starts = np.sort(training_columns(node, first_rank(node), "start_seconds")[0])
    found = []
    for number, life in enumerate(lives(frame)[1:], 1):
        first = starts[(starts >= life.began_seconds) & (starts < life.ended_seconds)][:1]
        if len(first):
            found.append((number, Window(_begin(node, life), float(first[0]), node.key)))
    return found


def _begin(node: NodeFrame, life: RunLife) -> float:
    """Return the start of the time for which the node was held in this life."""
    held = [start for start, end in node.intervals if end > life.began_seconds]
    return max(life.began_seconds, min(held, default=life.began_seconds))


def _longest_of_each(frame: RunFrame, waits: dict[str, list[tuple[int, Window]]]) -> list[Window]:
    """Return for each life the start on the node that took longest: the others wait for it."""
    of_life: dict[int, Window] = {}
    for found in waits.values():
        for number, window in found:
            known = of_life.get(number)
            if known is None or _seconds(window) > _seconds(known):
                of_life[number] = window
    return [of_life[number] for number in sorted(of_life)]


def _seconds(window: Window) -> float:
    return window.end_seconds - window.start_seconds


RULE = Rule(
    id="slow_restart",
    title="Slow restarts",
    category=TIME,
    version=1,
    needs=("steps",),
    claims_on=LABELS,
    parameters=(
        Parameter("fewest", "restarts", 2, 1, 1000, "Fires from this many", "ours", whole=True),
        Parameter(
            "restart_seconds",
            "s",
            300,
            1,
            86_400,
            "If the median takes at least",
            "ours",
            save=180,
            safe=600,
        ),
        Parameter("share_pct", "%", 2, 0, 100, "And together this share of the run", "ours"),
        Parameter("fair_seconds", "s", 60, 0, 86_400, "A prepared restart takes", "ours"),
    ),
    measure=measure,
    judge=judge,
)
