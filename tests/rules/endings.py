"""Builds runs whose processes end: how, when, and what was saved before."""

from __future__ import annotations

from typing import Any

from rules.frame import RunFrame
from tests.rules import frames as f

Events = list[tuple[float, str, dict[str, Any]]]


def ends(at: float, state: str, code: int) -> Events:
    return [
        (at, "process_exit", {"exit_code": code}),
        (at, "session_end", {"state": state, "exit_code": code}),
    ]


def run(events: Events, seconds: float = 4000, nodes: int = 1) -> RunFrame:
    return f.run(*(f.node(f"n{n}", events=events) for n in range(nodes)), duration=seconds)


def saved(at: float) -> Events:
    return [(at, "checkpoint", {"seconds": 1.0})]
