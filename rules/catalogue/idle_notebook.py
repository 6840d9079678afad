"""An interactive session is open but not used.

## What it checks
In a run without training steps (a notebook, a shell, a debugger): time in which it told no metric
and no phase, all GPUs are at most `idle_gpu_pct` busy and the run's processes use at most
`idle_cores`, by the running median over 10 s. If only the machine's utilisation is known, 2 % of
its cores count as background activity.

## Why it costs money
A notebook keeps its machine over lunch, at night and at the weekend.

## When it fires
When such idle time lasts `idle_seconds`, also while the session is still open.

## When it is wrong
A person may be reading the output. A program that waits for its data without using the CPU looks
idle.

## How to fix it
Stop idle sessions automatically. Read results on a machine without GPUs.

## Parameters
`idle_seconds`, `idle_gpu_pct` and `idle_cores`.

## Sources
One hour: jupyterhub-idle-culler's usual setting; Kubeflow on AWS stops after half an hour, Vertex
after 10 minutes to 24 hours. 5 % of a core: ours. Runs with training steps are judged by `hung` and
`idle_tail`. That 0.9 to all of the time can be given back is our estimate.
"""

from __future__ import annotations

import pandas as pd

from rules.category import TIME
from rules.evidence import clamp_seconds
from rules.frame import RunFrame
from rules.idle import BY_MACHINE, cores_idle, gpus_idle, has_gpus, is_by_machine
from rules.intervals import intervals_where, total_seconds
from rules.ledger_labels import IDLE_MACHINES
from rules.rule import Claim, Directness, Numbers, Parameter, Rule, Values, Verdict
from rules.told import AN_EVENT, ANY_STEP, untold
from rules.wording import lasting

GAP_SECONDS = 300.0
RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.9, 1.0


def measure(frame: RunFrame, values: Values) -> Numbers:
    # A run with steps is judged by other rules.
    resting = None if len(frame.steps) else _resting(frame, values)
    stretches = []
    if resting is not None:
        least = values["idle_seconds"]
        stretches = intervals_where(
            untold(resting, frame), frame.resolution_seconds, least, gap_seconds=GAP_SECONDS
        )
    numbers = {
        "run_seconds": frame.duration_seconds,
        "steps_count": float(len(frame.steps)),
        "is_by_machine": float(is_by_machine(frame)),
        "idle_seconds": None if resting is None else total_seconds(stretches),
    }
    return Numbers(numbers, tuple(stretches))


def judge(numbers: Numbers, values: Values) -> Verdict:
    if numbers.get("steps_count"):
        return Verdict("not_applicable", "Not an interactive session: the run has training steps.")
    idle, run = numbers.get("idle_seconds"), numbers.get("run_seconds") or 0.0
    if idle is None:
        return Verdict("insufficient_data", "Missing: the utilisation of the cores or of the GPUs.")
    if idle <= 0:
        return Verdict(
            "passed", f"The session was never idle for {lasting(values['idle_seconds'])}."
        )
    lost, by_machine = clamp_seconds(idle, run), numbers.get("is_by_machine")
    return Verdict(
        "fired",
        f"The session was idle for {lasting(lost)}{BY_MACHINE if by_machine else ''}.",
        advice="Stop idle sessions automatically, or work on a machine without GPUs.",
        claims=(Claim(IDLE_MACHINES, lost, RECOVERABLE_LOW, RECOVERABLE_HIGH),),
        severity="high" if lost > 0.5 * run else "medium",
        dedupe_key="idle_notebook",
    )


def _resting(frame: RunFrame, values: Values) -> pd.Series[bool] | None:
    cores = cores_idle(frame, lambda _: values["idle_cores"])
    if cores is None or not has_gpus(frame):
        return cores
    gpus = gpus_idle(frame, values["idle_gpu_pct"])
    if gpus is None:
        return None
    return pd.concat([cores, gpus], axis=1).dropna().astype(bool).all(axis=1)


def window_seconds(values: Values) -> float:
    """Return the length of the idle time, with gaps in it."""
    return values["idle_seconds"] + GAP_SECONDS


RULE = Rule(
    id="idle_notebook",
    title="Idle interactive session",
    category=TIME,
    version=3,
    needs=(),
    claims_on=IDLE_MACHINES,
    directness=Directness.TOLD_CAUSE,
    ruled_out_by=(ANY_STEP, AN_EVENT),
    parameters=(
        Parameter(
            "idle_seconds",
            "s",
            3600,
            60,
            604_800,
            "Idle for at least this long",
            "idle-culler, 1 h",
            measured=True,
            save=1800,
            safe=7200,
        ),
        Parameter(
            "idle_gpu_pct",
            "%",
            1,
            0,
            50,
            "GPUs count as idle up to",
            "JDS, 0 %; 1 for noise",
            measured=True,
        ),
        Parameter(
            "idle_cores",
            "cores",
            0.05,
            0,
            1000,
            "Processes count as idle up to",
            "ours",
            measured=True,
        ),
    ),
    measure=measure,
    judge=judge,
    window_seconds=window_seconds,
)
