"""The charts of a run's page and their series."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any

from advisor.store.series import shown_name
from advisor.store.step_series import DATA_WAIT, STEP
from webapp.runs.models import Node

MOST_LINES = 6
"""The most lines per chart; more can't be distinguished."""
MOST_NODES, MOST_GPUS = 6, 16
"""Nodes that charts read, and GPUs of each."""
MOST_OF_CLUSTER = 24
"""GPUs that charts read of a run on more nodes than that."""


@dataclass(frozen=True)
class ChartLine:
    """One series of the chart, by its stored name."""

    name: str
    label: str
    gpu: int | None = None
    """The number of its GPU."""
    family: str = ""
    """The lines that it is compared with; empty: those of all GPUs, or of its label."""

    def is_of(self, node: Node) -> bool:
        return self.gpu is None or self.gpu < len(node.gpus)


@dataclass(frozen=True)
class Chart:
    """Chart of a run's page. `highest` is the end of the scale, if it is fixed. `is_folded` means
    that it is shown when it is unfolded. `instead_of` is the key of the chart without whose series
    it is drawn. `meaning` says what it shows, in one sentence. `is_panel` means that it is one of
    the panels of GPUs, which are read once they are unfolded. `is_event_time` means that it shows
    how long something happened, so that 0 % isn't idle.
    """

    key: str
    title: str
    unit: str
    lines: tuple[ChartLine, ...]
    highest: float | None = None
    is_folded: bool = False
    instead_of: str = ""
    meaning: str = ""
    is_panel: bool = False
    is_event_time: bool = False

    def document(self) -> dict[str, Any]:
        """Return the chart for the browser, with the series names that the API answers."""
        shown = [{"name": shown_name(line.name)[0], "label": line.label} for line in self.lines]
        return asdict(self) | {"lines": shown, "query": [line.name for line in self.lines]}


IO_WAIT = Chart("io_wait", "Waiting for I/O", "pct", (ChartLine("host.cpu_iowait_pct", "waiting"),))
"""The chart of I/O wait, which the report draws, too."""


def charted_nodes(nodes: Sequence[Node], named: Collection[str]) -> list[Node]:
    """Return the nodes that charts read, in order: first those that a finding names.

    Args:
        named: keys of nodes.
    """
    if len(nodes) <= MOST_NODES:
        return list(nodes)
    chosen = sorted(nodes, key=lambda node: node.key not in named)[:MOST_NODES]
    gpus = list(accumulate(len(node.gpus) for node in chosen))
    fitting = [node for node, count in zip(chosen, gpus, strict=True) if count <= MOST_OF_CLUSTER]
    return sorted(fitting or chosen[:1], key=lambda node: node.number)


def charts(nodes: Sequence[Node]) -> list[Chart]:
    """Return the charts: CPU, memory, steps, disk and network always; GPUs if a node has any.
    Charts by which most runs are judged come first, the rest is folded.
    """
    gpus = _gpu_charts(nodes)
    memory_bytes = max((n.effective_memory_bytes or n.memory_bytes for n in nodes), default=0)
    steps = Chart(
        "step", "Step time", "seconds", (ChartLine(STEP, "step"), ChartLine(DATA_WAIT, "data wait"))
    )
    cpu = (ChartLine("host.cpu_busy_pct", "busy"),)
    folded = [
        Chart(
            "memory",
            "Memory",
            "bytes",
            (ChartLine("host.memory_used_bytes", "in use"),),
            memory_bytes or None,
            is_folded=True,
        ),
        _share("memory", "Memory", ChartLine("host.memory_used_pct", "in use")),
        _rates("disk", "Disk", "read", "written"),
        _rates("net", "Network", "received", "sent"),
    ]
    own = [*gpus[:1], steps, *gpus[1:]]
    return [*own, Chart("cpu", "CPU", "pct", cpu, 100, is_folded=bool(gpus)), *folded]


def _rates(key: str, title: str, *directions: str) -> Chart:
    lines = tuple(
        ChartLine(f"{key}.{direction}_bytes_total", direction) for direction in directions
    )
    return Chart(key, title, "bytes/s", lines, is_folded=True)


def _gpu_charts(nodes: Sequence[Node]) -> list[Chart]:
    count = max((len(node.gpus) for node in nodes), default=0)
    if not count:
        return []
    shown = range(min(count, MOST_GPUS))
    largest = max((gpu.get("memory_bytes", 0) for node in nodes for gpu in node.gpus), default=0)
    busy = tuple(ChartLine(f"gpu{i}.busy_pct", f"GPU {i}", i) for i in shown)
    memory = tuple(ChartLine(f"gpu{i}.memory_used_bytes", f"GPU {i}", i) for i in shown)
    controller = (ChartLine(f"gpu{i}.memory_controller_busy_pct", f"GPU {i}", i) for i in shown)
    return [
        Chart("gpu", "GPU busy", "pct", busy, 100),
        Chart("gpu_memory", "GPU memory", "bytes", memory, largest or None, is_folded=True),
        _share("gpu_memory", "GPU memory controller", *controller),
    ]


def _share(key: str, title: str, *lines: ChartLine) -> Chart:
    """Return a chart of what recordings of other tools have instead of bytes in use."""
    return Chart(f"{key}_share", title, "pct", lines, 100, is_folded=True, instead_of=key)
