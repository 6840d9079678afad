"""The machine has far more cores and memory than the run uses.

## What it checks
The 95th percentile of CPU utilisation after warm-up and the 99th of used memory over the whole run,
against what each node has. CPU utilisation is the CPU time of the run's own processes (else of its
container) over the cores that it was given by cgroup, affinity or scheduler. Memory is the
machine's if the run has it alone, which includes files in /dev/shm; beside others that use more
than 5 % of the cores, it is that of its own processes. Where these weren't seen, the machine's
cores and memory count, and the finding says so.

## Why it costs money
Within a family of instance types, half the cores and memory cost half as much an hour.

## When it fires
When every node stays below both `cpu_p95_pct` and `memory_p99_pct` for at least `minimum_seconds`
after warm-up (in a running run five minutes, and ten without reported steps, because it may still
be starting up), and a smaller machine would fit the busiest node with `cpu_target_pct` and
`memory_headroom_pct`. Memory counts from the first second, because loading the data needs it too.

A run whose ranks waited for a core for 5 % of the time or more, because others held the cores or a
quota withheld them, isn't judged: it used few cores because it got no more.

## When it is wrong
Processes that the run started outside of its tree (a container, a service) are not counted. Page
cache doesn't count as used memory, so a dataset that is read repeatedly may profit from more memory
than shown. A run
that is limited by a single thread uses little CPU on a large machine: a smaller one fits only if
its cores are as fast. Runs that use GPUs are not judged: the GPU decides the machine, and its cores
and memory come with it.

## How to fix it
Use a smaller type of the same family, or let more of the work use the cores (loader workers,
threads).

## Parameters
`cpu_p95_pct` and `memory_p99_pct` are the limits; `minimum_seconds` is the least time needed to
judge; `cpu_target_pct` and `memory_headroom_pct` are what must stay free on the smaller machine.

## Sources
CPU: TraceML's "low" band ends at 30 %. Memory: Princeton's Job Defense Shield, 0.35. Target of 80 %
at the 95th percentile: CAST AI's CPU quantile and the balanced preset of most advisors. The lower
end of the waste assumes the next power of two that fits, since families halve in size and price.
"""

from __future__ import annotations

import math

from rules.activity import own_cores
from rules.category import SIZING
from rules.evidence import clamp_seconds, percentile, series_after
from rules.frame import NodeFrame, RunFrame
from rules.ledger_labels import IDLE_MACHINES
from rules.processes import OTHERS_CORES, are_cores_own, memory_bytes, others_cores
from rules.rule import Claim, Directness, Numbers, Parameter, Rule, Values, Verdict
from rules.starvation import HIDING_SHARE, starved_share
from rules.wording import write_shortage

GIB = 2**30
RUNNING_SECONDS, STARTING_SECONDS = 300.0, 600.0
"""Known time that a run needs before its end; without steps it may be starting up (ours)."""
IN_WORDS = {
    "cpu_p95_pct": "CPU utilisation",
    "memory_p99_bytes": "used memory",
    "vcpus": "number of vCPUs",
    "memory_bytes": "memory size",
    "gpu_in_use": "GPU utilisation",
}
MEMORY = ("host.memory_used_bytes", "container.memory_working_set_bytes", "tree.rss_bytes")


def measure(frame: RunFrame, values: Values) -> Numbers:
    numbers: dict[str, float | None] = {
        "run_seconds": frame.duration_seconds,
        "needed_seconds": _needed_seconds(frame),
    }
    missing: list[str] = []
    for node in frame.nodes.values():
        measured = _node_numbers(node, frame.resolution_seconds)
        numbers |= {f"{name}@{node.key}": value for name, value in measured.items()}
        unknown = [words for name, words in IN_WORDS.items() if measured.get(name, 0.0) is None]
        missing += [f"{words} of node {node.key}" for words in unknown]
    return Numbers(numbers, missing=tuple(missing))


