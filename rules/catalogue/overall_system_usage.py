"""An overview of each node's utilisation.

## What it checks
For each node: the maximum, the 99th, 95th, 90th and 50th percentile and the minimum of its network
traffic, GPU utilisation, CPU utilisation, CPU memory, GPU memory and I/O wait, over the whole run.

## Why it costs money
A machine that is too large shows here first.

## When it fires
Never. It says in one sentence whether the GPUs or, without any, the cores were 70 % busy or more
for at least a twentieth of the time. That they were busy at times doesn't mean that they were used
well: the ledger says what the rest of the time was spent on.

## When it is wrong
Start-up and the time after the last step count, as in SageMaker, so a short run looks less used
than its training was.

## How to fix it
See the rules that fire: `low_gpu_utilization`, `cpu_bottleneck`, `batch_size`, `cpu_oversized`.

## Parameters
None.

## Sources
SageMaker Debugger's OverallSystemUsage, and the limit of its sentence (70 % at the 95th
percentile). Differences: it calls such GPUs well used, which a p95 doesn't show; GPU memory is the
memory in use, where SageMaker takes the activity of the memory controller; samples at which a
series is unknown are left out and don't count as 0; a node without GPUs has no GPU rows; the
sentence covers all nodes.
"""

from __future__ import annotations

from rules.category import OVERVIEW
from rules.frame import RunFrame
from rules.rule import Numbers, Rule, Values, Verdict
from rules.sagemaker_statistics import STATISTICS, percentile_rows
from rules.wording import range_pct

NAMES = {
    "Network": "network_bytes_per_second",
    "GPU": "gpu_pct",
    "CPU": "cpu_pct",
    "CPU memory": "cpu_memory_pct",
    "GPU memory": "gpu_memory_pct",
    "I/O": "io_wait_pct",
}
BUSY_PCT = 70.0


def measure(frame: RunFrame, values: Values) -> Numbers:
    """Return `<metric>_<statistic>@<node>`, of `percentile_rows`."""
    return Numbers(
        {
            f"{NAMES[metric]}_{name}@{node}": value
            for node, metric, *found in percentile_rows(frame)
            for name, value in zip(STATISTICS, found, strict=True)
        }
    )


def judge(numbers: Numbers, values: Values) -> Verdict:
    cpu, gpu = numbers.by_entity("cpu_pct_p95"), numbers.by_entity("gpu_pct_p95")
    if not cpu and not gpu:
        return Verdict("insufficient_data", "Missing: the utilisation of CPU and GPU.")
    parts = [
        f"{name} p95 {range_pct(by_node.values())}"
        for name, by_node in (("GPU", gpu), ("CPU", cpu))
        if by_node
    ]
    return Verdict("passed", f"{', '.join(parts)}: {_sentence(cpu, gpu)}.")


def _sentence(cpu: dict[str, float], gpu: dict[str, float]) -> str:
    used, what = (gpu, "GPUs") if gpu else (cpu, "cores")
    if min(used.values()) >= BUSY_PCT:
        return f"the {what} had busy times"
    if max(used.values()) >= BUSY_PCT:
        return f"the {what} of some nodes had busy times"
    cores = " while the cores were" if gpu and max(cpu.values(), default=0.0) >= BUSY_PCT else ""
    return f"the {what} were hardly ever busy{cores}"


RULE = Rule(
    id="overall_system_usage",
    title="System utilisation",
    category=OVERVIEW,
    version=4,
    needs=(),
    parameters=(),
    measure=measure,
    judge=judge,
    sagemaker_name="OverallSystemUsage",
)
