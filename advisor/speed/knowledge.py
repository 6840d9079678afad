"""The knowledge that a workspace's jobs give of the speed of GPUs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from functools import cache, cached_property
from itertools import combinations

from advisor.speed import slices
from advisor.speed.belief import Belief, MeasuredPoint
from advisor.speed.data_sheets import PRECISION_CLASSES, DataSheet, data_sheet, precision_class
from advisor.speed.measurement import Measurement
from advisor.speed.table import SpeedTable, bundled_table, sheets

KEPT_BELIEFS = 64


class Knowledge:
    """Measurements of a workspace's jobs, on top of the fitted table.

    Conditioning is exact and doesn't depend on the order of the measurements. It happens once and
    is kept for further questions.
    """

    def __init__(
        self, history: Iterable[Measurement] = (), table: SpeedTable | None = None
    ) -> None:
        self.table = table or bundled_table()
        self._workloads: dict[str, list[Measurement]] = defaultdict(list)
        for measurement in history:
            self._workloads[measurement.workload].append(measurement)
        self._without: dict[str, Belief] = {}

    def rows_of(self, workload: str) -> list[MeasuredPoint]:
        """Return the history's own measurements of this workload."""
        rows = map(row_of, self._workloads.get(workload, ()))
        return [row for row in rows if row is not None]

    def belief_of_others(self, workload: str) -> Belief:
        """Return the belief given all workloads but this one."""
        if workload not in self._workloads:
            return self._of_all
        if workload not in self._without:
            if len(self._without) >= KEPT_BELIEFS:
                self._without.clear()
            others = (name for name in sorted(self._workloads) if name != workload)
            self._without[workload] = self.table.belief.condition_on(
                filter(None, map(self.rows_of, others))
            )
        return self._without[workload]

    def knows_pair(self, one: str, other: str) -> bool:
        """Return whether one configuration of the workspace ran on both GPUs."""
        return frozenset((_name(one), _name(other))) in self._pairs

    @cached_property
    def is_empty(self) -> bool:
        return not self._workloads

    @cached_property
    def _of_all(self) -> Belief:
        return self.table.belief.condition_on(
            filter(None, map(self.rows_of, sorted(self._workloads)))
        )

    @cached_property
    def _pairs(self) -> frozenset[frozenset[str]]:
        return pairs(m for of_one in self._workloads.values() for m in of_one)


def pairs(measurements: Iterable[Measurement]) -> frozenset[frozenset[str]]:
    """Return the pairs of GPU models that one configuration ran on."""
    seen: dict[object, set[str]] = defaultdict(set)
    for measurement in measurements:
        seen[measurement.configuration].add(_name(measurement.gpu))
    return frozenset(
        frozenset(pair) for names in seen.values() for pair in combinations(sorted(names), 2)
    )


def row_of(measurement: Measurement) -> MeasuredPoint | None:
    """Return the row, or None if the GPU's data sheet is unknown. A slice's throughput is carried
    to the whole GPU.
    """
    sheet = data_sheet(measurement.gpu)
    if sheet is None:
        return None
    kept, noise = 0.0, measurement.noise
    if sheet.share < 1:
        busy = measurement.busy_share
        kept = slices.log_kept(sheet.share, slices.demand(sheet.share, busy))
        noise = math.hypot(noise, slices.spread(busy))
    return MeasuredPoint(
        point=point(sheet, measurement.precision),
        configuration=measurement.configuration,
        log_throughput=math.log(measurement.throughput) - kept,
        noise=noise,
    )


def point(sheet: DataSheet, precision: str) -> int:
    number = PRECISION_CLASSES.index(precision_class(precision))
    return number * len(sheets()) + _numbers()[sheet.gpu]


def _name(gpu: str) -> str:
    sheet = data_sheet(gpu)
    return sheet.gpu if sheet and sheet.share == 1 else gpu


@cache
def _numbers() -> dict[str, int]:
    return {sheet.gpu: number for number, sheet in enumerate(sheets())}
