"""Finds what went wrong during a run, and when first: GPU errors, throttling, memory that ran
out.
"""

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
GIB = 2**30
MEMORY_KILLS = "container.oom_kills_total"


def troubles(frame: RunFrame) -> list[Trouble]:
    """Return the earliest MOST_TROUBLES, in order of time."""
    found = [each for key, node in frame.nodes.items() for each in _of_node(key, node)]
    return sorted(found, key=lambda each: each.seconds)[:MOST_TROUBLES]


def _of_node(key: str, node: NodeFrame) -> Iterator[Trouble]:
    yield from _xids(key, node)
    yield from _full_gpus(key, node)
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


def _full_gpus(key: str, node: NodeFrame) -> Iterator[Trouble]:
    """Yield the GPUs that ran out of memory: the process that was ended says which GPU, how much it
    asked for, and what was free.
    """
    for at, data in events_of(node, "gpu_out_of_memory"):
        asked, free = data.get("requested_bytes"), data.get("free_bytes")
        if not isinstance(asked, int):
            continue
        gpu = "A GPU's" if data.get("gpu") is None else f"GPU {data['gpu']}'s"
        rest = f", {free / GIB:.2f} GiB were free" if isinstance(free, int) else ""
        words = (
            f"{gpu} memory ran out: rank {data.get('rank')} asked for {asked / GIB:.2f} GiB{rest}"
        )
        yield Trouble(float(at), words, key)


def _first_rise(counter: pd.Series[float] | None, least: float) -> float | None:
    """Return when a counter first rose, if it rose by more than `least` in all; None if it
    didn't.
    """
    if counter is None or len(counter) < 2:
        return None
    steps = np.diff(counter.to_numpy())
    # A counter that starts again has fallen.
    rises = np.where(steps > 0, steps, 0.0)
    if not rises.sum() > least:
        return None
    return float(counter.index[int(np.argmax(rises > 0)) + 1])