def judge(numbers: Numbers, values: Values) -> Verdict:
    uses = numbers.by_entity("gpu_in_use").values()
    if any(uses):
        return Verdict("not_applicable", "The run uses GPUs, which decide the machine.")
    if uses and numbers.get("needed_seconds"):
        return Verdict("insufficient_data", "No GPU has been used so far.")
    cpu, memory = numbers.by_entity("cpu_p95_pct"), numbers.by_entity("memory_p99_pct")
    seen = numbers.by_entity("seen_seconds")
    if numbers.missing or not cpu or not numbers.entities("is_own") == cpu.keys() == memory.keys():
        missing = ", ".join(numbers.missing) or "CPU utilisation and used memory of every node"
        return Verdict("insufficient_data", f"Missing: {missing}.")
    least = max(values["minimum_seconds"], numbers.get("needed_seconds") or 0.0)
    if cpu.keys() != seen.keys() or min(seen.values()) < least:
        known = [seconds for seconds in seen.values() if seconds < least]
        short = write_shortage(min(known), least, "of samples after warm-up") if known else ""
        return Verdict("insufficient_data", f"Not enough data: {short or 'samples of a node'}.")
    waits = numbers.by_entity("starved_share_pct")
    if len(waits) < sum(name.startswith("starved_share_pct@") for name in numbers.values):
        return Verdict("insufficient_data", "Missing: how long the run waited for cores.")
    starved = max(waits.values(), default=0.0)
    if starved >= 100 * HIDING_SHARE:
        reason = f"the run waited for a core in {starved:.0f} % of the time"
        return Verdict("insufficient_data", f"Not judged: {reason}, so it may need more of them.")
    most_cpu, most_memory = max(cpu.values()), max(memory.values())
    summary = f"CPU p95 was {most_cpu:.0f} %, memory p99 {most_memory:.0f} % of the node."
    summary += _whose(numbers)
    if most_cpu >= values["cpu_p95_pct"] or most_memory >= values["memory_p99_pct"]:
        return Verdict("passed", summary)
    return _oversized(numbers, values, summary)


def _whose(numbers: Numbers) -> str:
    """Say whose cores were counted, if that isn't plain."""
    if not all(numbers.by_entity("is_own").values()):
        return " The run's own processes were not seen, so the whole machine was counted."
    others = max(numbers.by_entity("others_cores_p95").values(), default=0.0)
    if others <= OTHERS_CORES:
        return ""
    return f" Other processes on the machine used up to {others:.1f} cores, which don't count."


def _oversized(numbers: Numbers, values: Values, summary: str) -> Verdict:
    """Return fired, with the smallest size that fits the busiest node; passed if none is
    smaller.
    """
    cores = numbers.by_entity("cores_p95").values()
    used_bytes = numbers.by_entity("memory_p99_bytes").values()
    wanted = max(cores, default=0.0) / (values["cpu_target_pct"] / 100)
    vcpus = math.ceil(min(max(wanted, 1.0), 1e9))
    gib = max(used_bytes, default=0.0) * (1 + values["memory_headroom_pct"] / 100) / GIB
    has_vcpus = max(numbers.by_entity("vcpus").values(), default=0.0)
    has_gib = max(numbers.by_entity("memory_bytes").values(), default=0.0) / GIB
    if not (has_vcpus > 0 and has_gib > 0 and cores and used_bytes):
        return Verdict("insufficient_data", "Missing: the size of the machine, or its use.")
    needed = max(vcpus / has_vcpus, gib / has_gib)
    if not needed < 1:
        return Verdict("passed", f"{summary} No smaller machine would fit the run.")
    low, high = _unneeded_seconds(needed, numbers.get("run_seconds") or 0.0)
    return Verdict(
        "fired",
        f"{summary} {vcpus} vCPU and {gib:.1f} GiB would be enough, of {has_vcpus:.0f} vCPU "
        f"and {has_gib:.0f} GiB.",
        advice=f"Use a type with at least {vcpus} vCPU, {gib:.1f} GiB and cores as fast.",
        claims=(Claim.from_range(IDLE_MACHINES, low, high),),
        severity="medium" if needed <= 0.25 else "low",
        dedupe_key="cpu_oversized",
    )


