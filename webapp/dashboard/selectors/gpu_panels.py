"""Panels of a run's GPUs: their units, power, clocks, links and memory, each with its meaning."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.compute as pc
from django.conf import settings

from advisor.store.chart_plan import Buckets, buckets_of
from advisor.store.index import from_ms
from advisor.store.opening import open_store
from advisor.store.reading import NodeReader
from advisor.store.series import SeriesView, views_of
from webapp.dashboard.selectors.charts import MOST_GPUS, Chart, ChartLine
from webapp.dashboard.selectors.drawn import chart_document
from webapp.runs.history import chart_histories, whole_history
from webapp.runs.models import Node, Run
from webapp.runs.views.series import SeriesWindow

NS_TO_PCT = 1e-7
"""The factor from nanoseconds a second to percent of the time."""
RESERVED = "torch_reserved_bytes"
"""The metric of the line for the memory that PyTorch reserved at most; no agent samples it."""
_GPM = ("sm_active_pct", "tensor_active_pct", "dram_active_pct")
_PANELS: tuple[tuple[str, str, str, tuple[tuple[str, str], ...], str], ...] = (
    (
        "sm",
        "SM activity",
        "pct",
        (("sm_active_pct", ""),),
        "The share of the GPU's processors (SMs) that had work: a GPU that is busy but low here "
        "runs kernels that are too small for it, as of small batches.",
    ),
    (
        "tensor",
        "Tensor cores",
        "pct",
        (("tensor_active_pct", ""),),
        "The time in which tensor cores worked: near 0 %, the training computes without them, as "
        "in fp32 without TF32.",
    ),
    (
        "dram",
        "Memory bandwidth",
        "pct",
        (("dram_active_pct", ""),),
        "The share of the memory's bandwidth in use: programs reach about 80 %, and near that "
        "memory is the limit, not the processors.",
    ),
    (
        "power",
        "Power and its limit",
        "watts",
        (("power_watts", "power"), ("power_limit_watts", "limit")),
        "What the GPU draws beside what it may draw: at the limit it lowers its clock, far below "
        "it has little to do.",
    ),
    (
        "clock",
        "SM clock",
        "mhz",
        (("sm_clock_mhz", ""),),
        "The frequency of the processors: work takes longer as it falls, and an idle GPU lowers "
        "it, too.",
    ),
    (
        "throttling",
        "Throttling",
        "pct",
        (
            ("throttled_power_cap_ns_total", "at the power limit"),
            ("throttled_thermal_ns_total", "by heat"),
            ("throttled_power_brake_ns_total", "by the power supply"),
        ),
        "The time in which the clock was lowered: at the power limit that is normal under full "
        "load, by heat or by the power supply it is a fault of the machine.",
    ),
    (
        "pcie",
        "PCIe",
        "bytes/s",
        (("pcie_received_bytes_total", "to GPU"), ("pcie_sent_bytes_total", "from GPU")),
        "What passed between the host and the GPU: batches, and gradients where GPUs have no "
        "direct link.",
    ),
    (
        "nvlink",
        "NVLink",
        "bytes/s",
        (("nvlink_received_bytes_total", "received"), ("nvlink_sent_bytes_total", "sent")),
        "What passed between GPUs of the node over all NVLinks: mostly gradients and shards of the "
        "model.",
    ),
    (
        "torch_memory",
        "Memory and PyTorch's peak",
        "bytes",
        (("memory_used_bytes", "in use"), (RESERVED, "PyTorch reserved at most")),
        "Memory in use by everything on the GPU, beside the most that PyTorch had reserved so "
        "far: the rest of the GPU's memory is free for a larger batch.",
    ),
)


def gpu_panels(nodes: Sequence[Node]) -> list[Chart]:
    """Return the panels; none without a GPU. A panel without a series isn't drawn."""
    count = min(max((len(node.gpus) for node in nodes), default=0), MOST_GPUS)
    if not count:
        return []
    sizes = (gpu.get("memory_bytes", 0) for node in nodes for gpu in node.gpus)
    largest = max(sizes, default=0) or None
    return [
        Chart(
            key,
            title,
            unit,
            tuple(
                ChartLine(f"gpu{i}.{metric}", f"GPU {i}{label and f' {label}'}", i, label)
                for metric, label in metrics
                for i in range(count)
            ),
            100 if unit == "pct" else largest if unit == "bytes" else None,
            meaning=meaning,
            is_panel=True,
            is_event_time=key == "throttling",
        )
        for key, title, unit, metrics, meaning in _PANELS
    ]


