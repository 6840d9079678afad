"""The first training step comes late after the start of the run.

## What it checks
The time from the start of the run to its first training step on any node, or to the first use of a
GPU (3 s of it within a minute) if no step was recorded. If neither has happened yet on a machine
with GPUs: the time so far. The earlier stages of a shell script, such as `python prepare.py`, don't
count.

## Why it costs money
All nodes are paid for from the first second, and nothing is learned before the first step.

## When it fires
When that time is longer than `threshold_seconds`; in a run with GPUs also before the first step.

## When it is wrong
Preparing data on this machine before training may be intended, but a cheaper machine could do it. A
run that never used a GPU and recorded no step isn't judged: its GPUs are unused.

## How to fix it
Stream the data instead of copying it first (SageMaker: FastFile or Pipe mode), keep it on a
persistent volume, build packages into the image, cache compiled code. `startup_breakdown` shows how
the time was spent.

## Parameters
`threshold_seconds` is SageMaker's `threshold`, which is in minutes.

## Sources
SageMaker Debugger's MaxInitializationTime: threshold 20 minutes. Differences: the verdict depends
on when work began and stays, where SageMaker's ends with the first step; the first use of a GPU
counts like a step; a job without steps isn't initialising forever. What a fix gives back (0.5 to
0.9 of the time) is our estimate.
"""

from __future__ import annotations

from rules.activity import work_began
from rules.category import TIME
from rules.evidence import clamp_seconds
from rules.frame import RunFrame
from rules.intervals import total_seconds
from rules.parameter import MINUTE_SECONDS
from rules.rule import Claim, Numbers, Parameter, Rule, Values, Verdict, Window
from rules.stages import start_up
from rules.wording import lasting

RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.5, 0.9

LABELS = ("initialise", "restore")


def measure(frame: RunFrame, values: Values) -> Numbers:
    began = [
        total_seconds(start_up(n, n.warm_up_end_seconds()))
        for n in frame.nodes.values()
        if work_began(n)
    ]
    gpus = [(n, number) for n in frame.nodes.values() for number in n.allocated_gpus()]
    seen = [n.gpu_busy_pct(number) is not None for n, number in gpus]
    waited = min(began) if began else None
    lasted = frame.duration_seconds if waited is None else max(waited, 0.0)
    numbers = {
        "run_seconds": frame.duration_seconds,
        "is_final": float(frame.final),
        "initialisation_seconds": waited,
        "gpus_are_known": float(bool(seen) and all(seen)),
    }
    return Numbers(numbers, (Window(0.0, lasted),) if lasted > 0 else ())


def judge(numbers: Numbers, values: Values) -> Verdict:
    waited, run = numbers.get("initialisation_seconds"), numbers.get("run_seconds") or 0.0
    if waited is not None:
        return _judged(waited, run, values, f"Training started after {lasting(waited)}.")
    if not numbers.get("gpus_are_known"):
        return Verdict(
            "insufficient_data", "Missing: training steps, or the utilisation of the GPUs."
        )
    if numbers.get("is_final"):
        return Verdict("not_applicable", "No step was recorded and no GPU used: see unused_gpus.")
    if run <= values["threshold_seconds"]:
        return Verdict(
            "insufficient_data", f"Training has not started yet; the run is {lasting(run)} old."
        )
    return _judged(run, run, values, f"Training has not started after {lasting(run)}.")


def _judged(waited: float, run: float, values: Values, summary: str) -> Verdict:
    if not waited > values["threshold_seconds"]:
        return Verdict("passed", summary)
    lost = clamp_seconds(waited, run)
    return Verdict(
        "fired",
        summary,
        advice="Stream the data instead of copying it first; build packages into the image.",
        claims=(Claim(LABELS, lost, RECOVERABLE_LOW, RECOVERABLE_HIGH),),
        severity="high" if waited > 2 * values["threshold_seconds"] else "medium",
        dedupe_key="max_initialization_time",
    )


RULE = Rule(
    id="max_initialization_time",
    title="Training starts late",
    category=TIME,
    version=3,
    needs=(),
    claims_on=LABELS,
    parameters=(
        Parameter(
            "threshold_seconds",
            "s",
            1200,
            1,
            864_000,
            "Fires above this time",
            "SageMaker, 20 minutes",
            sagemaker_name="threshold",
            sagemaker_factor=MINUTE_SECONDS,
            save=600,
            safe=1800,
        ),
    ),
    measure=measure,
    judge=judge,
    sagemaker_name="MaxInitializationTime",
)
