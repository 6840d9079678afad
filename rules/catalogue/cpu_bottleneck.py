"""The cores are full while the GPUs idle.

## What it checks
At each sample between warm-up and the last step: the use of the cores that the run was given, all
of them together, and the mean use of the node's GPUs that were used at all. A sample with the
cores above `cpu_threshold` and the GPUs below `gpu_threshold` is a bottleneck.

## Why it costs money
The GPUs are most of the price of their machine, and they wait for work that the cores can't
prepare fast enough.

## When it fires
When bottlenecks are more than `threshold` percent of the time for which both are known. Enough to
judge is `patience_seconds` of such time, in a short run `patience_share_pct` of its duration, and
never less than 20 s.

## When it is wrong
In runs longer than about three hours a sample is a mean over several seconds, in which a GPU that
works in fits is hardly ever below 10 %. One thread that holds up the GPUs while the other cores
idle is not seen here, since more cores wouldn't help it; `input_bound` sees the wait. Where others
use the machine as well, full cores need not be the run's.

## How to fix it
Make the preparation of data cheaper: vectorise it, prepare once and store the result, decode on
the GPU. Or take a machine with more cores a GPU. More loader workers need free cores.

## Parameters
`threshold`, `cpu_threshold` and `gpu_threshold` as in SageMaker. `patience_seconds` answers to its
`patience`, at two samples a second; `patience_share_pct` makes short runs judgeable.

## Sources
SageMaker Debugger's CPUBottleneck: threshold 50, cpu_threshold 90, gpu_threshold 10, patience
1000. Differences: all cores together must be full here, while there one busy core of any number
is enough, so that a healthy run counts most of the time; the mean of a node's GPUs must be low,
not any one GPU; GPUs that were never used are left out; warm-up is really left out, and so is what
follows the last step; each sample counts once. What a fix gives back (0.5 to 0.9 of the time) is
our estimate.
"""

from __future__ import annotations

from rules.activity import cpu_pct
from rules.bottleneck import (
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
    what="the cores were full",
    advice="Make the preparation of data cheaper: vectorise it, store its result, move it to the "
    "GPU. Or take a machine with more cores a GPU.",
)


def measure(frame: RunFrame, values: Values) -> Numbers:
    return measure_bottleneck(frame, cpu_pct, values["cpu_threshold"], values["gpu_threshold"])


def judge(numbers: Numbers, values: Values) -> Verdict:
    return judge_bottleneck(numbers, values, WORDING)


RULE = Rule(
    id="cpu_bottleneck",
    title="The cores hold up the GPUs",
    category=DATA,
    version=1,
    needs=("gpu*.busy_pct", "host.cpu_busy_pct|cpu*.busy_pct|tree.cpu_seconds_total"),
    parameters=(
        Parameter(
            "cpu_threshold",
            "%",
            90,
            0,
            100,
            "Cores full above",
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
