"""The run was given GPUs that it never used, or no longer uses.

## What it checks
The 99th percentile of each allocated GPU's utilisation over the whole run: a GPU with at most
`unused_pct` is unused. And the same over the last `recent_seconds`: a GPU that worked once and has
been idle ever since is no longer used, however busy it was on the whole.

A GPU on which the training says that it allocated memory, and holds it, is used, however little.

## Why it costs money
A GPU costs the same used or not, and the machine's price includes all of them.

## When it fires
When some GPUs are unused while another one is in use (a 99th percentile above 10 %), and both are
known for `final_seconds`; in a running run for `minimum_seconds`, counted from the first use of any
GPU. If no GPU is
in use, it fires after the end of the run. A GPU that is no longer used fires while another one
still is; if all are idle, `hung` or `idle_tail` judge the run.

## When it is wrong
A GPU that is reserved for a late phase (evaluation, export) looks unused until then. One that only
holds memory for the others is unused but needed: the finding says how much it holds. Utilisation
that can't be read (MIG) is unknown, not unused.

## How to fix it
Start one process per GPU (`torchrun --nproc-per-node`), use DistributedDataParallel, or use a
machine with fewer GPUs. If no GPU is used, check that the framework finds CUDA, or use a machine
without GPUs.

## Parameters
`unused_pct` defines unused; `minimum_seconds` is how long utilisation must be known,
`final_seconds` in a run that has ended;
`recent_seconds` is how long a GPU must have been idle to be no longer used.

## Sources
2 %: Princeton's GPU reports. A study of Perlmutter found that 12 % of its jobs on four GPUs used
only one. One hour: Princeton's Job Defense Shield warns of GPUs at 0 % after 60 minutes; a mean
over the whole job never shows a GPU that has stopped (its users' report). SageMaker has no such
rule: there an unused GPU is a CPU bottleneck or a small batch. `low_gpu_utilization` names unused
GPUs as well; their waste is the same time and is counted once. That half to all of the time can be
given back is our estimate: machines come in fixed sizes.
"""

from __future__ import annotations

import pandas as pd

from rules.category import GPU
from rules.evidence import clamp_seconds, percentile, series_after
from rules.frame import GPU_IN_USE_PCT, UNUSED_PCT, NodeFrame, RunFrame
from rules.gpus import advice_on_unused
from rules.idle import is_mostly_set
from rules.rule import Claim, Numbers, Parameter, Rule, Values, Verdict, Window
from rules.told import GPU_MEMORY, told_gpus
from rules.wording import lasting, name_gpus, sentence, some_gpus, was_or_were, write_shortage

RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.5, 1.0
HELD_BYTES = 2**30
"""More memory in use than a driver and an idle process take (ours)."""
KNOWN_SHARE = 0.8
"""The share of the last `recent_seconds` that must be known, to call a GPU idle in them."""

LABELS = ("unused_gpu", "gpu_idle")


def measure(frame: RunFrame, values: Values) -> Numbers:
    began = min(_first_uses(frame), default=None)
    numbers: dict[str, float | None] = {
        "run_seconds": frame.duration_seconds,
        "is_final": float(frame.final),
        "gpus_count": float(sum(len(n.allocated_gpus()) for n in frame.nodes.values())),
    }
    windows = []
    since = None if frame.final else began
    for node in frame.nodes.values():
        for number in node.allocated_gpus():
            busy, entity = node.gpu_busy_pct(number), f"{node.key}/gpu{number}"
            if busy is None:
                continue
            measured = _gpu_numbers(busy, frame, values, since)
            measured["p99_pct"] = node.gpu_busy_p99_pct(number)
            measured["held_bytes"] = _held_bytes(node, number)
            is_told = number in told_gpus(node)
            measured["is_told"] = float(is_told)
            numbers |= {f"{name}@{entity}": value for name, value in measured.items()}
            if (measured["p99_pct"] or 0.0) <= values["unused_pct"] and not is_told:
                windows.append(Window(0.0, frame.duration_seconds, entity))
            elif idle := measured["idle_seconds"]:
                end = frame.duration_seconds
                windows.append(Window(max(end - idle, 0.0), end, entity))
    return Numbers(numbers, tuple(windows))