def _needed_seconds(frame: RunFrame) -> float:
    """Return the time that is needed to judge. Before its end, a run may still become larger."""
    if frame.final:
        return 0.0
    has_steps = any(node.training_ranks for node in frame.nodes.values())
    return RUNNING_SECONDS if has_steps else STARTING_SECONDS


def _unneeded_seconds(needed: float, run_seconds: float) -> tuple[float, float]:
    """Return the unneeded part of the machine as run time; the lower end in halves of the
    machine.
    """
    halves = 2.0 ** math.ceil(math.log2(max(needed, 2.0**-20)))
    return clamp_seconds((1 - halves) * run_seconds, run_seconds), clamp_seconds(
        (1 - needed) * run_seconds, run_seconds
    )


def _node_numbers(node: NodeFrame, resolution_seconds: float) -> dict[str, float | None]:
    """Return what was measured of a node, by name; None is missing."""
    hardware = node.hardware
    cpu = series_after(own_cores(node, resolution_seconds), node.warm_up_end_seconds())
    cores_p95 = percentile(cpu, 95)
    memory_p99 = percentile(memory_bytes(node, resolution_seconds), 99)
    is_own = are_cores_own(node)
    held = (hardware.effective_cpus if is_own else 0.0) or float(hardware.vcpus)
    total = float(hardware.memory_bytes)
    starved = starved_share(node, resolution_seconds)
    measured = {
        "cpu_p95_pct": 100 * cores_p95 / held if cores_p95 is not None and held else None,
        "cores_p95": cores_p95,
        "is_own": float(is_own),
        "others_cores_p95": others_cores(node, resolution_seconds),
        "memory_p99_bytes": memory_p99,
        "memory_p99_pct": 100 * memory_p99 / total if memory_p99 is not None and total else None,
        "vcpus": float(hardware.vcpus) or None,
        "memory_bytes": total or None,
        "seen_seconds": len(cpu) * resolution_seconds if cpu is not None else None,
    }
    if starved is not None:
        measured["starved_share_pct"] = 100 * starved
    return measured | _gpu_numbers(node)


def _gpu_numbers(node: NodeFrame) -> dict[str, float | None]:
    """Return whether a GPU was in use; None if a node has GPUs whose use is unknown."""
    gpus = node.allocated_gpus()
    if not gpus or node.first_use_seconds is not None:
        return {"gpu_in_use": 1.0} if gpus else {}
    is_known = all(node.gpu_busy_pct(number) is not None for number in gpus)
    return {"gpu_in_use": 0.0 if is_known else None}


RULE = Rule(
    id="cpu_oversized",
    title="More cores and memory than needed",
    category=SIZING,
    version=4,
    needs=("host.cpu_busy_pct|cpu*.busy_pct|tree.cpu_seconds_total", "|".join(MEMORY)),
    claims_on=IDLE_MACHINES,
    directness=Directness.SYMPTOM,
    parameters=(
        Parameter(
            "cpu_p95_pct",
            "%",
            30,
            0,
            100,
            "Fires with a CPU p95 below",
            "TraceML, 30 %",
            save=40,
            safe=20,
        ),
        Parameter(
            "memory_p99_pct",
            "%",
            35,
            0,
            100,
            "And a memory p99 below",
            "JDS, 0.35",
            save=45,
            safe=25,
        ),
        Parameter(
            "minimum_seconds", "s", 30, 1, 86_400, "Least time after warm-up to judge", "ours"
        ),
        Parameter(
            "cpu_target_pct", "%", 80, 10, 100, "CPU p95 on the smaller machine", "CAST AI, 0.8"
        ),
        Parameter(
            "memory_headroom_pct", "%", 20, 0, 400, "Memory to keep free above the p99", "ours"
        ),
    ),
    measure=measure,
    judge=judge,
)
