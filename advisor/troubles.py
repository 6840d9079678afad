"""What went wrong during a run, and when first: GPU errors, throttling, kills for memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from advisor.run_summary import Trouble
from rules.frame import NodeFrame, RunFrame
from rules.training_loop import events_of

MOST_TROUBLES = 20
GPU_COUNTERS = {
    "throttled_thermal_ns_total": "throttled by heat",
    "throttled_power_brake_ns_total": "throttled by the power brake",
    "ecc_uncorrected_errors_total": "reports an uncorrected memory error",
}
"""Counter of a GPU -> what it means when it rises. A power cap is normal under load."""
LEAST_THROTTLED_NS = 1e9
"""Less than that in all is no trouble."""
MEMORY_KILLS = "container.oom_kills_total"


def troubles(frame: RunFrame) -> list[Trouble]:
    """In order of time, the earliest MOST_TROUBLES."""
    found = [each for key, node in frame.nodes.items() for each in _of_node(key, node)]
    return sorted(found, key=lambda each: each.seconds)[:MOST_TROUBLES]


def _of_node(key: str, node: NodeFrame) -> Iterator[Trouble]:
    yield from _xids(key, node)
    for number in node.allocated_gpus():
        for name, words in GPU_COUNTERS.items():
            least = LEAST_THROTTLED_NS if name.endswith("_ns_total") else 0.0
            began = _first_rise(node.series(f"gpu{number}.{name}"), least)
            if began is not None:
                yield Trouble(began, f"GPU {number} {words}", key)
    killed = _first_rise(node.series(MEMORY_KILLS), 0.0)
    if killed is not None:
        yield Trouble(killed, "The kernel killed a process for memory", key)


def _xids(key: str, node: NodeFrame) -> Iterator[Trouble]:
    seen = set()
    for at, data in events_of(node, "gpu_xid"):
        kind = (data.get("gpu"), data.get("xid"))
        if kind not in seen:
            seen.add(kind)
            gpu = "a GPU" if kind[0] is None else f"GPU {kind[0]}"
            yield Trouble(float(at), f"XID {kind[1]} on {gpu}", key)


def _first_rise(counter: pd.Series[float] | None, least: float) -> float | None:
    """When a counter first rose, if it rose by more than `least` in all; None: it didn't."""
    if counter is None or len(counter) < 2:
        return None
    steps = np.diff(counter.to_numpy())
    # A counter that starts again has fallen.
    rises = np.where(steps > 0, steps, 0.0)
    if not rises.sum() > least:
        return None
    return float(counter.index[int(np.argmax(rises > 0)) + 1])