def judge(numbers: Numbers, values: Values) -> Verdict:
    count = numbers.get("gpus_count") or 0.0
    if count <= 0:
        return Verdict("not_applicable", "The run was given no GPU.")
    p99, seen = numbers.by_entity("p99_pct"), numbers.by_entity("seen_seconds")
    needed = values["final_seconds" if numbers.get("is_final") else "minimum_seconds"]
    known = {g: pct for g, pct in p99.items() if seen.get(g, 0.0) >= needed}
    told = numbers.by_entity("is_told")
    unused = [g for g, pct in known.items() if pct <= values["unused_pct"] and not told.get(g)]
    in_use = [gpu for gpu, pct in p99.items() if pct > GPU_IN_USE_PCT]
    if unused and not in_use:
        return _none_in_use(numbers, known, unused, count)
    stopped = _stopped(numbers, values)
    judged = known.keys() | set(in_use)
    if not unused and not stopped and len(judged) < count:
        unjudged = some_gpus(count - len(judged), count)
        short = [seconds for gpu, seconds in seen.items() if gpu not in judged]
        return Verdict("insufficient_data", _what_lacks(unjudged, short, needed))
    if not unused and not stopped and _lacks_recent(numbers, values):
        last = f"of some GPUs in the last {lasting(values['recent_seconds'])}"
        return Verdict("insufficient_data", f"Missing: the utilisation {last}.")
    if not unused and not stopped:
        every = "The only GPU was" if count == 1 else f"All {count:.0f} GPUs were"
        return Verdict("passed", f"{every} used.")
    return _fired(numbers, unused, stopped, count)


def _what_lacks(unjudged: str, seen: list[float], needed: float) -> str:
    """Say what is missing of GPUs that are known for `seen` seconds."""
    short = [seconds for seconds in seen if seconds < needed]
    if not short:
        return f"Missing: the utilisation of {unjudged}."
    known = write_shortage(max(short), needed)
    return f"Not enough data: the utilisation of {unjudged} is known for {known}."


def _stopped(numbers: Numbers, values: Values) -> dict[str, float]:
    """Return the idle seconds of each GPU that is no longer used, while another one is."""
    p99, recent = numbers.by_entity("p99_pct"), numbers.by_entity("recent_p99_pct")
    if not _is_long(numbers, values) or not any(pct > GPU_IN_USE_PCT for pct in recent.values()):
        return {}
    idle = numbers.by_entity("idle_seconds")
    return {g: s for g, s in idle.items() if s > 0 and p99.get(g, 0.0) > values["unused_pct"]}


def _lacks_recent(numbers: Numbers, values: Values) -> bool:
    """Return whether it is unknown of a GPU if it is still used."""
    gpus = numbers.by_entity("p99_pct").keys()
    known = (numbers.by_entity(name).keys() for name in ("recent_p99_pct", "idle_seconds"))
    return _is_long(numbers, values) and any(each != gpus for each in known)


def _is_long(numbers: Numbers, values: Values) -> bool:
    return (numbers.get("run_seconds") or 0.0) > values["recent_seconds"]


def _none_in_use(
    numbers: Numbers, known: dict[str, float], unused: list[str], count: float
) -> Verdict:
    """Return the verdict on GPUs of which none is in use. Before its end, the run may still start
    to use them.
    """
    if not numbers.get("is_final"):
        return Verdict("insufficient_data", "No GPU has been used so far.")
    if len(known) < count:
        return Verdict("insufficient_data", "Missing: the utilisation of some GPUs.")
    return _fired(numbers, unused, {}, count)


def _fired(numbers: Numbers, unused: list[str], stopped: dict[str, float], count: float) -> Verdict:
    run = numbers.get("run_seconds") or 0.0
    whole = max(count, float(len(unused) + len(stopped)))
    share = len(unused) / whole
    wasted = clamp_seconds(share * run + sum(min(s, run) for s in stopped.values()) / whole, run)
    return Verdict(
        "fired",
        _summary(numbers, unused, stopped, count),
        advice=_advice(numbers, unused, stopped, count),
        claims=(Claim(LABELS, wasted, RECOVERABLE_LOW, RECOVERABLE_HIGH),),
        severity="high" if 2 * wasted >= run else "medium",
        dedupe_key="unused_gpus",
    )


