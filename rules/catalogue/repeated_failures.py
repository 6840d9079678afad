"""The run fails again and again, and is started again.

## What it checks
How often the processes of a run's attempts failed; nodes that fail within a minute of each other
failed once. And how long before each failure the last checkpoint was saved.

## Why it costs money
Each attempt pays for its start-up and for the work since the last checkpoint once more.

## When it fires
From `fewest` failures in one run on.

## When it is wrong
Spot instances that are taken back are failures here, and no fault of the program. Failures of
several runs of a job are not seen here, since a rule sees one run.

## How to fix it
Read the error of the first failure; try the whole way on a small machine; resume from checkpoints,
and limit the number of restarts.

## Parameters
`fewest`.

## Sources
Jeon et al. (Philly, ATC 2019): jobs that are retried after an error of their program mostly fail
again. Three is ours; so is that half to all of the lost time need not be.
"""

from __future__ import annotations

from rules.category import TIME
from rules.evidence import within
from rules.failures import failures
from rules.frame import RunFrame
from rules.rule import Numbers, Parameter, Rule, Values, Verdict, Window

RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.5, 1.0


def measure(frame: RunFrame, values: Values) -> Numbers:
    found = failures(frame)
    numbers = {
        "run_seconds": frame.duration_seconds,
        "is_told": float(found is not None or not frame.final),
        "failures_count": float(len(found or ())),
        "lost_seconds": float(sum(failure.lost_seconds for failure in found or ())),
    }
    windows = [Window(f.at_seconds - f.lost_seconds, f.at_seconds) for f in found or ()]
    return Numbers(numbers, tuple(windows))


def judge(numbers: Numbers, values: Values) -> Verdict:
    if not numbers.known("is_told"):
        return Verdict("insufficient_data", "How its processes ended was not told.")
    count, run = numbers.known("failures_count") or 0.0, numbers.known("run_seconds") or 0.0
    lost = within(numbers.known("lost_seconds") or 0.0, run)
    if count < values["fewest"]:
        return Verdict("passed", f"The run failed {count:.0f} times.")
    return Verdict(
        "fired",
        f"The run failed {count:.0f} times; {lost:.0f} s of work were lost.",
        advice="Read the error of the first failure, and limit the number of restarts.",
        waste_seconds_low=RECOVERABLE_LOW * lost,
        waste_seconds_high=RECOVERABLE_HIGH * lost,
        severity="high",
        dedupe_key="repeated_failures",
    )


RULE = Rule(
    id="repeated_failures",
    title="Fails again and again",
    category=TIME,
    version=1,
    needs=(),
    parameters=(
        Parameter("fewest", "failures", 3, 2, 1000, "Fires from here on", "ours", whole=True),
    ),
    measure=measure,
    judge=judge,
)
