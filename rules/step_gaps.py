"""Gaps between training steps, and gaps that no recorded phase explains."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rules.activity import used_gpu_pct
from rules.checkpoints import checkpoint_spans
from rules.frame import GPU_IN_USE_PCT, Flags, NodeFrame, RunFrame
from rules.grid import GAP_SECONDS
from rules.intervals import intervals_where, subtract_windows
from rules.restarts import process_restarts, restore_spans
from rules.rule import Window
from rules.training_loop import phase_spans, weighted_median


def step_gaps(
    node: NodeFrame, at_least_seconds: float, at_least_steps: float
) -> tuple[list[Window], float] | None:
    """Return the gaps between the steps of the node's first rank, and its median training step in
    s.

    Steps of any phase count as work. A gap lasts at least `at_least_seconds` and at least
    `at_least_steps` median steps. None if there are fewer than three steps.
    """
    chosen = node.once(_is_of_first_rank)
    columns = (node.step_column(n) for n in ("start_seconds", "duration_seconds", "count"))
    starts, lengths, counts = (column[chosen] for column in columns)
    train = node.is_phase("train")[chosen]
    if len(starts) < 3 or not train.any():
        return None
    if not (starts[1:] >= starts[:-1]).all():
        order = np.argsort(starts)
        starts, lengths, counts = (column[order] for column in (starts, lengths, counts))
        train = train[order]
    np.nan_to_num(counts, copy=False, nan=1.0)
    ends = np.maximum.accumulate(starts + lengths * counts)
    median = weighted_median(lengths[train], counts[train])
    long = starts[1:] - ends[:-1] >= max(at_least_seconds, at_least_steps * median) - 1e-9
    pairs = zip(ends[:-1][long], starts[1:][long], strict=True)
    return [Window(float(a), float(b)) for a, b in pairs], median


def unexplained_gaps(
    node: NodeFrame, frame: RunFrame, gap_seconds: float, median_steps: float
) -> list[Window] | None:
    """Return the step gaps with idle GPUs that no evaluation, checkpoint or restart accounts for.

    Time from which nothing has arrived is none: its steps may be missing, too.
    """
    times = frame.duration_seconds, frame.resolution_seconds
    return node.once(_unexplained_gaps, *times, gap_seconds, median_steps)


def _unexplained_gaps(
    node: NodeFrame, end: float, resolution: float, gap_seconds: float, median_steps: float
) -> list[Window] | None:
    measured = step_gaps(node, gap_seconds, median_steps)
    if measured is None:
        return None
    gaps, median = measured
    waits, begins = process_restarts(node)
    known = [*phase_spans(node, "evaluate", end), *checkpoint_spans(node, end)]
    recorded = [*known, *restore_spans(node, end), *waits, *begins, *_unseen(node, resolution)]
    rest = subtract_windows(gaps, recorded)
    least = max(gap_seconds, median_steps * median) - 1e-9
    long = [w for w in rest if w.end_seconds - w.start_seconds >= least]
    gpu = used_gpu_pct(node)
    return long if gpu is None else _idle(long, gpu, resolution)


def _unseen(node: NodeFrame, resolution: float) -> list[Window]:
    """Return the stretches without any sample; none if the node has no samples at all."""
    seen = node.is_seen
    return intervals_where(seen == 0, resolution, GAP_SECONDS) if seen.any() else []


def _is_of_first_rank(node: NodeFrame) -> Flags:
    """Return for each step whether it took time and is of the lowest rank with such steps."""
    timed, ranks = node.is_timed, node.step_ranks
    return timed & (ranks == ranks[timed].min()) if timed.any() else timed


def _idle(gaps: list[Window], gpu: pd.Series[float], resolution_seconds: float) -> list[Window]:
    """Return the gaps in which the GPUs idle. A gap in which no sample lies is like most of the
    others.
    """
    found = [_idles(gap, gpu, resolution_seconds) for gap in gaps]
    known = [idles for idles in found if idles is not None]
    usual = 2 * sum(known) > len(known)
    pairs = zip(gaps, found, strict=True)
    return [gap for gap, idles in pairs if (usual if idles is None else idles)]


def _idles(gap: Window, gpu: pd.Series[float], resolution_seconds: float) -> bool | None:
    """Return whether the GPU idles, by the samples entirely within the gap; None if there are
    none.
    """
    times = gpu.index.to_numpy(dtype=float)
    ends = gap.start_seconds, gap.end_seconds - resolution_seconds
    inside = gpu.to_numpy(dtype=float)[slice(*np.searchsorted(times, np.add(ends, [0, 1e-9])))]
    return float(inside.mean()) < GPU_IN_USE_PCT if len(inside) else None
