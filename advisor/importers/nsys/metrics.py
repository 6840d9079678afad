"""GPU metrics of Nsight Systems' export (`nsys profile --gpu-metrics-devices=all`), as series.

They are sampled some thousand times a second: each cell has the mean of its samples.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from advisor.importers.activity import CELL_MS, MOST_GPUS
from advisor.importers.nsys import tables
from advisor.importers.nsys.database import Database
from advisor.importers.recording import Floats, NotImportableError, Whole
from advisor.importers.tally import Tally

_TABLE, _NAMES = "GPU_METRICS", "TARGET_INFO_GPU_METRICS"
_COLUMNS = ("timestamp", "typeId", "metricId", "value")
_GPU_BITS = 0xFF
"""The bits of a type id that are the GPU's number."""
_SERIES = {
    "SM Active": "sm_active_pct",
    "SMs Active": "sm_active_pct",
    "Tensor Active": "tensor_active_pct",
    "DRAM Read Bandwidth": "dram_active_pct",
    "DRAM Write Bandwidth": "dram_active_pct",
}
"""A metric, without its unit -> our series of the GPU; of several the sum."""

_MOST_IDS, _MOST_SERIES = 256, 512
_MOST_CELLS = 5_000_000
"""The most cells of all series together: 80 MB. Eight GPUs for three hours have 4,000,000."""

Sums = dict[tuple[int, int], tuple[Floats, Floats]]


def columns(
    database: Database, began_ns: int, cells: int, tally: Tally, where: str
) -> dict[str, Floats]:
    """Series -> a value for each cell of `activity.CELL_MS`; NaN: no sample.

    Args:
        began_ns: when the first cell begins, since the session began.
    """
    names = _metrics(database)
    if not names or not database.has(_TABLE, *_COLUMNS):
        return {}
    sums: Sums = defaultdict(lambda: (np.zeros(cells), np.zeros(cells)))
    try:
        for batch in database.read_integer_rows(_TABLE, _COLUMNS, ("metricId", sorted(names))):
            left = _add(np.array(batch, dtype="int64"), began_ns, cells, sums)
            tally.skip("samples", "of more series than fit", left, f"{where}, {_TABLE}")
    except NotImportableError as error:
        tally.skip("tables", str(error), 1, f"{where}, {_TABLE}")
    found: dict[str, Floats] = {}
    for (gpu, metric), (total, count) in sorted(sums.items()):
        mean = np.divide(total, count, out=np.full(cells, np.nan), where=count > 0)
        name = f"gpu{gpu}.{names[metric]}"
        found[name] = np.round(found.get(name, 0.0) + mean, 3).clip(0, 100)
    return found


def _metrics(database: Database) -> dict[int, str]:
    """Return metric id -> series, of those that have one."""
    found: dict[int, str] = {}
    for number, name in tables.rows_of(database, _NAMES, ["metricId"], "metricName"):
        known = _SERIES.get(str(name).partition(" [")[0])
        if known and isinstance(number, int) and len(found) < _MOST_IDS:
            found[number] = known
    return found


def _add(batch: Whole, began_ns: int, cells: int, sums: Sums) -> int:
    """Add a batch to the sums of its series; return how many values have no place there."""
    at_ns, kind, metric, value = batch.T
    cell, gpu = (at_ns - began_ns) // (CELL_MS * 1_000_000), kind & _GPU_BITS
    possible = (cell >= 0) & (cell < cells) & (value >= 0) & (value <= 100) & (gpu < MOST_GPUS)
    series, cell, value = np.stack((gpu, metric))[:, possible], cell[possible], value[possible]
    names, place = np.unique(series, axis=1, return_inverse=True)
    counts, left = np.bincount(place.reshape(-1)).tolist(), 0
    most = min(_MOST_CELLS // cells, _MOST_SERIES)
    for at, (number, each) in enumerate(names.T.tolist()):
        if (number, each) not in sums and len(sums) >= most:
            left += counts[at]
            continue
        chosen = place.reshape(-1) == at
        total, count = sums[number, each]
        total += np.bincount(cell[chosen], weights=value[chosen], minlength=cells)
        count += np.bincount(cell[chosen], minlength=cells)
    return left
