"""All CPU cores are busy while the GPUs are idle.

## What it checks
At each sample between warm-up and the last step: the utilisation of all cores that the run was
given, and the mean utilisation of the node's used GPUs. A sample with the cores above
`cpu_threshold` and the GPUs below `gpu_threshold` is a bottleneck.

## Why it costs money
The GPUs are most of the machine's price, and they wait for work that the cores can't prepare fast
enough.

## When it fires
When bottlenecks are more than `threshold` percent of the time for which both are known. It needs
`patience_seconds` of such time, or `patience_share_pct` of a short run, and never less than 20 s.

A first step of 10 s and more is warm-up, because it compiles. A running run that has reported no
other step may still be starting up: it needs the whole `patience_seconds`.

## When it is wrong
A single thread that delays the GPUs while the other cores are
idle is not seen here, since more cores wouldn't help; `input_bound` sees that wait. If others use
the machine too, the busy cores may not be the run's.

## How to fix it
Make data preparation cheaper: vectorise it, store its result, or decode on the GPU. Or use a
machine with more cores per GPU. More loader workers need free cores.

## Parameters
`threshold`, `cpu_threshold` and `gpu_threshold` as in SageMaker. `patience_seconds` is SageMaker's
`patience` at two samples a second; `patience_share_pct` lets short runs be judged.

## Sources
SageMaker Debugger's CPUBottleneck: threshold 50, cpu_threshold 90, gpu_threshold 10, patience 1000.
Differences: all cores together must be busy, where one busy core is enough for SageMaker, so that a
healthy run counts most of the time; the mean of a node's GPUs must be low, not any single GPU; GPUs
that were never used are left out; warm-up is really left out, and so is the time after the last
step; each sample counts once. What a fix gives back (0.5 to 0.9 of the time) is our estimate.
"""

from __future__ import annotations

from rules.activity import cpu_pct
from rules.bottleneck import (
    LABELS,
    Wording,
    bottleneck_parameters,
    judge_bottleneck,
    measure_bottleneck,
)
from rules.category import DATA
from rules.frame import RunFrame
from rules.rule import Numbers, Parameter, Rule, Values, Verdict

WORDING = Wording(
    key="cpu_bottleneck",
    what="all CPU cores were busy",
    parameter="cpu_threshold",
    advice="Make data preparation cheaper: vectorise it, store its result, or move it to the GPU. "
    "Or use a machine with more cores per GPU.",
)


def measure(frame: RunFrame, values: Values) -> Numbers:
    return measure_bottleneck(frame, cpu_pct, values["cpu_threshold"], values["gpu_threshold"])


def judge(numbers: Numbers, values: Values) -> Verdict:
    return judge_bottleneck(numbers, values, WORDING)


RULE = Rule(
    id="cpu_bottleneck",
    title="CPU bottleneck",
    category=DATA,
    version=4,
    needs=("gpu*.busy_pct", "host.cpu_busy_pct|cpu*.busy_pct|tree.cpu_seconds_total"),
    claims_on=LABELS,
    parameters=(
        Parameter(
            "cpu_threshold",
            "%",
            90,
            0,
            100,
            "Cores count as busy above",
            "SageMaker, 90",
            "cpu_threshold",
            measured=True,
        ),
        *bottleneck_parameters(),
    ),
    measure=measure,
    judge=judge,
    sagemaker_name="CPUBottleneck",
)
