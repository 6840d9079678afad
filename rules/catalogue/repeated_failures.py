"""The run fails repeatedly and is restarted each time.

## What it checks
How often the processes of a run's attempts failed (nodes that fail within a minute of each other
count as one failure), and how long before each failure the last checkpoint was saved.

## Why it costs money
Each attempt pays again for its start-up and for the work since the last checkpoint.

## When it fires
From `fewest` failures in one run.

## When it is wrong
Reclaimed spot instances count as failures here, although the program isn't at fault. Failures in
several runs of a job are not seen, since a rule sees one run.

## How to fix it
Read the error of the first failure. Try everything once on a small machine. Resume from
checkpoints, and limit the number of restarts.

## Parameters
`fewest`.

## Sources
Jeon et al. (Philly, ATC 2019): jobs that are retried after an error of their program mostly fail
again. Three is ours, and so is the estimate that half to all of the lost time can be avoided.
"""

from __future__ import annotations

from rules.category import TIME
from rules.evidence import clamp_seconds
from rules.failures import failures
from rules.frame import RunFrame
from rules.ledger_labels import WORK
from rules.rule import Claim, Numbers, Parameter, Rule, Values, Verdict, Window
from rules.wording import lasting, write_count

RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.5, 1.0

LABELS = ("lost", *WORK)


def measure(frame: RunFrame, values: Values) -> Numbers:
    failed = failures(frame)
    numbers = {
        "run_seconds": frame.duration_seconds,
        "is_told": float(failed is not None or not frame.final),
        "failures_count": float(len(failed or ())),
        "lost_seconds": float(sum(failure.lost_seconds for failure in failed or ())),
    }
    windows = [Window(f.at_seconds - f.lost_seconds, f.at_seconds) for f in failed or ()]
    return Numbers(numbers, tuple(windows))


def judge(numbers: Numbers, values: Values) -> Verdict:
    if not numbers.get("is_told"):
        return Verdict("insufficient_data", "Missing: how the run's processes ended.")
    count, run = numbers.get("failures_count") or 0.0, numbers.get("run_seconds") or 0.0
    told = numbers.get("lost_seconds")
    lost = clamp_seconds(told or 0.0, run)
    if not count:
        return Verdict("passed", "No failure was seen.")
    if count < values["fewest"]:
        fewer = f"fewer than {values['fewest']:g} aren't judged"
        return Verdict("passed", f"The run failed {write_count(count, 'time')}; {fewer}.")
    work = "" if told is None else f" and lost {lasting(lost)} of work"
    return Verdict(
        "fired",
        f"The run failed {write_count(count, 'time')}{work}.",
        advice="Read the error of the first failure, and limit the number of restarts.",
        claims=(Claim(LABELS, lost, RECOVERABLE_LOW, RECOVERABLE_HIGH),),
        severity="high",
        dedupe_key="repeated_failures",
    )


RULE = Rule(
    id="repeated_failures",
    title="Repeated failures",
    category=TIME,
    version=2,
    needs=(),
    claims_on=LABELS,
    parameters=(
        Parameter("fewest", "failures", 3, 2, 1000, "Fires from this many", "ours", whole=True),
    ),
    measure=measure,
    judge=judge,
)
