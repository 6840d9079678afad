"""An overview of each node's utilisation.

## What it checks
For each node: the maximum, the 99th, 95th, 90th and 50th percentile and the minimum of its network
traffic, GPU utilisation, CPU utilisation, CPU memory, GPU memory and I/O wait, over the whole run.

## Why it costs money
A machine that is too large shows here first.

## When it fires
Never. It says in one sentence how well the GPUs and cores were used.

## When it is wrong
Start-up and the time after the last step count, as in SageMaker, so a short run looks less used
than its training was.

## How to fix it
See the rules that fire: `low_gpu_utilization`, `cpu_bottleneck`, `batch_size`, `cpu_oversized`.

## Parameters
None.

## Sources
SageMaker Debugger's OverallSystemUsage, and its sentence (70 % at the 95th percentile).
Differences: GPU memory is the memory in use, where SageMaker takes the activity of the memory
controller; samples at which a series is unknown are left out and don't count as 0; a node without
GPUs has no GPU rows; the sentence covers all nodes.
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
USED_WELL_PCT = 70.0


def measure(frame: RunFrame, values: Values) -> Numbers:
    """`<metric>_<statistic>@<node>`, of `percentile_rows`."""
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
    if gpu and max(gpu.values()) < USED_WELL_PCT:
        busy = max(cpu.values(), default=0.0)
        return "GPUs underused while the cores are busy" if busy > USED_WELL_PCT else "underused"
    if not gpu:
        return "well used" if max(cpu.values()) > USED_WELL_PCT else "underused"
    return "well used" if min(gpu.values()) > USED_WELL_PCT else "unevenly used"


RULE = Rule(
    id="overall_system_usage",
    title="System utilisation",
    category=OVERVIEW,
    version=3,
    needs=(),
    parameters=(),
    measure=measure,
    judge=judge,
    sagemaker_name="OverallSystemUsage",
)
