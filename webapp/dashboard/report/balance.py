"""Shows how evenly the GPUs of a node worked: the histograms of their utilisation, and how far
apart they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from advisor.store.series_spread import SeriesSpread
from rules.catalogue.load_balancing import EDGES
from rules.sagemaker_statistics import distance
from webapp.dashboard.report.drawing import Outline, outlines

DRAWN_EDGES = np.linspace(0.0, 100.0, 21)


@dataclass(frozen=True)
class Balance:
    """The GPUs of one node. `rows`: a GPU's label, and its distance from each of the GPUs, in
    words, with whether it is above the threshold; empty text: itself."""

    node: str
    lines: list[Outline]
    labels: list[str]
    rows: list[tuple[str, list[tuple[str, bool]]]]


def balances(
    work: Mapping[str, Mapping[int, SeriesSpread]],
    names: Mapping[str, str],
    threshold: float | None,
) -> list[Balance]:
    """Return the balance of nodes with two and more GPUs.

    Args:
        work: by the node's key and the GPU's number, its utilisation in percent.
        names: of nodes, by their keys.
        threshold: above it a distance counts; None: not known.
    """
    return [
        _balance(names.get(key, key), by_gpu, threshold)
        for key, by_gpu in work.items()
        if len(by_gpu) > 1
    ]


def _balance(node: str, by_gpu: Mapping[int, SeriesSpread], threshold: float | None) -> Balance:
    labels = [str(number) for number in by_gpu]
    counts = [spread.counts(EDGES) for spread in by_gpu.values()]
    rows = [
        (label, [_cell(own, other, threshold) for other in counts])
        for label, own in zip(labels, counts, strict=True)
    ]
    drawn = {f"GPU {number}": spread.counts(DRAWN_EDGES) for number, spread in by_gpu.items()}
    return Balance(node, outlines(drawn), labels, rows)


def _cell(own: np.ndarray, other: np.ndarray, threshold: float | None) -> tuple[str, bool]:
    apart = None if own is other else distance(own, other)
    if apart is None:
        return "", False
    return f"{apart:.2f}", threshold is not None and apart > threshold
