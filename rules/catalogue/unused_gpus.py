"""The run was given GPUs that it never used.

## What it checks
The 99th percentile of each allocated GPU's utilisation over the whole run: a GPU with at most
`unused_pct` is unused.

## Why it costs money
A GPU costs the same used or not, and the machine's price includes all of them.

## When it fires
When some GPUs are unused while another one is in use (a 99th percentile above 10 %), and both are
known for `minimum_seconds`; in a running run, counted from the first use of any GPU. If no GPU is
in use, it fires after the end of the run.

## When it is wrong
A GPU that is reserved for a late phase (evaluation, export) looks unused until then. Utilisation
that can't be read (MIG) is unknown, not unused.

## How to fix it
Start one process per GPU (`torchrun --nproc-per-node`), use DistributedDataParallel, or use a
machine with fewer GPUs. If no GPU is used, check that the framework finds CUDA, or use a machine
without GPUs.

## Parameters
`unused_pct` defines unused; `minimum_seconds` is how long utilisation must be known.

## Sources
2 %: Princeton's GPU reports. A study of Perlmutter found that 12 % of its jobs on four GPUs used
only one. SageMaker has no such rule: there an unused GPU is a CPU bottleneck or a small batch.
`low_gpu_utilization` names unused GPUs as well; their waste is the same time and is counted once.
That half to all of the time can be given back is our estimate: machines come in fixed sizes.
"""

from __future__ import annotations

from rules.activity import UNUSED_PCT, gpu_table
from rules.category import GPU
from rules.evidence import percentile, within
from rules.frame import GPU_IN_USE_PCT, RunFrame
from rules.rule import Numbers, Parameter, Rule, Values, Verdict, Window

RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.5, 1.0


def measure(frame: RunFrame, values: Values) -> Numbers:
    began = min(_first_uses(frame), default=None)
    numbers: dict[str, float | None] = {
        "run_seconds": frame.duration_seconds,
        "is_final": float(frame.final),
        "gpus_count": float(sum(len(n.allocated_gpus()) for n in frame.nodes.values())),
    }
    windows = []
    for node in frame.nodes.values():
        table = gpu_table(node)
        for number in table.columns:
            entity, busy = f"{node.key}/gpu{number}", table[number].dropna()
            from_start = frame.final or began is None
            since = busy if from_start else busy[busy.index >= began]
            numbers[f"p99_pct@{entity}"] = percentile(busy, 99)
            numbers[f"seen_seconds@{entity}"] = len(since) * frame.resolution_seconds
            if (percentile(busy, 99) or 0.0) <= values["unused_pct"]:
                windows.append(Window(0.0, frame.duration_seconds, entity))
    return Numbers(numbers, tuple(windows))


def judge(numbers: Numbers, values: Values) -> Verdict:
    count = numbers.known("gpus_count") or 0.0
    if count <= 0:
        return Verdict("not_applicable", "The run was given no GPU.")
    p99, seen = numbers.by_entity("p99_pct"), numbers.by_entity("seen_seconds")
    known = {g: pct for g, pct in p99.items() if seen.get(g, 0.0) >= values["minimum_seconds"]}
    unused = [gpu for gpu, pct in known.items() if pct <= values["unused_pct"]]
    in_use = [gpu for gpu, pct in p99.items() if pct > GPU_IN_USE_PCT]
    if unused and not in_use:
        return _none_in_use(numbers, known, unused, count)
    if not unused and len(known) < count:
        needed = f"{values['minimum_seconds']:.0f} s"
        few = f"the utilisation of only {len(known)} of {count:.0f} GPUs is known for {needed}"
        return Verdict("insufficient_data", f"Not enough data: {few}.")
    if not unused:
        return Verdict("passed", f"All {count:.0f} GPUs were used.")
    return _fired(numbers, len(unused), count)


def _none_in_use(
    numbers: Numbers, known: dict[str, float], unused: list[str], count: float
) -> Verdict:
    """Before its end, the run may still start to use them."""
    if not numbers.known("is_final"):
        return Verdict("insufficient_data", "No GPU has been used so far.")
    if len(known) < count:
        return Verdict("insufficient_data", "Missing: the utilisation of some GPUs.")
    return _fired(numbers, len(unused), count)


def _fired(numbers: Numbers, unused: int, count: float) -> Verdict:
    run = numbers.known("run_seconds") or 0.0
    share = unused / max(count, float(unused))
    every = unused >= count
    advice = "Start one process per GPU, or use a machine with fewer GPUs."
    return Verdict(
        "fired",
        f"{unused} of {count:.0f} GPUs were never used.",
        advice="Check that the framework finds the GPUs, or use a machine without GPUs."
        if every
        else advice,
        waste_seconds_low=within(RECOVERABLE_LOW * share * run, run),
        waste_seconds_high=within(RECOVERABLE_HIGH * share * run, run),
        severity="high" if share >= 0.5 else "medium",
        dedupe_key="unused_gpus",
    )


def _first_uses(frame: RunFrame) -> list[float]:
    uses = (node.first_use_seconds for node in frame.nodes.values())
    return [first for first in uses if first is not None]


RULE = Rule(
    id="unused_gpus",
    title="Unused GPUs",
    category=GPU,
    version=2,
    needs=("gpu*.busy_pct",),
    parameters=(
        Parameter(
            "unused_pct",
            "%",
            UNUSED_PCT,
            0,
            10,
            "Unused up to this p99",
            "Princeton, 2 %",
            measured=True,
        ),
        Parameter("minimum_seconds", "s", 300, 20, 86_400, "Least known time to judge", "ours"),
    ),
    measure=measure,
    judge=judge,
)
