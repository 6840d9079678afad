"""Time of nodes as time of the whole run, at its price."""

from __future__ import annotations

from collections.abc import Mapping

from rules.frame import NodeFrame, RunFrame
from rules.intervals import covered_seconds, merge_windows
from rules.rule import Window
from rules.wording import lasting


def held_seconds(node: NodeFrame, frame: RunFrame, span: Window | None = None) -> float:
    """Return for how long the node was held, within the span if there is one."""
    whole = Window(0.0, frame.duration_seconds)
    held = [Window(*interval) for interval in node.intervals] or [whole]
    return covered_seconds(merge_windows(held), span or whole)


def seconds_of_run(frame: RunFrame, by_node: Mapping[str, float]) -> float:
    """Return seconds of nodes as seconds of the run: 10 of one node of two that were held all the
    time are 5. GPUs that the node never used had no part in them.
    """
    held = sum(held_seconds(node, frame) for node in frame.nodes.values())
    spent = sum(
        seconds * used_share(frame.nodes[key]) for key, seconds in by_node.items() if seconds > 0
    )
    return frame.duration_seconds * spent / held if held > 0 else 0.0


def time_of_all(spent_seconds: float, worst_seconds: float, run_seconds: float) -> str:
    """Say what the time is of all nodes and GPUs; empty: what it is of the worst node."""
    if run_seconds <= 0 or lasting(spent_seconds) == lasting(worst_seconds):
        return ""
    share = 100 * spent_seconds / run_seconds
    return f" Over all nodes and GPUs that is {lasting(spent_seconds)}, {share:.1f} % of the run."


def used_share(node: NodeFrame) -> float:
    """Return the share of a node's GPUs that it used; 1 if it has none, or used none."""
    gpus = node.allocated_gpus()
    return len(node.used_gpus) / len(gpus) if gpus and node.used_gpus else 1.0
