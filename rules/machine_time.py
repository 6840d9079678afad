"""Time of nodes as time of the whole run, at its price."""

from __future__ import annotations

from collections.abc import Mapping

from rules.frame import NodeFrame, RunFrame
from rules.intervals import covered_seconds, merged
from rules.rule import Window


def held_seconds(node: NodeFrame, frame: RunFrame, span: Window | None = None) -> float:
    """For how long the node was held, within the span if there is one."""
    whole = Window(0.0, frame.duration_seconds)
    held = [Window(*interval) for interval in node.intervals] or [whole]
    return covered_seconds(merged(held), span or whole)


def seconds_of_run(frame: RunFrame, by_node: Mapping[str, float]) -> float:
    """Seconds of nodes as seconds of the run: 10 of one node of two that were held all the time are
    5. GPUs that the node never used had no part in them."""
    held = sum(held_seconds(node, frame) for node in frame.nodes.values())
    spent = sum(
        seconds * _used_share(frame.nodes[key]) for key, seconds in by_node.items() if seconds > 0
    )
    return frame.duration_seconds * spent / held if held > 0 else 0.0


def _used_share(node: NodeFrame) -> float:
    gpus = node.allocated_gpus()
    return len(node.used_gpus) / len(gpus) if gpus and node.used_gpus else 1.0