def _summary(numbers: Numbers, unused: list[str], stopped: dict[str, float], count: float) -> str:
    parts, every = [], numbers.by_entity("p99_pct")
    if unused:
        some = sentence(some_gpus(len(unused), count))
        parts.append(f"{some} {was_or_were(len(unused))} never used: {name_gpus(unused, every)}.")
    if stopped:
        least = lasting(min(stopped.values()))
        some = sentence(some_gpus(len(stopped), count))
        which = name_gpus(stopped, every)
        parts.append(f"{some} {was_or_were(len(stopped))} idle for the last {least}: {which}.")
    if held := _held(numbers, [*unused, *stopped]):
        gib = max(held.values()) / 2**30
        parts.append(f"Up to {gib:.1f} GiB of memory is in use on {name_gpus(held, every)}.")
    return " ".join(parts)


def _advice(numbers: Numbers, unused: list[str], stopped: dict[str, float], count: float) -> str:
    if _held(numbers, [*unused, *stopped]):
        return "Give them work, or find out first what needs their memory: it must fit elsewhere."
    if not unused:
        return "Find out why their processes stopped, or do the rest on a machine with fewer GPUs."
    return advice_on_unused(len(unused), count)


def _held(numbers: Numbers, gpus: list[str]) -> dict[str, float]:
    """Return the memory in use on each of the GPUs that isn't empty."""
    held = numbers.by_entity("held_bytes")
    return {gpu: held[gpu] for gpu in gpus if held.get(gpu, 0.0) > HELD_BYTES}


def _gpu_numbers(
    busy: pd.Series[float], frame: RunFrame, values: Values, since: float | None
) -> dict[str, float | None]:
    judged = busy if since is None else series_after(busy, since)
    step, length = frame.resolution_seconds, values["recent_seconds"]
    is_long = frame.duration_seconds > length
    recent = series_after(busy, frame.duration_seconds - length) if is_long else None
    is_known = recent is not None and len(recent) * step >= KNOWN_SHARE * length
    p99 = percentile(recent, 99) if is_known else None
    idles = p99 is not None and p99 <= values["unused_pct"]
    return {
        "seen_seconds": 0.0 if judged is None else len(judged) * step,
        "recent_p99_pct": p99,
        "idle_seconds": _idle_seconds(busy, frame, values["unused_pct"]) if idles else 0.0,
    }


def _idle_seconds(busy: pd.Series[float], frame: RunFrame, unused_pct: float) -> float:
    """Return the time from its last use to the end; blips don't count."""
    used = busy.index[is_mostly_set(busy > unused_pct).to_numpy(dtype=bool)]
    last = float(used[-1]) + frame.resolution_seconds if len(used) else 0.0
    return max(frame.duration_seconds - last, 0.0)


def _held_bytes(node: NodeFrame, number: int) -> float | None:
    return percentile(node.series(f"gpu{number}.memory_used_bytes"), 50)


def _first_uses(frame: RunFrame) -> list[float]:
    uses = (node.first_use_seconds for node in frame.nodes.values())
    return [first for first in uses if first is not None]


RULE = Rule(
    id="unused_gpus",
    title="Unused GPUs",
    category=GPU,
    version=5,
    needs=("gpu*.busy_pct",),
    claims_on=LABELS,
    ruled_out_by=(GPU_MEMORY,),
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
        Parameter("final_seconds", "s", 20, 1, 86_400, "After the end of the run", "ours"),
        Parameter(
            "recent_seconds",
            "s",
            3600,
            300,
            604_800,
            "No longer used after idling for this long",
            "JDS, 60 min",
            measured=True,
            save=1800,
            safe=7200,
        ),
    ),
    measure=measure,
    judge=judge,
)
