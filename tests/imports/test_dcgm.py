"""Recordings of DCGM's fields: real trainings of three hours, and damaged columns."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from advisor.importers.recording import NotImportableError
from advisor.importers.stated_facts import StatedFacts
from advisor.offline.importing import import_path

BESIDE = Path(__file__).parents[2].parent / "shared" / "fixtures"
RECORDED = Path(os.environ.get("TRIMTAB_FIXTURES", BESIDE)) / "dcgm"
TAKEN = 11
"""Fields with a series of ours; those of PCIe, NVLink and the graphics engine have none."""


@pytest.mark.fixtures
@pytest.mark.skipif(not RECORDED.is_dir(), reason=f"no recordings in {RECORDED}")
@pytest.mark.parametrize("name", ["11523", "12f6a"])
def test_a_real_training_is_imported_with_the_counts_of_its_content(name):
    path = RECORDED / f"test_{name}.json.gz"
    columns = json.loads(gzip.decompress(path.read_bytes()))
    times = columns["Timestamp"]
    run = import_path(path, StatedFacts())
    assert dict(run.imported.tally.records) == {"samples": TAKEN * len(times)}
    assert {each.why: each.count for each in run.imported.tally.skipped.values()} == {
        "no series of ours": len(columns) - TAKEN - 1
    }
    assert run.timeline.duration_seconds == (times[-1] - times[0]) / 1000


def test_damaged_columns_lose_only_themselves(tmp_path):
    path = tmp_path / "gpu.json"
    start = 1_767_225_600_000
    columns = {
        "Timestamp": [start, start + 1000, "late", start + 1000, start + 3000],
        "DCGMI - GPU Utilization": [1, None, 3, 4, "x"],
        "DCGMI - Power Usage": [1, 2],
        "DCGMI - SM Active": "none",
    }
    path.write_text(json.dumps(columns))
    tally = import_path(path, StatedFacts()).imported.tally
    assert dict(tally.records) == {"samples": 1}
    assert {each.what: each.count for each in tally.skipped.values()} == {"ticks": 2, "columns": 2}
    path.write_text('{"Timestamp": [], "DCGMI - Power Usage": {}}')
    with pytest.raises(NotImportableError):
        import_path(path, StatedFacts())
