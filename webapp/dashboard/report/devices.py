"""How each GPU and each core was used: percentiles, a box plot and a histogram."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from django.conf import settings

from advisor.store.index import NodeHistory
from advisor.store.opening import open_store
from advisor.store.reading import Reader
from advisor.store.series_spread import SeriesSpread, spreads_of_series
from webapp.dashboard.selectors.charts import MOST_GPUS
from webapp.runs.history import samples_history
from webapp.runs.models import Node
from webapp.templatetags import shown

PERCENTS = (100, 99, 95, 90, 75, 50, 25, 5, 0)
EDGES = np.linspace(0.0, 100.0, 21)
MOST_CORES = 128
"""Of all nodes: of more, the heat map alone shows each."""
HEIGHT, WIDTH = 10.0, 100.0
"""Of the pictures in a row."""


@dataclass(frozen=True)
class DeviceRow:
    """One quantity of one device. `cells`: its percentiles, as in `PERCENTS`, in words."""

    node: str
    device: str
    quantity: str
    cells: list[str]
    box: tuple[float, float, float, float, float] | None
    """p5, p25, p50, p75 and p95 of a percentage."""
    bars: list[tuple[float, float, float, float]]
    """x, y, width and height, in a box of WIDTH x HEIGHT."""

    @property
    def parts(self) -> list[tuple[str, float, float]]:
        """Class, start and width of the parts of its box plot, in percent."""
        if self.box is None:
            return []
        p5, p25, p50, p75, p95 = self.box
        spans = (("range", p5, p95), ("middle", p25, p75))
        median = ("median", min(p50, WIDTH - 1), 1.0)
        return [*((name, low, max(high - low, 0.8)) for name, low, high in spans), median]


@dataclass(frozen=True)
class Devices:
    """`is_exact`: from single samples, not from summaries of 10 s or more."""

    gpus: list[DeviceRow] = field(default_factory=list)
    cores: list[DeviceRow] = field(default_factory=list)
    is_exact: bool = True
    has_controller: bool = False


def devices(
    nodes: Sequence[Node],
    histories: Mapping[str, NodeHistory],
    times: tuple[datetime, datetime] | None,
) -> Devices:
    """Of the nodes that are drawn between two times; empty where no samples are stored.

    Args:
        histories: what the charts of these nodes read, by the node's key.
    """
    gpus: list[DeviceRow] = []
    cores: list[DeviceRow] = []
    has_controller, exact = False, True
    for node in nodes:
        if times is None or node.key not in histories:
            continue
        numbers = range(min(node.vcpus or 0, max(MOST_CORES - len(cores), 0)))
        of_cores = [f"cpu{number}.busy_pct" for number in numbers]
        history = samples_history(node, histories[node.key])
        reader = Reader(open_store(settings.OBJECTS_URL), history)
        found = spreads_of_series(reader, [*_gpu_series(node), *of_cores], *times)
        exact &= all(spread.is_exact for spread in found.values())
        has_controller |= any("memory_controller" in name for name in found)
        gpus += _gpu_rows(node, found)
        for number, name in zip(numbers, of_cores, strict=True):
            if name in found:
                cores.append(_row(str(node), str(number), "Busy", found[name]))
    return Devices(gpus, cores, exact, has_controller)


def _gpu_series(node: Node) -> Iterator[str]:
    for number in range(min(len(node.gpus), MOST_GPUS)):
        for series, _ in _QUANTITIES:
            yield f"gpu{number}.{series}"


_QUANTITIES = (
    ("busy_pct", "Busy"),
    ("sm_active_pct", "SMs active"),
    ("memory_used_bytes", "Memory in use"),
    ("memory_controller_busy_pct", "Memory controller"),
)


def _gpu_rows(node: Node, found: dict[str, SeriesSpread]) -> Iterator[DeviceRow]:
    for number, gpu in enumerate(node.gpus[:MOST_GPUS]):
        for series, title in _QUANTITIES:
            spread = found.get(f"gpu{number}.{series}")
            if spread is None:
                continue
            size = gpu.get("memory_bytes") or 0
            if not series.endswith("_bytes"):
                yield _row(str(node), str(number), title, spread)
            elif size:
                yield _row(str(node), str(number), title, spread.scaled(100 / size))
            else:
                yield _row(str(node), str(number), title, spread, shown.binary_bytes)


def _row(
    node: str,
    device: str,
    quantity: str,
    spread: SeriesSpread,
    write: Callable[[float], str] | None = None,
) -> DeviceRow:
    """`write`: of a quantity that is no percentage."""
    percentiles = spread.percentiles(PERCENTS)
    if write is not None:
        return DeviceRow(node, device, quantity, [write(each) for each in percentiles], None, [])
    of = dict(zip(PERCENTS, (min(max(each, 0.0), 100.0) for each in percentiles), strict=True))
    cells = [shown.number(round(each, 2)) for each in percentiles]
    return DeviceRow(
        node, device, quantity, cells, (of[5], of[25], of[50], of[75], of[95]), _bars(spread)
    )


def _bars(spread: SeriesSpread) -> list[tuple[float, float, float, float]]:
    counts = spread.counts(EDGES)
    highest, width = max(float(counts.max()), 1.0), WIDTH / len(counts)
    heights = HEIGHT * counts / highest
    return [
        (round(place * width, 2), round(HEIGHT - height, 2), width, round(float(height), 2))
        for place, height in enumerate(heights.tolist())
        if height
    ]
