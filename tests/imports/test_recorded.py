"""Recordings from SageMaker, each counted by an independent reading of its files."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from advisor.importers.recording import NotImportableError
from advisor.importers.stated_facts import StatedFacts
from advisor.offline.importing import ImportedRun, import_path

BESIDE = Path(__file__).parents[2].parent / "shared" / "fixtures"
RECORDED = Path(os.environ.get("TRIMTAB_FIXTURES", BESIDE)) / "sagemaker"
FILES = sorted(p for p in RECORDED.rglob("*") if p.is_file()) if RECORDED.is_dir() else []
UNREAD = ("python_stats", ".pb", ".profile-empty", ".metadata")

pytestmark = [
    pytest.mark.fixtures,
    pytest.mark.skipif(not FILES, reason=f"no recordings in {RECORDED}"),
]


def imported(path: Path) -> ImportedRun:
    return import_path(path, StatedFacts())


def events_in(path: Path) -> list[dict[str, Any]]:
    body = path.read_bytes()
    document = json.loads(gzip.decompress(body) if path.suffix == ".gz" else body)
    events = document["traceEvents"] if isinstance(document, dict) else document
    return [event for event in events if event]


def counted(path: Path) -> Counter[str]:
    """Count what a file holds: whole lines of system metrics, or events by what becomes of them."""
    counts: Counter[str] = Counter()
    if ".algo-" in path.name:
        for line in path.read_text().splitlines():
            counts["samples" if line.endswith("}") else "broken"] += bool(line.strip())
        return counts
    opened: Counter[int] = Counter()
    for event in events_in(path):
        kind, place = event["ph"], event.get("pid", 0)
        counts["operations"] += kind == "X"
        counts["moments"] += kind in "iC"
        if kind == "B":
            opened[place] += 1
        elif kind == "E":
            known = opened[place] > 0
            counts["operations" if known else "broken"] += 1
            opened[place] -= known
    counts["broken"] += sum(opened.values())
    return +counts


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(RECORDED).as_posix())
def test_each_file_is_imported_with_the_counts_of_its_content(path: Path) -> None:
    if path.name.endswith(UNREAD):
        with pytest.raises(NotImportableError):
            imported(path)
        return
    tally, expected = imported(path).imported.tally, counted(path)
    broken = expected.pop("broken", 0)
    assert dict(tally.records) == dict(expected)
    assert sum(each.count for each in tally.skipped.values()) == broken
    assert all(each.why and path.name in each.first for each in tally.skipped.values())


@pytest.mark.parametrize("name", ["current/test_traces", "earlier/model_timeline_traces"])
def test_a_folder_has_what_its_files_have(name: str) -> None:
    folder = RECORDED / name
    expected = sum((counted(path) for path in folder.rglob("*.json")), Counter())
    assert dict(imported(folder).imported.tally.records) == dict(expected)


def test_a_tick_of_2026_has_all_its_series() -> None:
    (node,) = imported(RECORDED / "sample_2026").imported.nodes
    gpu = {"gpu0.busy_pct", "gpu0.memory_controller_busy_pct"}
    cores = {f"cpu{n}.{unit}" for n in range(4) for unit in ("busy_pct", "iowait_pct")}
    assert gpu | cores | {"host.cpu_busy_pct", "host.memory_used_pct"} <= node.stored.series
    assert node.stored.finest_ms == 500
    assert node.declaration.node.vcpus == 4
