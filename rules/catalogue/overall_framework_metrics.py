"""What the run's time went into, by its training loop.

## What it checks
The seconds of each rank from its first to its last step: in training steps, in evaluation steps,
and between steps ("others"); and those of the run before, in and after the loop.

## Why it costs money
Between steps, before the loop and after it nothing is learned, and everything is paid for.

## When it fires
Never. It remarks on a quarter of the loop or more between steps.

## When it is wrong
Where steps were told one by one only in part (a ring that overflowed, a late start), the missing
ones count as between steps.

## How to fix it
See the rules that fire: `startup_breakdown`, `epoch_gaps`, `evaluation_share`, `idle_tail`.

## Parameters
None.

## Sources
SageMaker Debugger's OverallFrameworkMetrics, and its remark at 25 % of others. Differences: the
time between steps is the true one, while there a term is fed back and half of it is reported; the
mean over ranks, each rank's loop counted once; finalisation is never negative. Its operator,
kernel and Horovod tables come from traces, which are no part of this rule.
"""

from __future__ import annotations

from rules.category import OVERVIEW
from rules.frame import RunFrame
from rules.rule import Numbers, Rule, Values, Verdict
from rules.sagemaker_statistics import framework_seconds, job_seconds

REMARK_PCT = 25.0


def measure(frame: RunFrame, values: Values) -> Numbers:
    loop, job = framework_seconds(frame), job_seconds(frame)
    whole = sum(loop.values())
    shares = {f"{name}_pct": 100 * s / whole for name, s in loop.items()} if whole > 0 else {}
    seconds = {f"{name}_seconds": s for name, s in (loop | job).items()}
    return Numbers({**seconds, **shares})


def judge(numbers: Numbers, values: Values) -> Verdict:
    others = numbers.known("others_pct")
    if others is None:
        return Verdict("insufficient_data", "Missing: steps of the training loop.")
    names = sorted(n for n in numbers.values if n.endswith("_pct") and n != "others_pct")
    parts = [
        f"{numbers.known(name) or 0.0:.1f} % in {name.removesuffix('_pct')} steps" for name in names
    ]
    remark = " That is much." if others > REMARK_PCT else ""
    told = ", ".join([*parts, f"{others:.1f} % between steps"])
    return Verdict("passed", f"Of the loop, {told}.{remark}")


RULE = Rule(
    id="overall_framework_metrics",
    title="What the run's time went into",
    category=OVERVIEW,
    version=1,
    needs=("steps",),
    parameters=(),
    measure=measure,
    judge=judge,
    sagemaker_name="OverallFrameworkMetrics",
)
