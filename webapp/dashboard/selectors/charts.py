"""The charts of a run's page and their series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from advisor.store.series import shown_name
from advisor.store.step_series import DATA_WAIT, STEP
from webapp.runs.models import Node

MOST_LINES = 6
"""The most lines per chart; more can't be distinguished."""


@dataclass(frozen=True)
class Line:
    """One series of the chart, by its stored name."""

    name: str
    label: str
    gpu: int | None = None
    """The number of its GPU."""

    def is_of(self, node: Node) -> bool:
        return self.gpu is None or self.gpu < len(node.gpus)


@dataclass(frozen=True)
class Chart:
    """`highest`: the end of the scale, if it is fixed."""

    key: str
    title: str
    unit: str
    lines: tuple[Line, ...]
    highest: float | None = None

    def document(self) -> dict[str, Any]:
        """For the browser, with the series names that the API answers."""
        shown = [{"name": shown_name(line.name)[0], "label": line.label} for line in self.lines]
        return asdict(self) | {"lines": shown, "query": [line.name for line in self.lines]}

    def possible(self, nodes: Sequence[Node]) -> list[tuple[Line, Node]]:
        """The lines that nodes may have, the first of every node before the second."""
        return [(line, node) for line in self.lines for node in nodes if line.is_of(node)]


def charts(nodes: Sequence[Node]) -> list[Chart]:
    """CPU, memory, steps, disk and network always; GPUs if a node has any."""
    memory_bytes = max((n.effective_memory_bytes or n.memory_bytes for n in nodes), default=0)
    always = [
        Chart("cpu", "CPU", "pct", (Line("host.cpu_busy_pct", "busy"),), 100),
        Chart(
            "memory",
            "Memory",
            "bytes",
            (Line("host.memory_used_bytes", "in use"),),
            memory_bytes or None,
        ),
        Chart("step", "Step time", "seconds", (Line(STEP, "step"), Line(DATA_WAIT, "data wait"))),
        _rates("disk", "Disk", "read", "written"),
        _rates("net", "Network", "received", "sent"),
    ]
    return [*_gpu_charts(nodes), *always]


def _rates(key: str, title: str, *directions: str) -> Chart:
    lines = tuple(Line(f"{key}.{direction}_bytes_total", direction) for direction in directions)
    return Chart(key, title, "bytes/s", lines)


def _gpu_charts(nodes: Sequence[Node]) -> list[Chart]:
    count = max((len(node.gpus) for node in nodes), default=0)
    if not count:
        return []
    shown = range(min(count, MOST_LINES))
    largest = max((gpu.get("memory_bytes", 0) for node in nodes for gpu in node.gpus), default=0)
    busy = tuple(Line(f"gpu{i}.busy_pct", f"GPU {i}", i) for i in shown)
    memory = tuple(Line(f"gpu{i}.memory_used_bytes", f"GPU {i}", i) for i in shown)
    more = f", {MOST_LINES} of {count}" if count > MOST_LINES else ""
    return [
        Chart("gpu", f"GPU busy{more}", "pct", busy, 100),
        Chart("gpu_memory", f"GPU memory{more}", "bytes", memory, largest or None),
    ]