def drawn_panels(
    nodes: Sequence[Node], run: Run, window: SeriesWindow, keys: Iterable[str]
) -> dict[str, Any]:
    """Return the lines of the panels with these keys, as `drawn_charts` has charts.

    Raises TooLargeError.
    """
    panels, times = [panel for panel in gpu_panels(nodes) if panel.key in keys], window.times(run)
    if times is None:
        return {"charts": {}}
    store, buckets = (
        open_store(settings.OBJECTS_URL),
        buckets_of(*times, window.buckets, is_aligned=True),
    )
    views: dict[tuple[str, str], SeriesView] = {}
    for node, history in zip(nodes, chart_histories(nodes, buckets), strict=True):
        reader = NodeReader(store, history, for_charts=True)
        found = views_of(reader, history, _names(panels, node), times[0], buckets)
        found = list(_measured(found, node))
        if any(panel.key == "torch_memory" for panel in panels) and found:
            found += _reserved(
                NodeReader(store, whole_history(node, history)), node, found[0], buckets
            )
        views |= {(view.node_key, view.series): view for view in found}
    charts = {p.key: chart_document(p, nodes, views, window.start_seconds) for p in panels}
    return {"charts": charts}


def _names(panels: Sequence[Chart], node: Node) -> list[str]:
    """Return the series of the panels, with those that tell whether a GPU has its counters."""
    named = {line.name for panel in panels for line in panel.lines if line.is_of(node)}
    if any(name.endswith(_GPM) for name in named):
        named |= {
            f"gpu{i}.{metric}" for i in range(len(node.gpus)) for metric in ("busy_pct", _GPM[0])
        }
    return sorted(named)


def _measured(views: Iterable[SeriesView], node: Node) -> Iterator[SeriesView]:
    """Yield the views without the counters that are 0 although their GPU was busy: some virtual
    GPUs answer 0 for what they don't measure. Times of throttling become percent.
    """
    views = list(views)
    highest = {view.series: float(np.nanmax(view.maximum, initial=0.0)) for view in views}
    for view in views:
        gpu = view.series.partition(".")[0]
        is_blind = not highest.get(f"{gpu}.{_GPM[0]}") and highest.get(f"{gpu}.busy_pct", 0.0) > 0
        if view.series.endswith(_GPM) and is_blind:
            continue
        yield _scaled(view, NS_TO_PCT) if view.unit == "ns/s" else view


def _scaled(view: SeriesView, factor: float) -> SeriesView:
    low, mean, high = (factor * each for each in (view.minimum, view.mean, view.maximum))
    return replace(view, minimum=low, mean=mean, maximum=high)


def _reserved(
    reader: NodeReader, node: Node, like: SeriesView, buckets: Buckets
) -> Iterator[SeriesView]:
    """Yield the most that PyTorch had reserved up to each bucket, by GPU: the ranks of a node have
    its GPUs in order.

    Args:
        like: a view of the same buckets.
    """
    peaks = _peaks(reader, buckets)
    own = [number for number, gpu in enumerate(node.gpus) if gpu.get("allocated", True)]
    for number, rank in zip(own, sorted(peaks), strict=False):
        at_ms, reserved = (np.array(each, dtype=float) for each in zip(*peaks[rank], strict=True))
        ends_ms = buckets.start_ms + (np.arange(buckets.grid.count) + 1) * buckets.grid.width_ms
        place = np.searchsorted(at_ms, ends_ms, side="right") - 1
        values = np.where(place >= 0, np.maximum.accumulate(reserved)[place], np.nan)
        name = f"gpu{number}.{RESERVED}"
        yield replace(like, series=name, unit="bytes", minimum=values, mean=values, maximum=values)


def _peaks(reader: NodeReader, buckets: Buckets) -> dict[int, list[tuple[int, float]]]:
    """Return when each rank reported that its peak had risen, in order, and to how many bytes."""
    found: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for hour in reader.hours(from_ms(0), from_ms(buckets.end_ms - 1)):
        events = reader.events(hour)[0]
        own = events.filter(pc.equal(events["kind"], "gpu_memory")).select(("time_ms", "data"))
        for event in own.to_pylist():
            said = json.loads(event["data"])
            if isinstance(said.get("rank"), int) and said.get("peak_reserved_bytes"):
                found[said["rank"]].append((event["time_ms"], float(said["peak_reserved_bytes"])))
    return found
