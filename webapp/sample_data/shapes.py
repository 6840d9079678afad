"""Simulated quantities over time, all of them seeded."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def wandering(
    random: np.random.Generator, level: float, count: int, noise: float = 0.015
) -> Floats:
    """Return a slow wave of 4 % and noise around `level`."""
    wave = 1 + 0.04 * np.sin(np.linspace(0, count / 20, count) + random.uniform(0, 6))
    return level * wave * (1 + random.normal(0, noise, count))


def scaled_to_p95(values: Floats, target: float) -> Floats:
    """Scale the shape to a 95th percentile of `target`."""
    return values * (target / float(np.percentile(values, 95)))


def percent(values: Floats) -> Floats:
    """Clamp the values to 0..100, rounded to a tenth."""
    return np.clip(values, 0.0, 100.0).round(1)


def round_to_int(values: Floats) -> NDArray[Any]:
    return np.round(values).astype(np.int64)


def counter(rate_per_second: Floats, resolution_ms: int) -> NDArray[Any]:
    """Return the running total of a rate, as a kernel's counter shows it: whole and never
    falling.
    """
    return round_to_int(np.cumsum(np.clip(rate_per_second, 0, None)) * resolution_ms / 1000)


def split(
    random: np.random.Generator, total_us: int, count: int, noise: float = 0.05
) -> NDArray[np.int64]:
    """Return `count` durations around their mean that add up to `total_us` exactly."""
    parts = np.clip(random.normal(1, noise, count), 0.5, 2)
    edges = np.round(np.concatenate([[0.0], np.cumsum(parts)]) / parts.sum() * total_us)
    whole_edges: NDArray[np.int64] = edges.astype(np.int64)
    return whole_edges[1:] - whole_edges[:-1]
