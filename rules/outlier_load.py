"""Compares how busy a node was during its outlier steps, and during the other ones."""

from __future__ import annotations

import numpy as np

from rules.activity import cpu_pct, used_gpu_pct, working
from rules.frame import Flags, NodeFrame
from rules.grid import Floats
from rules.rule import Numbers

LOADS = {"gpu": "GPUs", "cpu": "cores", "io_wait": "I/O wait"}
"""Name of a number -> what it is, in words."""


def loads(
    node: NodeFrame, starts: Floats, lengths: Floats, resolution_seconds: float
) -> dict[str, float]:
    """Return `<load>_in_outliers_pct` and `<load>_otherwise_pct`, the means of what is known of
    both.

    Args:
        starts, lengths: those of the outliers, in seconds.
    """
    series = {
        "gpu": used_gpu_pct(node),
        "cpu": cpu_pct(node, resolution_seconds),
        "io_wait": node.series("host.cpu_iowait_pct"),
    }
    found: dict[str, float] = {}
    for name, known in series.items():
        values = working(node, known)
        if values is None or not len(starts):
            continue
        is_inside = _inside(values.index.to_numpy(dtype=float), starts, lengths)
        if is_inside.any() and not is_inside.all():
            found[f"{name}_in_outliers_pct"] = float(values[is_inside].mean())
            found[f"{name}_otherwise_pct"] = float(values[~is_inside].mean())
    return found


def load_words(numbers: Numbers) -> str:
    """Return a sentence; empty if nothing is known."""
    parts = []
    for name, what in LOADS.items():
        inside = numbers.get(f"{name}_in_outliers_pct")
        otherwise = numbers.get(f"{name}_otherwise_pct")
        if inside is not None and otherwise is not None:
            parts.append(f"{what} {inside:.0f} % (otherwise {otherwise:.0f} %)")
    return f" During them: {', '.join(parts)}." if parts else ""


def _inside(moments: Floats, starts: Floats, lengths: Floats) -> Flags:
    """Return whether each moment lies in one of the steps, of one rank, so that they don't
    overlap.
    """
    order = np.argsort(starts)
    starts, ends = starts[order], (starts + lengths)[order]
    place = np.searchsorted(starts, moments, side="right") - 1
    return np.asarray((place >= 0) & (moments < ends[place.clip(0)]))
