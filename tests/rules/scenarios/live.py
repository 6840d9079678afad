"""A run as it is known while it is going."""

from __future__ import annotations

from dataclasses import replace

from rules.frame import NodeFrame, RunFrame


def so_far(run: RunFrame, seconds: float) -> RunFrame:
    """Return what is known of a run after so many seconds: no step that has not ended."""
    nodes = {key: _node_so_far(node, seconds) for key, node in run.nodes.items()}
    return replace(run, duration_seconds=seconds, final=False, nodes=nodes)


def _node_so_far(node: NodeFrame, seconds: float) -> NodeFrame:
    ends = node.steps["start_seconds"] + node.steps["duration_seconds"] * node.steps["count"]
    return replace(
        node,
        samples=node.samples[node.samples.index < seconds],
        steps=node.steps[ends <= seconds],
        events=node.events[node.events["time_seconds"] <= seconds],
        intervals=((0.0, seconds),),
    )
