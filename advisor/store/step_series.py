"""Training steps as series, so that charts can draw them on the same time axis."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np
import pandas as pd

from advisor.store import frames
from advisor.store.index import NodeHistory
from advisor.store.objects import ObjectStore
from advisor.store.series import SeriesView

STEP, DATA_WAIT = "step.duration_seconds", "step.data_wait_seconds"
NAMES = (STEP, DATA_WAIT)
_COLUMNS = {STEP: "duration_seconds", DATA_WAIT: "data_wait_seconds"}


def read_steps(
    store: ObjectStore,
    nodes: Sequence[NodeHistory],
    names: Sequence[str],
    start: datetime,
    end: datetime,
    buckets: int,
) -> list[SeriesView]:
    """The training steps that began between `start` and `end`; all ranks of a node together."""
    views = []
    for node in nodes:
        steps = _training(store, node, start, end)
        wanted = [name for name in NAMES if name in names]
        views += [_view(node.key, name, steps, start, end, buckets) for name in wanted]
    return [view for view in views if view is not None]


def _training(
    store: ObjectStore, node: NodeHistory, start: datetime, end: datetime
) -> pd.DataFrame:
    """Reads only the chunks of steps. A broken object leaves a hole, as with samples."""
    steps, _ = frames.read_steps(store, [node], start, end)
    return steps[steps["phase"] == "train"]


def _view(
    node_key: str, name: str, steps: pd.DataFrame, start: datetime, end: datetime, buckets: int
) -> SeriesView | None:
    known = steps.dropna(subset=[_COLUMNS[name]])
    if not len(known):
        return None
    value, weight = known[_COLUMNS[name]], known["count"]
    length = (end - start).total_seconds()
    # A bucket shorter than the steps would be empty and look like a gap.
    longest = float((steps["duration_seconds"] * steps["count"]).max())
    count = max(int(min(buckets, length / max(2 * longest, 1e-3))), 1)
    bucket = np.clip((known["start_seconds"] / length * count).astype("int64"), 0, count - 1)
    every = np.arange(count)
    mean = (value * weight).groupby(bucket).sum() / weight.groupby(bucket).sum()
    grouped = value.groupby(bucket)
    return SeriesView(
        node_key=node_key,
        series=name,
        unit="seconds",
        t_seconds=every * (length / count),
        minimum=grouped.min().reindex(every).to_numpy(dtype=float),
        mean=mean.reindex(every).to_numpy(dtype=float),
        maximum=grouped.max().reindex(every).to_numpy(dtype=float),
    )
