"""An overview of the run's time by phase of its training loop.

## What it checks
The seconds of each rank from its first to its last step: in training steps, in evaluation steps,
and between steps ("others"). And the seconds before, in and after the loop.

## Why it costs money
Before, between and after steps nothing is learned, but everything is paid for.

## When it fires
Never. It adds a remark if more than 25 % of the loop is between steps.

## When it is wrong
If only part of the steps was recorded (an overflowing buffer, a late start), the missing ones count
as time between steps.

## How to fix it
See the rules that fire: `startup_breakdown`, `epoch_gaps`, `evaluation_share`, `idle_tail`.

## Parameters
None.

## Sources
SageMaker Debugger's OverallFrameworkMetrics, and its remark at 25 % of others. Differences: the
time between steps is the measured one, where SageMaker feeds a term back and reports half of it;
the mean over ranks, each rank's loop counted once; finalisation is never negative. Its operator,
kernel and Horovod tables come from traces, which this rule doesn't read.
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
    others = numbers.get("others_pct")
    if others is None:
        return Verdict("insufficient_data", "Missing: training steps.")
    names = sorted(n for n in numbers.values if n.endswith("_pct") and n != "others_pct")
    known = [(name.removesuffix("_pct"), numbers.get(name)) for name in names]
    parts = [f"{share:.1f} % in {name} steps" for name, share in known if share is not None]
    remark = " (a large share)" if others > REMARK_PCT else ""
    shares = ", ".join([*parts, f"{others:.1f} % between steps"])
    return Verdict("passed", f"Time of the loop: {shares}{remark}.")


RULE = Rule(
    id="overall_framework_metrics",
    title="Time by phase",
    category=OVERVIEW,
    version=1,
    needs=("steps",),
    parameters=(),
    measure=measure,
    judge=judge,
    sagemaker_name="OverallFrameworkMetrics",
)
