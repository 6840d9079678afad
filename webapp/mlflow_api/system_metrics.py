"""MLflow's system metrics as columns of a segment."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from trimtab.wire import Block

from advisor.mlflow_names import MetricPlace


@dataclass(frozen=True)
class Sample:
    series: str
    time_ms: int
    """Unix time."""
    value: float


def sample(place: MetricPlace, time_ms: int, value: float) -> Sample:
    return Sample(place.series, time_ms, value * place.factor)


def block(samples: Iterable[Sample], start_ms: int) -> Block | None:
    """Return the samples as columns, with times since `start_ms`; None without samples."""
    values = {(each.series, each.time_ms): each for each in samples}
    if not values:
        return None
    times = sorted({each.time_ms for each in values.values()})
    names = sorted({each.series for each in values.values()})
    columns = {name: [_value(values.get((name, at))) for at in times] for name in names}
    return Block([at - start_ms for at in times], columns)


def _value(known: Sample | None) -> float | int | None:
    """Return the sample's value. What is no number is missing, as what wasn't sent."""
    if known is None or not math.isfinite(known.value) or abs(known.value) > 2**60:
        return None
    return round(known.value) if known.series.endswith("_total") else known.value
