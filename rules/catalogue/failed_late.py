"""The run failed late, and what it had done since the last checkpoint is lost.

## What it checks
Whether the run ended in a failure, how long it had run, and how long before that it had saved its
last checkpoint.

## Why it costs money
What was not saved is computed again, at the same price.

## When it fires
When the run failed after at least `late_seconds`, and at least `lost_seconds` lie between its last
checkpoint (its start, where none was told) and the failure.

## When it is wrong
A checkpoint that nobody told of is not seen. A failure after the last result was written loses
nothing.

## How to fix it
Save more often and resume from the last checkpoint; try the whole way on a small machine first:
one epoch, one evaluation, one checkpoint.

## Parameters
`late_seconds` and `lost_seconds`.

## Sources
Jeon et al. (Philly, ATC 2019) count failures among the three things that waste GPUs. Half an hour
and five minutes are ours; so is that half to all of what was lost need not be.
"""

from __future__ import annotations

from rules.category import TIME
from rules.evidence import within
from rules.failures import failures
from rules.frame import RunFrame
from rules.rule import Numbers, Parameter, Rule, Values, Verdict, Window

RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.5, 1.0
AT_END_SECONDS = 60.0


def measure(frame: RunFrame, values: Values) -> Numbers:
    found = failures(frame)
    last = found[-1] if found else None
    at_end = last is not None and last.at_seconds >= frame.duration_seconds - AT_END_SECONDS
    numbers = {
        "run_seconds": frame.duration_seconds,
        "is_told": float(found is not None),
        "failed": float(at_end),
        "lost_seconds": last.lost_seconds if last and at_end else None,
    }
    if last is None or not at_end:
        return Numbers(numbers)
    return Numbers(numbers, (Window(last.at_seconds - last.lost_seconds, last.at_seconds),))


def judge(numbers: Numbers, values: Values) -> Verdict:
    if not numbers.known("is_told"):
        return Verdict("insufficient_data", "How the run ended was not told.")
    if not numbers.known("failed"):
        return Verdict("passed", "The run didn't fail.")
    run, lost = numbers.known("run_seconds") or 0.0, numbers.known("lost_seconds") or 0.0
    summary = f"The run failed after {run:.0f} s, {lost:.0f} s after its last checkpoint or start."
    if run < values["late_seconds"] or lost < values["lost_seconds"]:
        return Verdict("passed", summary)
    lost = within(lost, run)
    return Verdict(
        "fired",
        summary,
        advice="Save more often and resume from there; try the whole way on a small machine first.",
        waste_seconds_low=RECOVERABLE_LOW * lost,
        waste_seconds_high=RECOVERABLE_HIGH * lost,
        severity="high" if lost > 0.5 * run else "medium",
        dedupe_key="failed_late",
    )


RULE = Rule(
    id="failed_late",
    title="Failed late, with much unsaved",
    category=TIME,
    version=1,
    needs=(),
    parameters=(
        Parameter(
            "late_seconds",
            "s",
            1800,
            10,
            864_000,
            "Failed after at least",
            "ours",
            save=900,
            safe=3600,
        ),
        Parameter("lost_seconds", "s", 300, 1, 864_000, "And so much unsaved", "ours"),
    ),
    measure=measure,
    judge=judge,
    awaits_end=True,
)
