"""The run has GPUs, but their utilisation is unknown.

## What it checks
Each GPU that the run was given, as the agent listed them. If it listed none, those that machines of
the declared or detected instance type have. A GPU is measured if its utilisation or its SM activity
has at least one sample.

## Why it costs money
A GPU is most of the machine's price. Without its utilisation no rule can say whether it is used,
the ledger calls its time unclassified, and no other machine can be recommended.

## When it fires
When at least one GPU has no such sample although the node was measured for `minimum_seconds`. It
names no waste, because there is none to be seen.

## When it is wrong
If the instance type was declared wrongly, the machine has no such GPUs: the run's page shows what
else contradicts the type, and there it can be corrected.

## How to fix it
In a container, give it the GPUs (`--gpus all`) and the driver capability `utility`
(`NVIDIA_DRIVER_CAPABILITIES=compute,utility`). On the machine, load the driver: `nvidia-smi` must
list the GPUs. With MIG, utilisation can't be read at all; Hopper and newer report the SM activity
of each slice. `trimtab doctor` says which of these it is. GPUs of AMD are read from the
files of their driver; those of other vendors are not measured.

## Parameters
`minimum_seconds` is how long the node must have been measured; a driver may take a minute to
answer.

## Sources
Two minutes: ours. Reasons that the driver gives: NVML's return codes. SageMaker has no such rule.
"""

from __future__ import annotations

from rules.category import GPU
from rules.frame import NodeFrame, RunFrame
from rules.rule import Numbers, Parameter, Rule, Values, Verdict
from rules.wording import write_shortage


def measure(frame: RunFrame, values: Values) -> Numbers:
    numbers: dict[str, float | None] = {}
    for node in frame.nodes.values():
        gpus = node.allocated_gpus()
        known = sum(_is_measured(node, number) for number in gpus)
        numbers[f"gpus_count@{node.key}"] = float(len(gpus))
        numbers[f"unknown_gpus_count@{node.key}"] = float(len(gpus) - known)
        numbers[f"seen_seconds@{node.key}"] = float(node.is_seen.sum()) * frame.resolution_seconds
    return Numbers(numbers)


def judge(numbers: Numbers, values: Values) -> Verdict:
    gpus, unknown = numbers.by_entity("gpus_count"), numbers.by_entity("unknown_gpus_count")
    if not any(gpus.values()):
        return Verdict("not_applicable", "No GPU is known of.")
    missing = {node: count for node, count in unknown.items() if count}
    if not missing:
        return Verdict("passed", f"The utilisation of {_gpus(sum(gpus.values()))} is known.")
    seen, needed = numbers.by_entity("seen_seconds"), values["minimum_seconds"]
    late = [node for node in missing if seen.get(node, 0.0) >= needed]
    if not late:
        known = [seen[node] for node in missing if node in seen]
        if not known:
            return Verdict("insufficient_data", "Missing: samples of the node.")
        short = write_shortage(max(known), needed, "of samples of the node")
        return Verdict("insufficient_data", f"Not enough data: {short}.")
    return _fired(missing, gpus, late)


def _fired(missing: dict[str, float], gpus: dict[str, float], late: list[str]) -> Verdict:
    count = sum(missing[node] for node in late)
    every = sum(gpus.get(node, missing[node]) for node in late)
    of = "" if count == every else f" of {every:.0f}"
    where = f" on {', '.join(sorted(late))}" if len(gpus) > 1 else ""
    return Verdict(
        "fired",
        f"The utilisation of {count:.0f}{of} GPU{'' if every == 1 else 's'}{where} is unknown.",
        advice="Run trimtab doctor on the machine: it says whether the driver or the container's "
        "access to the GPUs is missing.",
        severity="medium",
        dedupe_key="gpus_not_measured",
    )


def _gpus(count: float) -> str:
    return "the GPU" if count == 1 else f"all {count:.0f} GPUs"


def _is_measured(node: NodeFrame, number: int) -> bool:
    names = (f"gpu{number}.busy_pct", f"gpu{number}.sm_active_pct")
    slices = f"gpu{number}.mig"
    return any(node.series(name) is not None for name in names) or any(
        str(name).startswith(slices) and str(name).endswith(".sm_active_pct")
        for name in node.samples.columns
    )


RULE = Rule(
    id="gpus_not_measured",
    title="GPUs that were not measured",
    category=GPU,
    version=1,
    needs=(),
    parameters=(
        Parameter(
            "minimum_seconds", "s", 120, 10, 86_400, "Least time of samples of the node", "ours"
        ),
    ),
    measure=measure,
    judge=judge,
)
