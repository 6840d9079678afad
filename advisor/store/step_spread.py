"""The durations of training steps, by rank and phase: of single steps, or the histograms of
tiers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from advisor.store.chart_plan import Buckets
from advisor.store.step_tiers import BINS_PER_OCTAVE, histogram_entries

COLUMNS = (
    "cell_ms",
    "rank",
    "phase",
    "count",
    "duration_us",
    "duration_min_us",
    "duration_max_us",
    "wait_count",
    "data_wait_us",
    "histogram",
)
_US = 1e6


PARTS = 4
"""Values that stand for the steps of one bin of one cell."""
SPREAD = 0.618034
"""The golden section: by so much the values of each cell are shifted beside those of the one before
it, so that all cells together fill a bin evenly and a histogram shows no gaps."""


@dataclass(frozen=True)
class StepSpread:
    """The steps of one rank and phase."""

    node_key: str
    rank: int
    phase: str
    count: int
    mean_seconds: float
    wait_seconds: float | None
    """Mean of the steps whose data wait is known; None: of none."""
    least_seconds: float
    most_seconds: float
    """The shortest and the longest step, exact."""
    seconds: np.ndarray
    """Rising durations that stand for the steps; `weights`: for how many each."""
    weights: np.ndarray
    waits: np.ndarray
    """The wait of single steps for data, else the means of cells, in seconds; `wait_weights` says
    of how many steps each."""
    wait_weights: np.ndarray
    is_exact: bool = False
    """Every step is known, and percentiles lie between two of them, as NumPy has it."""

    def percentile_seconds(self, percent: float) -> float:
        """Return the seconds at a percentile.

        Args:
            percent: 0..100.
        """
        if self.is_exact:
            return float(np.percentile(self.seconds, percent))
        if percent <= 0 or percent >= 100:
            return self.most_seconds if percent else self.least_seconds
        ends = np.cumsum(self.weights)
        place = int(np.searchsorted(ends, percent / 100 * ends[-1] - 1e-9))
        return float(self.seconds[min(place, len(ends) - 1)])


def spreads_of(node_key: str, cells: pa.Table) -> Iterator[StepSpread]:
    """Yield one spread of each phase and rank.

    Args:
        cells: rows of a tier with `COLUMNS`.
    """
    ranks, phases = cells["rank"].to_numpy(), cells["phase"].to_numpy(zero_copy_only=False)
    rows, seconds, weights = _points(cells)
    for phase in sorted(set(phases) - {None}):
        for rank in np.unique(ranks[phases == phase]):
            own = (ranks == rank) & (phases == phase)
            mine = own[rows]
            if mine.any():
                order = np.argsort(seconds[mine], kind="stable")
                points = seconds[mine][order], weights[mine][order]
                yield _spread(node_key, int(rank), phase, cells.filter(pa.array(own)), *points)


def spreads_of_single(node_key: str, steps: pa.Table) -> Iterator[StepSpread]:
    """Yield the spreads of `spreads_of`, exactly.

    Args:
        steps: single ones, with `rank`, `phase`, `duration_us` and `data_wait_us`.
    """
    ranks, phases = steps["rank"].to_numpy(), steps["phase"].combine_chunks().dictionary_encode()
    codes, names = phases.indices.fill_null(-1).to_numpy(), phases.dictionary.to_pylist()
    seconds = steps["duration_us"].to_numpy() / _US
    waits = steps["data_wait_us"].to_numpy().astype(np.float64) / _US
    for code in sorted(range(len(names)), key=lambda code: str(names[code])):
        for rank in np.unique(ranks[codes == code]):
            mine = (codes == code) & (ranks == rank)
            own, waited = np.sort(seconds[mine]), waits[mine]
            waited = waited[np.isfinite(waited)]
            yield StepSpread(
                node_key=node_key,
                rank=int(rank),
                phase=names[code],
                count=len(own),
                mean_seconds=float(own.mean()),
                wait_seconds=float(waited.mean()) if len(waited) else None,
                least_seconds=float(own[0]),
                most_seconds=float(own[-1]),
                seconds=own,
                weights=np.ones(len(own)),
                waits=waited,
                wait_weights=np.ones(len(waited)),
                is_exact=True,
            )


def _points(cells: pa.Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, durations and weights: the histogram's bins, each no wider than its cell's
    shortest to longest step, as `PARTS` values apart. So a single step is itself.
    """
    rows, bins, counts = histogram_entries(cells)
    least, most = (cells[f"duration_{end}_us"].to_numpy()[rows] for end in ("min", "max"))
    low = np.minimum(np.maximum(2.0 ** (bins / BINS_PER_OCTAVE), least), most)
    high = np.maximum(np.minimum(2.0 ** ((bins + 1) / BINS_PER_OCTAVE), most), low)
    within = (np.arange(PARTS) + ((0.5 + SPREAD * rows) % 1)[:, None]) / PARTS
    seconds = (low[:, None] + (high - low)[:, None] * within) / _US
    return np.repeat(rows, PARTS), seconds.ravel(), np.repeat(counts / PARTS, PARTS)


def _spread(
    node_key: str,
    rank: int,
    phase: str,
    cells: pa.Table,
    seconds: np.ndarray,
    weights: np.ndarray,
) -> StepSpread:
    count, waited = pc.sum(cells["count"]).as_py(), pc.sum(cells["wait_count"]).as_py()
    known = cells.filter(pc.greater(cells["wait_count"], 0))
    wait_weights = known["wait_count"].to_numpy()
    return StepSpread(
        node_key=node_key,
        rank=rank,
        phase=phase,
        count=count,
        mean_seconds=pc.sum(cells["duration_us"]).as_py() / max(count, 1) / _US,
        wait_seconds=pc.sum(cells["data_wait_us"]).as_py() / waited / _US if waited else None,
        least_seconds=pc.min(cells["duration_min_us"]).as_py() / _US,
        most_seconds=pc.max(cells["duration_max_us"]).as_py() / _US,
        seconds=seconds,
        weights=weights,
        waits=known["data_wait_us"].to_numpy() / wait_weights / _US,
        wait_weights=wait_weights,
    )


def phase_lengths(cells: pa.Table, buckets: Buckets) -> dict[str, np.ndarray]:
    """Return the steps' time of each phase in each bucket, in seconds, over all ranks."""
    grid, place = buckets.grid, _places(cells, buckets)
    seconds = cells["duration_us"].to_numpy() / _US
    phases = cells["phase"].to_numpy(zero_copy_only=False)
    return {
        phase: np.bincount(place[phases == phase], seconds[phases == phase], grid.count)
        for phase in sorted(set(phases) - {None})
    }


def trained_steps(cells: pa.Table, buckets: Buckets) -> np.ndarray:
    """Return the training steps in each bucket, of the lowest rank: each rank takes part in every
    step.
    """
    is_train = cells["phase"].to_numpy(zero_copy_only=False) == "train"
    ranks = cells["rank"].to_numpy()
    own = is_train & (ranks == (ranks[is_train].min() if is_train.any() else -1))
    counts = cells["count"].to_numpy()[own]
    return np.bincount(_places(cells, buckets)[own], counts, buckets.grid.count)


def _places(cells: pa.Table, buckets: Buckets) -> np.ndarray:
    grid = buckets.grid
    place = ((cells["cell_ms"].to_numpy() - grid.start_ms) // grid.width_ms).astype(np.int64)
    return np.asarray(np.clip(place, 0, grid.count - 1))
