"""Builds nodes whose processes end, are started again and load checkpoints."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rules.frame import NodeFrame
from tests.rules import frames as f

Events = list[tuple[float, str, dict[str, Any]]]


def told(*pairs: tuple[float, int]) -> Events:
    return [(at, "global_step", {"rank": 0, "step": step}) for at, step in pairs]


def process(at: float, **data: Any) -> tuple[float, str, dict[str, Any]]:
    return at, "rank", {"rank": 0, "pid": round(at), **data}


def restore(at: float, seconds: float, step: int | None = None) -> Events:
    return [(at, "restore", {"rank": 0, "seconds": seconds, "step": step})]


def gpu_node(
    *tables: Any, events: Events = (), key: str = "n1", held: tuple[float, float] = (0, 1000)
) -> NodeFrame:
    series = f.samples(1000, gpu0__busy_pct=100.0)
    series = series[(series.index >= held[0]) & (series.index < held[1])]
    node = f.node(key, series, tables, sorted(events, key=lambda e: e[0]), f.hardware(gpus=1))
    return replace(node, intervals=(held,))


def ended(at: float, state: str = "failed", **data: Any) -> tuple[float, str, dict[str, Any]]:
    return at, "session_end", {"state": state, **data}
