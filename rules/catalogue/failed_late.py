"""The run failed late and lost all work since its last checkpoint.

## What it checks
Whether the run ended in a failure, how long it had run, and how long it had worked since its last
checkpoint. Starting up isn't work.

## Why it costs money
Unsaved work is computed again, at the same price.

## When it fires
When the run failed after at least `late_seconds`, and at least `lost_seconds` of work lie between
its last recorded checkpoint (or its start, if there is none) and the failure.

## When it is wrong
Checkpoints that weren't recorded are not seen. A failure after the last result was written loses
nothing.

## How to fix it
Save more often and resume from the last checkpoint. Before a long run, test everything once on a
small machine: one epoch, one evaluation, one checkpoint.

## Parameters
`late_seconds` and `lost_seconds`.

## Sources
Jeon et al. (Philly, ATC 2019) count failures among the three things that waste GPUs. Half an hour
and five minutes are ours, and so is the estimate that half to all of the lost work can be avoided.
"""

from __future__ import annotations

from rules.category import TIME
from rules.evidence import clamp_seconds
from rules.failures import failures
from rules.frame import RunFrame
from rules.ledger_labels import WORK
from rules.rule import Claim, Directness, Numbers, Parameter, Rule, Values, Verdict, Window
from rules.wording import lasting

RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.5, 1.0
AT_END_SECONDS = 60.0


def measure(frame: RunFrame, values: Values) -> Numbers:
    failed = failures(frame)
    last = failed[-1] if failed else None
    at_end = last is not None and last.at_seconds >= frame.duration_seconds - AT_END_SECONDS
    numbers = {
        "run_seconds": frame.duration_seconds,
        "is_told": float(failed is not None),
        "failed": float(at_end),
        "lost_seconds": last.lost_seconds if last and at_end else None,
    }
    if last is None or not at_end:
        return Numbers(numbers)
    return Numbers(numbers, (Window(last.at_seconds - last.lost_seconds, last.at_seconds),))


def judge(numbers: Numbers, values: Values) -> Verdict:
    if not numbers.get("is_told"):
        return Verdict("insufficient_data", "Missing: how the run ended.")
    if not numbers.get("failed"):
        return Verdict("passed", "The run didn't end in a failure.")
    run, lost = numbers.get("run_seconds") or 0.0, numbers.get("lost_seconds")
    if lost is None:
        return Verdict("insufficient_data", "Missing: when work was last saved.")
    summary = (
        f"The run failed after {lasting(run)}, with {lasting(lost)} of work since its last "
        "checkpoint or start."
    )
    if run < values["late_seconds"] or lost < values["lost_seconds"]:
        return Verdict("passed", summary)
    lost = clamp_seconds(lost, run)
    return Verdict(
        "fired",
        summary,
        advice="Save more often and resume from there; try the whole run on a small machine first.",
        claims=(Claim(WORK, lost, RECOVERABLE_LOW, RECOVERABLE_HIGH),),
        severity="high" if lost > 0.5 * run else "medium",
        dedupe_key="failed_late",
    )


RULE = Rule(
    id="failed_late",
    title="Late failure with unsaved work",
    category=TIME,
    version=2,
    needs=(),
    claims_on=WORK,
    directness=Directness.SYMPTOM,
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
        Parameter("lost_seconds", "s", 300, 1, 864_000, "And at least this much unsaved", "ours"),
    ),
    measure=measure,
    judge=judge,
    reports_risk=True,
    awaits_end=True,
)
