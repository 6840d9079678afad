"""The driver reported errors of a GPU's hardware.

## What it checks
The driver's XID errors of the run's GPUs that NVIDIA's catalogue explains by the hardware: memory,
links, the bus, or firmware. And the GPUs' counters of uncorrected memory errors, as far as they
rose during the run. The errors that are mostly a program's own (XID 13, 31, 43 and 45) don't count.

## Why it costs money
A GPU that loses memory or its link fails again, on the next run as well. Each failure costs the
work since the last checkpoint and a new start, on all nodes.

## When it fires
When a GPU has at least `least_errors` of these errors. Errors after which the GPU must be reset or
replaced (XID 48, 61, 62, 64, 74, 79, 95, 119, 120, 140, 143 and 158, and uncorrected memory errors)
are of high severity; those that a new start of the program or the next reset mends (XID 63, 92 and
94) are of medium severity. It names no waste: what a failure has cost is told by `lost_work`,
`slow_restart` and `failed_late`.

## When it is wrong
The driver reports XID 74 and 79 also when a machine is shut down under a program. A driver that
reports no XID and counts no memory errors says nothing: then the rule lacks data. So it does if the
driver didn't say on which GPU the error was.

## How to fix it
Take the node out of the queue (`scontrol update nodename=NODE state=drain`, `kubectl cordon NODE`),
run `dcgmi diag -r 3` or reset the GPU (`nvidia-smi --gpu-reset`), and report it; on a cloud, stop
the machine and start another one. Continue from the last checkpoint.

## Parameters
`least_errors` of one GPU.

## Sources
NVIDIA's catalogue of XID errors, and its guide to memory errors of GPUs. That one error is enough
is our choice.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from rules.category import GPU
from rules.failure_causes import HARDWARE_XIDS
from rules.frame import NodeFrame, RunFrame
from rules.rule import Numbers, Parameter, Rule, Values, Verdict
from rules.training_loop import events_of
from rules.wording import name_gpus, sentence, some_gpus

MENDED_XIDS = frozenset({63, 92, 94})
"""The errors that a new start of the program, or the next reset, mends."""


def measure(frame: RunFrame, values: Values) -> Numbers:
    numbers: dict[str, float | None] = {"gpus_count": 0.0}
    for node in frame.nodes.values():
        unplaced = sum(xid in HARDWARE_XIDS for xid in _xids(node, None))
        numbers[f"unplaced_errors_count@{node.key}"] = float(unplaced)
        for number in node.allocated_gpus():
            entity = f"{node.key}/gpu{number}"
            numbers["gpus_count"] = (numbers["gpus_count"] or 0.0) + 1.0
            xids = _xids(node, number)
            numbers[f"mended_errors_count@{entity}"] = float(sum(x in MENDED_XIDS for x in xids))
            numbers[f"lasting_errors_count@{entity}"] = float(
                sum(xid in HARDWARE_XIDS - MENDED_XIDS for xid in xids)
            )
            numbers[f"memory_errors_count@{entity}"] = _memory_errors(node, number)
    return Numbers(numbers)


def judge(numbers: Numbers, values: Values) -> Verdict:
    if not numbers.get("gpus_count"):
        return Verdict("not_applicable", "No GPU is known of.")
    errors = _errors(numbers)
    bad = sorted(gpu for gpu, count in errors.items() if count >= values["least_errors"])
    if bad:
        return _fired(numbers, bad)
    without = {
        node for node, count in numbers.by_entity("unplaced_errors_count").items() if not count
    }
    if unplaced := numbers.entities("unplaced_errors_count") - without:
        on = f"Missing: which GPU of {', '.join(sorted(unplaced))} had an error of its hardware."
        return Verdict("insufficient_data", on)
    counted = numbers.by_entity("memory_errors_count")
    if uncounted := numbers.entities("memory_errors_count") - counted.keys():
        missing = f"Missing: whether {name_gpus(sorted(uncounted))} had errors of its memory."
        return Verdict("insufficient_data", missing)
    if any(errors.values()):
        fewer = f"fewer than {values['least_errors']:.12g} errors of its hardware"
        return Verdict("passed", f"Each GPU reported {fewer}.")
    return Verdict("passed", "No GPU reported an error of its hardware.")


def _errors(numbers: Numbers) -> dict[str, float]:
    """Return how many errors each GPU is known to have had."""
    names = ("lasting_errors_count", "mended_errors_count", "memory_errors_count")
    kinds = [numbers.by_entity(name) for name in names]
    gpus = dict.fromkeys(gpu for kind in kinds for gpu in kind)
    return {gpu: sum(kind.get(gpu, 0.0) for kind in kinds) for gpu in gpus}


def _fired(numbers: Numbers, bad: Collection[str]) -> Verdict:
    lasting = numbers.by_entity("lasting_errors_count")
    memory = numbers.by_entity("memory_errors_count")
    is_lasting = any(lasting.get(gpu) or memory.get(gpu) for gpu in bad)
    gpus = some_gpus(len(bad), numbers.get("gpus_count") or len(bad))
    return Verdict(
        "fired",
        sentence(f"{gpus} reported errors of hardware ({name_gpus(bad)})."),
        advice=_advice(is_lasting),
        severity="high" if is_lasting else "medium",
        dedupe_key="gpu_errors:" + ("lasting" if is_lasting else "mended"),
    )


def _advice(is_lasting: bool) -> str:
    if is_lasting:
        return (
            "Take the node out of the queue, report the GPU, and continue from the last "
            "checkpoint on another one."
        )
    return "Reset the GPU before the next run, and report it if the errors come again."


def _xids(node: NodeFrame, number: int | None) -> list[int]:
    """Return the errors of a GPU; None: those of which the driver didn't say which GPU it was."""
    reported = (data for _, data in events_of(node, "gpu_xid") if data.get("gpu") == number)
    return [xid for data in reported if isinstance(xid := data.get("xid"), int)]


def _memory_errors(node: NodeFrame, number: int) -> float | None:
    """Return by how much the counter rose during the run; None if it isn't known."""
    counter = node.series(f"gpu{number}.ecc_uncorrected_errors_total")
    if counter is None or len(counter) < 2:
        return None
    # A counter that starts again has fallen.
    return float(np.clip(np.diff(counter.to_numpy()), 0.0, None).sum())


RULE = Rule(
    id="gpu_errors",
    title="Errors of a GPU's hardware",
    category=GPU,
    version=1,
    needs=(),
    parameters=(Parameter("least_errors", "errors", 1, 1, 1e6, "Errors of one GPU", "ours"),),
    measure=measure,
    judge=judge,
    reports_risk=True,
)
