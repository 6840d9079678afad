"""The work of each GPU: how busy it is while the training works, and in which numbers and memory
format it computes.

The shares are means over the whole of the work, never single samples: those of a GPU's utilisation
and of its units aren't of the same moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rules.activity import working
from rules.evidence import clamp_seconds
from rules.frame import NodeFrame, RunFrame
from rules.gpus import gpu_counts
from rules.rule import Numbers, Parameter, Values
from rules.training_loop import events_of
from rules.windows import needed_seconds
from rules.wording import name_gpus, range_pct, sentence, some_gpus, was_or_were, write_shortage

HALF = frozenset({"float16", "bfloat16"})
PARAMETERS = (
    Parameter("busy_pct", "%", 60, 10, 100, "A less busy GPU mostly waits for others", "ours"),
    Parameter(
        "patience_seconds", "s", 60, 20, 86_400, "Known seconds of work needed to judge", "ours"
    ),
    Parameter(
        "patience_share_pct", "%", 25, 0, 100, "In a short run, this share of it is enough", "ours"
    ),
)
"""The parameters of `busy_gpus`."""


def work_numbers(frame: RunFrame) -> dict[str, float | None]:
    """Return `gpu_counts`, and of each used GPU while the training works: the mean utilisation and
    activity of its tensor cores in per cent, and known and busy seconds.
    """
    found = gpu_counts(frame) | {"run_seconds": frame.duration_seconds}
    for node in frame.nodes.values():
        for number in node.used_gpus:
            entity = f"{node.key}/gpu{number}"
            busy = working(node, node.gpu_busy_pct(number))
            known = len(busy) * frame.resolution_seconds if busy is not None else 0.0
            mean = float(np.clip(busy.to_numpy(), 0, 100).mean()) if busy is not None else None
            found |= {
                f"busy_pct@{entity}": mean,
                f"seen_seconds@{entity}": known,
                f"busy_seconds@{entity}": known * mean / 100 if mean is not None else None,
                f"tensor_pct@{entity}": _mean(node, f"gpu{number}.tensor_active_pct"),
            }
    return found


def known_gpus(numbers: Numbers, values: Values) -> dict[str, float]:
    """Return the mean utilisation of each GPU of which it is known for long enough, by entity."""
    needed = needed_seconds(values, numbers)
    seen, busy = numbers.by_entity("seen_seconds"), numbers.by_entity("busy_pct")
    return {gpu: pct for gpu, pct in busy.items() if seen.get(gpu, 0.0) >= needed}


def are_all_known(numbers: Numbers, values: Values) -> bool:
    """Return whether the utilisation of each used GPU is known for long enough."""
    return len(known_gpus(numbers, values)) >= (numbers.get("used_gpus_count") or 0.0)


def busy_gpus(numbers: Numbers, values: Values) -> dict[str, float] | str:
    """Return the mean utilisation of each GPU that is at least `busy_pct` busy, by entity, or what
    is missing to tell.
    """
    known = known_gpus(numbers, values)
    found = {gpu: pct for gpu, pct in known.items() if pct >= values["busy_pct"]}
    if found or are_all_known(numbers, values):
        return found
    needed, seen = needed_seconds(values, numbers), numbers.by_entity("seen_seconds").values()
    short = [seconds for seconds in seen if 0 < seconds < needed]
    if not short:
        return "Missing: the utilisation of the GPUs while the training works."
    used = numbers.get("used_gpus_count") or 0.0
    unjudged = some_gpus(used - len(known), used)
    known_for = write_shortage(max(short), needed, "of work")
    return f"Not enough data: the utilisation of {unjudged} is known for {known_for}."


def claimed_seconds(numbers: Numbers, gpus: Mapping[str, float]) -> float:
    """Return the time of these GPUs' work, as time of the whole run at its price."""
    busy, count = numbers.by_entity("busy_seconds"), numbers.get("gpus_count") or 1.0
    seconds = sum(busy.get(gpu, 0.0) for gpu in gpus) / count
    return clamp_seconds(seconds, numbers.get("run_seconds") or 0.0)


def describe_busy(gpus: Mapping[str, float], count: float) -> str:
    """Return `2 of 4 GPUs were 80 to 90 % busy (n1/gpu0, n1/gpu1)`."""
    words = f"{some_gpus(len(gpus), count)} {was_or_were(len(gpus))} {range_pct(gpus.values())}"
    return sentence(f"{words} busy ({name_gpus(gpus, gpus)})")


def told_numbers(frame: RunFrame) -> dict[str, float | None]:
    """Return in which numbers the training computes, as its ranks told it last: flags that are None
    where nothing was told; and the convolutions of a rank, and how many are in channels_last.

    `is_half`: in 16 bits, by autocast or by its parameters. `is_tf32`, `is_cudnn_tf32`: products,
    and convolutions, of float32 may be computed in TF32.
    """
    precision = _last_told(frame, "precision")
    formats = _last_told(frame, "memory_format")
    kinds = {precision.get("amp"), precision.get("parameters")} if precision else set()
    return {
        "is_half": float(bool(kinds & HALF)) if precision else None,
        "is_float32": float(kinds == {"off", "float32"}) if precision else None,
        "is_tf32": _flag(precision, "tf32"),
        "is_cudnn_tf32": _flag(precision, "cudnn_tf32"),
        "is_compiled": float(any(_told(frame, "compile"))),
        "convolutions": _number(formats, "convolutions"),
        "channels_last": _number(formats, "channels_last"),
    }


def _told(frame: RunFrame, kind: str) -> Iterator[tuple[float, dict[str, Any]]]:
    for node in frame.nodes.values():
        yield from events_of(node, kind)


def _last_told(frame: RunFrame, kind: str) -> dict[str, Any]:
    return max(_told(frame, kind), key=lambda each: each[0], default=(0.0, {}))[1]


def _flag(data: Mapping[str, Any], name: str) -> float | None:
    value = data.get(name)
    return float(value) if isinstance(value, bool) else None


def _number(data: Mapping[str, Any], name: str) -> float | None:
    value = data.get(name)
    return float(value) if isinstance(value, int) and value >= 0 else None


def _mean(node: NodeFrame, series: str) -> float | None:
    part = working(node, node.series(series))
    return float(part.mean()) if part is not None else None
