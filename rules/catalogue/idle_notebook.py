"""An interactive session that nobody uses.

## What it checks
In a run that tells no training steps (a notebook, a shell, a debugger): stretches in which all GPUs
are at most `idle_gpu_pct` busy and the run's processes use at most `idle_cores`, by the running
median over 10 s. Where only the machine's use is known, 2 % of its cores count as its own
background.

## Why it costs money
A notebook keeps its machine over lunch, night and weekend.

## When it fires
When such a stretch lasts `idle_seconds`. While the session goes on, as soon as it has.

## When it is wrong
Someone may be reading what is on the screen. A program that waits for its data without any CPU
looks idle.

## How to fix it
Stop idle sessions automatically; do the reading on a machine without GPUs.

## Parameters
`idle_seconds`, `idle_gpu_pct` and `idle_cores`.

## Sources
One hour: jupyterhub-idle-culler's usual setting; Kubeflow on AWS stops after half an hour, Vertex
after 10 minutes to 24 hours. 5 % of a core: ours. A run that tells steps is judged by `hung` and
`idle_tail`. That 0.9 to all of it can be given back is our estimate.
"""

from __future__ import annotations

import pandas as pd

from rules.category import TIME
from rules.evidence import within
from rules.frame import RunFrame
from rules.idle import cores_idle, gpus_idle, has_gpus
from rules.intervals import intervals_where, total_seconds
from rules.rule import Numbers, Parameter, Rule, Values, Verdict

GAP_SECONDS = 300.0
RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.9, 1.0


def measure(frame: RunFrame, values: Values) -> Numbers:
    resting = _resting(frame, values)
    found = []
    if resting is not None:
        least = values["idle_seconds"]
        found = intervals_where(resting, frame.resolution_seconds, least, gap_seconds=GAP_SECONDS)
    numbers = {
        "run_seconds": frame.duration_seconds,
        "steps_count": float(len(frame.steps)),
        "idle_seconds": None if resting is None else total_seconds(found),
    }
    return Numbers(numbers, tuple(found))


def judge(numbers: Numbers, values: Values) -> Verdict:
    if numbers.known("steps_count"):
        return Verdict("not_applicable", "The run trains: it tells its steps.")
    idle, run = numbers.known("idle_seconds"), numbers.known("run_seconds") or 0.0
    if idle is None:
        return Verdict("insufficient_data", "Missing: the use of the cores, or of the GPUs.")
    if idle <= 0:
        return Verdict("passed", f"Never idle for {values['idle_seconds']:.0f} s.")
    lost = within(idle, run)
    return Verdict(
        "fired",
        f"For {lost:.0f} s nobody used the session.",
        advice="Stop idle sessions automatically, or work on a machine without GPUs.",
        waste_seconds_low=RECOVERABLE_LOW * lost,
        waste_seconds_high=RECOVERABLE_HIGH * lost,
        severity="high" if lost > 0.5 * run else "medium",
        dedupe_key="idle_notebook",
    )


def _resting(frame: RunFrame, values: Values) -> pd.Series[bool] | None:
    cores = cores_idle(frame, values["idle_cores"])
    if cores is None or not has_gpus(frame):
        return cores
    gpus = gpus_idle(frame, values["idle_gpu_pct"])
    if gpus is None:
        return None
    return pd.concat([cores, gpus], axis=1).dropna().astype(bool).all(axis=1)


RULE = Rule(
    id="idle_notebook",
    title="A session that nobody uses",
    category=TIME,
    version=1,
    needs=(),
    parameters=(
        Parameter(
            "idle_seconds",
            "s",
            3600,
            60,
            604_800,
            "Idle for this long",
            "idle-culler, 1 h",
            measured=True,
            save=1800,
            safe=7200,
        ),
        Parameter(
            "idle_gpu_pct", "%", 1, 0, 50, "GPUs idle up to", "JDS, 0 %; 1 for noise", measured=True
        ),
        Parameter(
            "idle_cores", "cores", 0.05, 0, 1000, "Processes idle up to", "ours", measured=True
        ),
    ),
    measure=measure,
    judge=judge,
)
