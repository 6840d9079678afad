"""The use of each GPU and each core: percentiles, a box plot and a histogram."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from django.conf import settings

from advisor.store.index import NodeHistory
from advisor.store.opening import open_store
from advisor.store.reading import NodeReader
from advisor.store.room import RoomExceededError
from advisor.store.series_spread import SeriesSpread, spreads_of_series
from webapp.dashboard.report.drawing import span
from webapp.dashboard.selectors.charts import MOST_GPUS
from webapp.runs.models import Node
from webapp.templatetags import shown

PERCENTS = (100, 99, 95, 90, 75, 50, 25, 5, 0)
EDGES = np.linspace(0.0, 100.0, 21)
REACH = 1.5
"""The reach of whiskers, in times of the distance of the quartiles, as in SageMaker's box plots."""
MOST_CORES = 192
"""The most cores of all nodes that are listed: if there are more, the heat map alone shows each."""
MOST_CORE_CELLS = 9_000
"""The most cells of all cores: 25 h in cells of 10 s. Longer runs are read in cells of a minute."""
HEIGHT, WIDTH = 10.0, 100.0
"""The size of the pictures in a row."""
Times = tuple[datetime, datetime]
Box = tuple[float, float, float, float, float]


@dataclass(frozen=True)
class DeviceRow:
    """One quantity of one device. `cells`: its percentiles, as in `PERCENTS`, in words."""

    node: str
    device: str
    quantity: str
    cells: list[str]
    whiskers: str
    box: Box | None
    """The box of a percentage: lower whisker, p25, p50, p75 and upper whisker."""
    bars: list[tuple[float, float, float, float]]
    """The bars: x, y, width and height, in a box of WIDTH x HEIGHT."""

    @property
    def parts(self) -> list[tuple[str, float, float]]:
        """Class, start and width of the parts of its box plot, in percent."""
        if self.box is None:
            return []
        lower, p25, p50, p75, upper = self.box
        return [
            ("range", *span(lower, upper)),
            ("middle", *span(p25, p75)),
            ("median", *span(p50, p50)),
        ]


@dataclass
class Devices:
    """Devices of a run. `is_exact` means single samples, not summaries of 10 s or more."""

    gpus: list[DeviceRow] = field(default_factory=list)
    cores: list[DeviceRow] = field(default_factory=list)
    more_cores: int = 0
    """The number of cores of the drawn nodes that aren't listed."""
    is_exact: bool = True
    has_controller: bool = False
    traffic: dict[str, dict[str, float]] = field(default_factory=dict)
    """The traffic by the node's key: bytes `received` and `sent`, as far as they are known."""
    work: dict[str, dict[int, SeriesSpread]] = field(default_factory=dict)
    """The utilisation during the training loop, by the node's key and the GPU's number."""
    trouble: str = ""
    unreadable: set[str] = field(default_factory=set)


def devices(
    nodes: Sequence[Node],
    histories: Mapping[str, NodeHistory],
    times: Times | None,
    loop: Times | None,
) -> Devices:
    """Return the devices of the nodes that are drawn between two times; empty if no samples are
    stored.

    Args:
        histories: what the hours of these nodes hold, by the node's key.
        loop: when the training loop began and ended; None: not known.
    """
    found = Devices()
    try:
        for node in nodes:
            if times is not None and node.key in histories:
                _add(found, node, histories[node.key], times, loop)
    except RoomExceededError as error:
        return Devices(trouble=f"The run has {error}, too many for tables of GPUs and cores.")
    return found


def _add(to: Devices, node: Node, history: NodeHistory, times: Times, loop: Times | None) -> None:
    reader = NodeReader(open_store(settings.OBJECTS_URL), history)
    cores = _core_series(node, max(MOST_CORES - len(to.cores), 0))
    names = [*_gpu_series(node), *_HOST, *_TRAFFIC]
    found = spreads_of_series(reader, names, *times)
    found |= spreads_of_series(reader, cores, *times, MOST_CORE_CELLS)
    shown_of = {name: spread for name, spread in found.items() if name not in _TRAFFIC}
    to.is_exact &= all(spread.is_exact for spread in shown_of.values())
    to.has_controller |= any("memory_controller" in name for name in found)
    to.gpus += _gpu_rows(node, found)
    to.cores += _core_rows(node, found, cores)
    to.more_cores += max((node.vcpus or 0) - len(cores), 0) if to.cores else 0
    to.traffic[node.key] = {
        way: found[name].amount for name, way in _TRAFFIC.items() if name in found
    }
    to.work[node.key] = _busy(node, found if loop is None else _of_loop(reader, node, loop))
    to.unreadable |= set(reader.unreadable)


