"""Training begins late.

## What it checks
The time from the run's start to its first training step on any node, or to the first use of a GPU
where no step was told. While neither has come yet on a machine with GPUs, the time so far.

## Why it costs money
All nodes are paid for from the first second, and nothing is learned before the first step.

## When it fires
When that time is longer than `threshold_seconds`. In a run that goes on and has GPUs, as soon as
it is.

## When it is wrong
A program that prepares its data first, on purpose on this machine, does its work then; but it
does it on the wrong machine. A run that never used a GPU nor told a step isn't judged: its GPUs are
unused.

## How to fix it
Stream the data instead of copying it first (SageMaker: FastFile or Pipe mode), keep it on a volume
that stays, bake packages into the image, cache what is compiled. `startup_breakdown` says what the
time went into.

## Parameters
`threshold_seconds` answers to SageMaker's `threshold`, which is in minutes.

## Sources
SageMaker Debugger's MaxInitializationTime: threshold 20 minutes. Differences: it is judged by when
work began and stays true afterwards, while there it is over with the first step; the first use of
a GPU counts as well as a step; a job that tells no steps isn't held to be initialising for ever.
What a fix gives back (0.5 to 0.9 of the time) is our estimate.
"""

from __future__ import annotations

from rules.activity import work_began
from rules.category import TIME
from rules.evidence import within
from rules.frame import RunFrame
from rules.parameter import MINUTE_SECONDS
from rules.rule import Numbers, Parameter, Rule, Values, Verdict, Window

RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.5, 0.9


def measure(frame: RunFrame, values: Values) -> Numbers:
    began = [n.warm_up_end_seconds() for n in frame.nodes.values() if work_began(n)]
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
    waited, run = numbers.known("initialisation_seconds"), numbers.known("run_seconds") or 0.0
    if waited is not None:
        return _judged(waited, run, values, f"Work began after {waited:.0f} s.")
    if not numbers.known("gpus_are_known"):
        return Verdict("insufficient_data", "No training step was seen, and no use of a GPU.")
    if numbers.known("is_final"):
        return Verdict("not_applicable", "No GPU was ever used, and no step told: they are unused.")
    if run <= values["threshold_seconds"]:
        return Verdict("insufficient_data", f"Work has not begun; the run is {run:.0f} s old.")
    return _judged(run, run, values, f"Work has not begun after {run:.0f} s.")


def _judged(waited: float, run: float, values: Values, summary: str) -> Verdict:
    if not waited > values["threshold_seconds"]:
        return Verdict("passed", summary)
    lost = within(waited, run)
    return Verdict(
        "fired",
        summary,
        advice="Stream the data instead of copying it first; bake packages into the image.",
        waste_seconds_low=RECOVERABLE_LOW * lost,
        waste_seconds_high=RECOVERABLE_HIGH * lost,
        severity="high" if waited > 2 * values["threshold_seconds"] else "medium",
        dedupe_key="max_initialization_time",
    )


RULE = Rule(
    id="max_initialization_time",
    title="Training begins late",
    category=TIME,
    version=1,
    needs=(),
    parameters=(
        Parameter(
            "threshold_seconds",
            "s",
            1200,
            1,
            864_000,
            "Fires above",
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
