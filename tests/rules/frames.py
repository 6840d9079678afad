"""Builds frames to test rules: few lines per case, with gaps and several nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rules.frame import EVENT_COLUMNS, STEP_COLUMNS, GpuHardware, Hardware, NodeFrame, RunFrame

GIB = 2**30
GAP = float("nan")

Values = float | NDArray[Any]


def hardware(vcpus: int = 8, memory_gib: float = 32, gpus: int = 0, **other: Any) -> Hardware:
    """Return a node of which everything is known and allocated."""
    cards = tuple(GpuHardware("V100", 16 * GIB) for _ in range(gpus))
    memory_bytes = round(memory_gib * GIB)
    given = {"vcpus": vcpus, "effective_cpus": float(vcpus), "memory_bytes": memory_bytes}
    return Hardware(instance_type="test.large", gpus=cards, **{**given, **other})


def samples(seconds: float, resolution: float = 1.0, **series: Any) -> pd.DataFrame:
    """Series by name, `__` for the dot: `host__cpu_busy_pct=20.0`, a constant or all values."""
    grid = pd.Index(np.arange(round(seconds / resolution)) * resolution, name="seconds")
    columns = {
        name.replace("__", "."): np.full(len(grid), values) if np.isscalar(values) else values
        for name, values in series.items()
    }
    return pd.DataFrame(columns, index=grid, dtype="float64")


def steps(
    count: int,
    duration: float = 1.0,
    wait: float = 0.0,
    start: float = 0.0,
    rank: int = 0,
    phase: str = "train",
) -> pd.DataFrame:
    """`count` equal steps one after the other; `wait` is a share of the duration or GAP."""
    row = {
        "rank": rank,
        "phase": phase,
        "duration_seconds": duration,
        "data_wait_seconds": wait * duration,
        "samples": 32.0,
        "count": 1,
        "tokens": float("nan"),
    }
    table = pd.DataFrame([row] * count, columns=list(STEP_COLUMNS))
    return table.assign(start_seconds=start + duration * np.arange(count))


def node(
    key: str = "n1",
    series: pd.DataFrame | None = None,
    step_tables: Sequence[pd.DataFrame] = (),
    events: Sequence[tuple[float, str, Mapping[str, Any]]] = (),
    of: Hardware | None = None,
) -> NodeFrame:
    empty = pd.DataFrame(columns=list(STEP_COLUMNS))
    return NodeFrame(
        key=key,
        hardware=of or hardware(),
        samples=samples(0) if series is None else series,
        steps=pd.concat(step_tables, ignore_index=True) if step_tables else empty,
        events=pd.DataFrame(list(events), columns=list(EVENT_COLUMNS)),
    )


def run(*nodes: NodeFrame, duration: float = 600.0, resolution: float = 1.0) -> RunFrame:
    return RunFrame(resolution, duration, final=True, nodes={n.key: n for n in nodes})


def shifted(frame: RunFrame, seconds: float) -> RunFrame:
    """Return the same run with everything in it `seconds` later."""
    nodes = {key: _shifted_node(n, seconds) for key, n in frame.nodes.items()}
    return replace(frame, nodes=nodes)


def padded(frame: RunFrame, cells: int) -> RunFrame:
    """Return the same run with `cells` of unknown time before and after its samples."""
    nodes = {
        key: replace(n, samples=_padded_samples(n.samples, cells, frame.resolution_seconds))
        for key, n in frame.nodes.items()
    }
    return replace(frame, nodes=nodes)


def _shifted_node(of: NodeFrame, seconds: float) -> NodeFrame:
    later = of.samples.set_axis(of.samples.index + seconds, axis=0)
    moved = of.steps.assign(start_seconds=of.steps["start_seconds"] + seconds)
    return replace(of, samples=later, steps=moved)


def _padded_samples(table: pd.DataFrame, cells: int, resolution: float) -> pd.DataFrame:
    if not len(table):
        return table
    first, last = round(table.index[0] / resolution), round(table.index[-1] / resolution)
    return table.reindex(pd.Index(np.arange(first - cells, last + cells + 1) * resolution))
