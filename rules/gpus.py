"""Checks whether a run has GPUs and uses them, for every rule about GPU utilisation."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rules.frame import RunFrame
from rules.rule import Numbers, Verdict
from rules.windows import start_up
from rules.wording import write_count


def gpu_counts(frame: RunFrame) -> dict[str, float | None]:
    """Return the numbers of allocated GPUs, of GPUs with known utilisation, and of used GPUs; and
    `start_up`.
    """
    return dict(frame.once(_gpu_counts))


def _gpu_counts(frame: RunFrame) -> dict[str, float | None]:
    nodes = frame.nodes.values()
    known = [n.gpu_busy_pct(number) for n in nodes for number in n.allocated_gpus()]
    return start_up(frame) | {
        "is_final": float(frame.final),
        "gpus_count": float(len(known)),
        "known_gpus_count": float(sum(series is not None for series in known)),
        "used_gpus_count": float(sum(len(node.used_gpus) for node in nodes)),
    }


def idle_seconds(busy_pct: pd.Series[float], resolution_seconds: float) -> float:
    """Return the part of the known time in which a GPU wasn't busy."""
    idle = 1 - np.clip(busy_pct.to_numpy(), 0, 100) / 100
    return float(idle.sum()) * resolution_seconds


def advice_on_unused(unused: float, count: float) -> str:
    """Say how to use GPUs that are never used, or to do without them."""
    if unused >= count:
        gpus = "the GPU" if count == 1 else "the GPUs"
        return (
            f"Check that the framework finds {gpus} (torch.cuda.is_available()), or use a machine "
            "without GPUs."
        )
    rest = write_count(count - unused, "GPU")
    return (
        "Start a process for each GPU (torchrun --nproc-per-node=gpu) with "
        f"DistributedDataParallel, or use machines with {rest} in all."
    )


def unfit(numbers: Numbers) -> Verdict | None:
    """Return the verdict on a run without used GPUs, by `gpu_counts`; None if a GPU was used."""
    given, known = numbers.get("gpus_count") or 0.0, numbers.get("known_gpus_count") or 0.0
    if given <= 0:
        return Verdict("not_applicable", "The run was given no GPU.")
    if numbers.get("used_gpus_count"):
        return None
    if known < given:
        return Verdict("insufficient_data", "Missing: the utilisation of the GPUs.")
    if numbers.get("is_final"):
        return Verdict("not_applicable", "No GPU was ever used: see unused_gpus.")
    return Verdict("insufficient_data", "No GPU has been used so far.")