def _of_loop(reader: NodeReader, node: Node, loop: Times) -> dict[str, SeriesSpread]:
    names = [f"gpu{number}.busy_pct" for number in _numbers(node)]
    return spreads_of_series(reader, names, *loop) if len(names) > 1 else {}


def _busy(node: Node, found: Mapping[str, SeriesSpread]) -> dict[int, SeriesSpread]:
    names = {number: f"gpu{number}.busy_pct" for number in _numbers(node)}
    return {number: found[name] for number, name in names.items() if name in found}


def _numbers(node: Node) -> range:
    return range(min(len(node.gpus), MOST_GPUS))


def _gpu_series(node: Node) -> Iterator[str]:
    for number in _numbers(node):
        for series, _ in _QUANTITIES:
            yield f"gpu{number}.{series}"


_QUANTITIES = (
    ("busy_pct", "Busy"),
    ("sm_active_pct", "SMs active"),
    ("memory_used_bytes", "Memory in use"),
    ("memory_controller_busy_pct", "Memory controller"),
)
_TRAFFIC = {"net.received_bytes_total": "received", "net.sent_bytes_total": "sent"}
_HOST = {"host.cpu_busy_pct": "Busy", "host.cpu_iowait_pct": "Waiting for I/O"}
"""The series of all cores together."""


def _core_series(node: Node, most: int) -> dict[str, int]:
    return {f"cpu{number}.busy_pct": number for number in range(min(node.vcpus or 0, most))}


def _gpu_rows(node: Node, found: Mapping[str, SeriesSpread]) -> Iterator[DeviceRow]:
    for number, gpu in enumerate(node.gpus[:MOST_GPUS]):
        for series, title in _QUANTITIES:
            spread = found.get(f"gpu{number}.{series}")
            if spread is None:
                continue
            size = gpu.get("memory_bytes") or 0
            if not series.endswith("_bytes"):
                yield _row(str(node), str(number), title, spread)
            elif size:
                yield _row(str(node), str(number), title, spread.scale(100 / size))
            else:
                yield _row_of_bytes(str(node), str(number), title, spread)


def _core_rows(
    node: Node, found: Mapping[str, SeriesSpread], cores: Mapping[str, int]
) -> Iterator[DeviceRow]:
    for name, title in _HOST.items():
        if name in found:
            yield _row(str(node), "all", title, found[name])
    for name, number in cores.items():
        if name in found:
            yield _row(str(node), str(number), "Busy", found[name])


def _row_of_bytes(node: str, device: str, quantity: str, spread: SeriesSpread) -> DeviceRow:
    percentiles = spread.percentiles(PERCENTS)
    ends = [shown.binary_bytes(each) for each in _whiskers(percentiles)]
    cells = [shown.binary_bytes(each) for each in percentiles]
    return DeviceRow(node, device, quantity, cells, " to ".join(ends), None, [])


def _row(node: str, device: str, quantity: str, spread: SeriesSpread) -> DeviceRow:
    percentiles = spread.percentiles(PERCENTS)
    lower, upper = _whiskers(percentiles)
    whiskers = " to ".join(shown.number(round(each, 2)) for each in (lower, upper))
    of = dict(zip(PERCENTS, percentiles, strict=True))
    corners = (lower, of[25], of[50], of[75], upper)
    box = _inside(*corners)
    cells = [shown.number(round(each, 2)) for each in percentiles]
    return DeviceRow(node, device, quantity, cells, whiskers, box, _bars(spread))


def _inside(*corners: float) -> Box:
    lower, p25, p50, p75, upper = (min(max(each, 0.0), WIDTH) for each in corners)
    return lower, p25, p50, p75, upper


def _whiskers(percentiles: Sequence[float]) -> tuple[float, float]:
    """Return where the whiskers end: at a value that there is."""
    of = dict(zip(PERCENTS, percentiles, strict=True))
    reach = REACH * (of[75] - of[25])
    return max(of[25] - reach, of[0]), min(of[75] + reach, of[100])


def _bars(spread: SeriesSpread) -> list[tuple[float, float, float, float]]:
    counts = spread.counts(EDGES)
    highest, width = max(float(counts.max()), 1.0), WIDTH / len(counts)
    heights = HEIGHT * counts / highest
    return [
        (round(place * width, 2), round(HEIGHT - height, 2), width, round(float(height), 2))
        for place, height in enumerate(heights.tolist())
        if height
    ]
