"""The host waits for storage while the GPUs are idle.

## What it checks
At each sample between warm-up and the last step: how much the host waits for storage, and the mean
utilisation of the node's used GPUs. The wait is the larger of two figures: the share of the cores'
time in I/O wait, and the share of time in which all tasks waited for I/O, if the kernel reports it
(PSI). A sample with the wait above `io_threshold` and the GPUs below `gpu_threshold` is a
bottleneck.

## Why it costs money
The GPUs are most of the machine's price, and they wait for a disk that costs a fraction of it.

## When it fires
When bottlenecks are more than `threshold` percent of the time for which both are known. It needs
`patience_seconds` of such time, or `patience_share_pct` of a short run, and never less than 20 s.

A first step of 10 s and more is warm-up, because it compiles. A running run that has reported no
other step may still be starting up: it needs the whole `patience_seconds`.

## When it is wrong
I/O wait is idle time of a core on which a task waits for a disk. On a machine with many cores two
waiting readers are a few percent, and if the other cores compute, the wait disappears. PSI has
neither fault, but older kernels don't report it. Reading over the network (object stores, NFS in
user space) is often no I/O wait at all; `input_bound` sees that.

## How to fix it
Read ahead; pack small files into few large ones (WebDataset, TFRecord, Parquet); keep the data on
local NVMe; raise the volume's throughput.

## Parameters
`threshold`, `io_threshold` and `gpu_threshold` as in SageMaker. `patience_seconds` is SageMaker's
`patience` at two samples a second; `patience_share_pct` lets short runs be judged.

## Sources
SageMaker Debugger's IOBottleneck: threshold 50, io_threshold 50, gpu_threshold 10 (its guide says
70, its rules run with 10), patience 1000. Differences: the machine's I/O wait and PSI count instead
of any single core's I/O wait; the mean of a node's GPUs must be low, not any single GPU; GPUs that
were never used are left out; warm-up is really left out, and so is the time after the last step;
each sample counts once. What a fix gives back (0.5 to 0.9 of the time) is our estimate.
"""

from __future__ import annotations

import pandas as pd

from rules.bottleneck import (
    LABELS,
    Wording,
    bottleneck_parameters,
    judge_bottleneck,
    measure_bottleneck,
)
from rules.category import DATA
from rules.frame import NodeFrame, RunFrame
from rules.rule import Numbers, Parameter, Rule, Values, Verdict

PRESSURES = ("container.psi_io_full_us_total", "host.psi_io_full_us_total")
WORDING = Wording(
    key="io_bottleneck",
    what="the host waited for storage",
    parameter="io_threshold",
    advice="Read ahead, pack small files into few large ones, keep the data on local NVMe, or "
    "raise the volume's throughput.",
)


def measure(frame: RunFrame, values: Values) -> Numbers:
    return measure_bottleneck(frame, io_wait_pct, values["io_threshold"], values["gpu_threshold"])


def judge(numbers: Numbers, values: Values) -> Verdict:
    return judge_bottleneck(numbers, values, WORDING)


def io_wait_pct(node: NodeFrame, resolution_seconds: float) -> pd.Series[float] | None:
    """Return 0..100: the more of the cores' I/O wait and the tasks' I/O pressure; None if neither
    is known.
    """
    waits = [node.series("host.cpu_iowait_pct")]
    for name in PRESSURES:
        stalled_us = node.rate(name, resolution_seconds)
        waits.append(None if stalled_us is None else (stalled_us / 1e4).clip(upper=100.0))
    known = [series for series in waits if series is not None]
    if len(known) > 1:
        return pd.concat(known, axis=1).max(axis=1)
    return known[0] if known else None


RULE = Rule(
    id="io_bottleneck",
    title="I/O bottleneck",
    category=DATA,
    version=4,
    needs=("gpu*.busy_pct", "|".join(("host.cpu_iowait_pct", *PRESSURES))),
    claims_on=LABELS,
    parameters=(
        Parameter(
            "io_threshold",
            "%",
            50,
            0,
            100,
            "I/O wait counts above",
            "SageMaker, 50",
            "io_threshold",
            measured=True,
        ),
        *bottleneck_parameters(),
    ),
    measure=measure,
    judge=judge,
    sagemaker_name="IOBottleneck",
)
