"""Far fewer or far more data-loader workers than cores slow the loop down.

## What it checks
The number of data-loader processes on each node, as the agent counted them (the median during work)
or as the loops declared them (the sum over the node's ranks), against the cores that the run was
given. And whether it matters: the share of step time spent waiting for data, and how busy the cores
are. It also tells whether the loaders pin memory and how far they prefetch.

## Why it costs money
With too few workers the GPU waits while cores are idle. With too many, the workers take cores from
each other and from the training, and memory as well.

## When it fires
Too few: below `min_threshold` percent of the cores. Too many: above `max_threshold`. It doesn't
fire if the loop is known to wait for data less than `wait_share_pct` of the time, unless too many
workers keep the cores busy (90 % and more). If the wait isn't known, it says so: an unknown wait is
no reason to change the loader.

## When it is wrong
A loader may prepare data in threads of one process, which are not counted; then few processes are
enough. On machines with very many cores, fewer workers than 70 % of them are plenty as long as the
loop doesn't wait.

## How to fix it
Set `num_workers` to about the cores per rank, measure, and stop where the wait ends. `pin_memory`
and `persistent_workers` cost nothing.

## Parameters
`min_threshold` and `max_threshold` as in SageMaker; `wait_share_pct` is the wait from which on the
number of workers matters.

## Sources
SageMaker Debugger's Dataloader: min_threshold 70, max_threshold 200. Differences: a loop that
doesn't wait for data doesn't fire, whatever its number of workers, where SageMaker fires; the cores
are those that the run was given, not all of the machine; processes are counted, not the distinct
ids of events in a second. 10 % of wait: ours, between the 5 % at which TensorFlow and the PyTorch
profiler remark on it and the 15 % at which `input_bound` fires. That a fix gives back 0.3 to 0.9 of
the wait is our estimate. Only waits in which the used GPUs were idle within the same 5 s count, as
in the ledger.
"""

from __future__ import annotations

from collections.abc import Collection

from rules.activity import cores, cpu_pct, working
from rules.category import DATA
from rules.evidence import clamp_seconds, percentile
from rules.frame import NodeFrame, RunFrame
from rules.rule import Claim, Numbers, Parameter, Rule, Values, Verdict
from rules.stalls import wasted_wait_seconds
from rules.step_time import step_time
from rules.training_loop import training_loaders
from rules.wording import write_count

CORES_FULL_PCT = 90.0
RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.3, 0.9

LABELS = ("data_stall",)


def measure(frame: RunFrame, values: Values) -> Numbers:
    step = step_time(frame)
    numbers: dict[str, float | None] = {
        "run_seconds": frame.duration_seconds,
        "wait_share_pct": step.wait_share_pct,
        "step_seconds": step.seconds / step.ranks if step.ranks else None,
        "wasted_wait_seconds": wasted_wait_seconds(frame),
    }
    for node in frame.nodes.values():
        given = node.hardware.effective_cpus or cores(node)
        workers = _workers(node)
        numbers[f"workers@{node.key}"] = workers
        numbers[f"ranks@{node.key}"] = _ranks(node)
        numbers[f"cores@{node.key}"] = given or None
        known = workers is not None and given > 0
        numbers[f"workers_pct@{node.key}"] = 100 * (workers or 0.0) / given if known else None
        busy = working(node, cpu_pct(node, frame.resolution_seconds))
        numbers[f"cpu_p50_pct@{node.key}"] = percentile(busy, 50)
        numbers |= {f"{name}@{node.key}": value for name, value in _settings(node).items()}
    return Numbers(numbers)


def judge(numbers: Numbers, values: Values) -> Verdict:
    shares = numbers.by_entity("workers_pct")
    if not shares:
        return Verdict("insufficient_data", _what_lacks(numbers))
    few = {node: pct for node, pct in shares.items() if pct < values["min_threshold"]}
    many = {node: pct for node, pct in shares.items() if pct > values["max_threshold"]}
    is_complete = numbers.entities("workers_pct") == shares.keys()
    if not few and not many:
        if not is_complete:
            return Verdict("insufficient_data", _what_lacks(numbers))
        return Verdict("passed", f"{_words(numbers, max(shares, key=lambda n: shares[n]))}.")
    node = min(few, key=lambda n: few[n]) if few else max(many, key=lambda n: many[n])
    wait = numbers.get("wait_share_pct")
    crowded = _cores_are_full(numbers, many)
    if wait is not None and wait < values["wait_share_pct"] and crowded is None:
        full = "whether they keep the cores busy isn't known"
        return Verdict("insufficient_data", f"{_words(numbers, node)}, but {full}.")
    if wait is None and not crowded:
        waits = "whether the loop waits for data isn't known: call trimtab.wrap(loader)"
        return Verdict("insufficient_data", f"{_words(numbers, node)}, but {waits}.")
    if wait is not None and wait < values["wait_share_pct"] and not crowded:
        if not is_complete:
            return Verdict("insufficient_data", _what_lacks(numbers))
        well = f"the loop waits for data for only {wait:.1f} % of the time"
        return Verdict("passed", f"{_words(numbers, node)}, but {well}.")
    return _fired(numbers, node, bool(few), wait)


