"""Nested random effects: how alike the log speeds of two GPUs deviate from what is expected.

A level (all trainings, a workspace, a workload, a configuration) draws a slope on each log rate of
the data sheet, an effect of each GPU generation and a free effect of each GPU, each once for all
precision classes and once for each. A point is a GPU at a precision class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.speed.data_sheets import PRECISION_CLASSES, DataSheet

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

RATES = ("fp32", "peak", "bandwidth")
EFFECTS = (*RATES, "family", "gpu")
_REFERENCE = np.array([[2.75, 2.75, 6.8], [2.75, 2.75, 6.8], [2.75, 4.83, 6.8]])
"""A V100's log rates, by precision class: slopes turn around them."""


@dataclass(frozen=True)
class Points:
    """GPUs at precision classes; arrays of one length."""

    classes: Integers
    gpus: Integers
    families: Integers
    rates: Floats
    """(points, 3): log FP32, peak of the precision and bandwidth, over a V100's."""

    def __getitem__(self, chosen: Sequence[int] | Integers) -> Points:
        index = np.asarray(chosen, dtype=np.int64)
        return Points(
            self.classes[index], self.gpus[index], self.families[index], self.rates[index]
        )

    def __len__(self) -> int:
        return len(self.classes)


@dataclass(frozen=True)
class EffectLevel:
    """Variances of one level's effects."""

    variances: Floats
    """(5,), in the order of EFFECTS."""
    shared: float
    """The part of each that all precision classes share, 0 to 1."""

    def covariance(self, points: Points) -> Floats:
        parts = [v * p for v, p in zip(self.variances, effect_products(points), strict=True)]
        return np.asarray(np.sum(parts, axis=0) * class_factor(points, self.shared))


def effect_products(points: Points) -> list[Floats]:
    """Return the covariance of each effect at variance 1, in the order of EFFECTS."""
    slopes = [np.outer(points.rates[:, n], points.rates[:, n]) for n in range(len(RATES))]
    return [*slopes, _equal(points.families), _equal(points.gpus)]


def class_factor(points: Points, shared: float) -> Floats:
    return np.asarray(shared + (1 - shared) * _equal(points.classes))


def _equal(values: Integers) -> Floats:
    return np.asarray(values[:, None] == values[None, :], dtype=np.float64)


def all_points(sheets: Sequence[DataSheet]) -> Points:
    """Return every GPU at every class: point `class * len(sheets) + gpu`."""
    families = {family: n for n, family in enumerate(dict.fromkeys(s.family for s in sheets))}
    classes = range(len(PRECISION_CLASSES))
    rates = [[s.log_fp32, s.log_peaks[c], s.log_bandwidth] for c in classes for s in sheets]
    which = np.repeat(np.arange(len(PRECISION_CLASSES)), len(sheets))
    return Points(
        classes=which,
        gpus=np.tile(np.arange(len(sheets)), len(PRECISION_CLASSES)),
        families=np.tile([families[s.family] for s in sheets], len(PRECISION_CLASSES)),
        rates=np.array(rates) - _REFERENCE[which],
    )