def _what_lacks(numbers: Numbers) -> str:
    if numbers.entities("workers") == numbers.by_entity("workers").keys():
        return "Missing: the number of cores."
    return "Missing: the number of data-loader workers."


def _fired(numbers: Numbers, node: str, is_few: bool, wait: float | None) -> Verdict:
    lost = (wait or 0.0) / 100 * (numbers.get("step_seconds") or 0.0)
    wasted = numbers.get("wasted_wait_seconds")
    lost = lost if wasted is None else min(lost, wasted)
    lost = clamp_seconds(lost, numbers.get("run_seconds") or 0.0)
    waits = "" if wait is None else f"; the loop waits for data for {wait:.1f} % of the time"
    return Verdict(
        "fired",
        f"{_words(numbers, node)}, too {'few' if is_few else 'many'}{waits}.",
        advice=_advice(numbers, node),
        claims=(Claim(LABELS, lost, RECOVERABLE_LOW, RECOVERABLE_HIGH),),
        severity="medium" if lost else "low",
        dedupe_key="dataloader:few" if is_few else "dataloader:many",
    )


def _words(numbers: Numbers, node: str) -> str:
    workers = numbers.by_entity("workers").get(node, 0.0)
    given = numbers.by_entity("cores").get(node, 0.0)
    return f"{write_count(workers, 'data-loader worker')} for {write_count(given, 'core')}"


def _advice(numbers: Numbers, node: str) -> str:
    given = numbers.by_entity("cores").get(node, 0.0)
    ranks = max(numbers.by_entity("ranks").get(node, 1.0), 1.0)
    each = max(int(given / ranks), 1)
    of = f"each of the {ranks:.0f} ranks" if ranks > 1 else "the loader"
    return (
        f"Set num_workers={each} in {of} ({write_count(given, 'core')}), measure, and lower it as "
        "long as the loop doesn't wait."
    )


def _cores_are_full(numbers: Numbers, nodes: Collection[str]) -> bool | None:
    """Return whether the cores of one of these nodes are busy; None if not known of each."""
    busy = numbers.by_entity("cpu_p50_pct")
    if any(busy.get(node, 0.0) >= CORES_FULL_PCT for node in nodes):
        return True
    return False if busy.keys() >= set(nodes) else None


def _ranks(node: NodeFrame) -> float | None:
    """Return the ranks of the node that train or declared a loader."""
    declared = {data.get("rank") for data in training_loaders(node)}
    return float(max(node.training_ranks, len(declared))) or None


def _settings(node: NodeFrame) -> dict[str, float | None]:
    """Return the number of loaders of which it is known whether they pin memory, and how many do;
    and the fewest batches that a worker prefetches.
    """
    declared = training_loaders(node)
    pinned = [each["pin_memory"] for each in declared if isinstance(each.get("pin_memory"), bool)]
    ahead = [each.get("prefetch_factor") for each in declared]
    fewest = [float(each) for each in ahead if isinstance(each, int) and each > 0]
    return {
        "loaders_count": float(len(pinned)) if pinned else None,
        "pinned_loaders_count": float(sum(pinned)) if pinned else None,
        "prefetch_count": min(fewest, default=None),
    }


def _workers(node: NodeFrame) -> float | None:
    """Return the workers as counted, else as declared: each rank's largest loader for training."""
    counted = percentile(working(node, node.series("workers.processes")), 50)
    if counted is not None:
        return counted
    by_rank: dict[object, float] = {}
    for data in training_loaders(node):
        workers = data.get("workers")
        if isinstance(workers, int | float) and workers >= 0:
            rank = data.get("rank")
            by_rank[rank] = max(by_rank.get(rank, 0.0), float(workers))
    return sum(by_rank.values()) if by_rank else None


RULE = Rule(
    id="dataloader",
    title="Number of data-loader workers",
    category=DATA,
    version=8,
    needs=(),
    claims_on=LABELS,
    parameters=(
        Parameter(
            "min_threshold", "%", 70, 0, 1000, "Too few below", "SageMaker, 70", "min_threshold"
        ),
        Parameter(
            "max_threshold", "%", 200, 0, 10_000, "Too many above", "SageMaker", "max_threshold"
        ),
        Parameter(
            "wait_share_pct",
            "%",
            10,
            0,
            100,
            "Matters from this share of waiting for data",
            "ours",
            save=5,
            safe=20,
        ),
    ),
    measure=measure,
    judge=judge,
    sagemaker_name="Dataloader",
)
