"""Nsight Systems' SQLite export: the kernel table of `nsys stats`, GPUs, steps, and damage."""

from __future__ import annotations

import random
import sqlite3
import statistics
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from advisor.importers.nsys import NsysRecording, open_recording
from advisor.importers.recording import NotImportableError, Samples, Steps
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts
from advisor.importers.tally import Tally
from advisor.offline.importing import import_path
from tests.imports.nsys_files import EPOCH_NS, OTHER_PID, PID, Export


def read(path: Path, tally: Tally | None = None, **stated: Any) -> NsysRecording:
    return open_recording(Source.from_path(path), StatedFacts(**stated), tally or Tally())


def columns(recording: NsysRecording) -> dict[str, list[float]]:
    parts = [p for p in recording.parts(recording.nodes[0]) if isinstance(p, Samples)]
    return {name: values.tolist() for part in parts for name, values in part.columns.items()}


def steps(recording: NsysRecording) -> list[Steps]:
    return [p for node in recording.nodes for p in recording.parts(node) if isinstance(p, Steps)]


def test_the_kernel_table_is_that_of_nsys_stats(tmp_path):
    """Column by column as the report `cuda_gpu_kern_sum` documents them, from SQLite's own
    aggregates and Python's statistics."""
    export, chance = Export(tmp_path / "a.sqlite"), random.Random(3)
    names = [f"gemm<{n}>(float*)" for n in range(5)] + ["ncclDevKernel_AllReduce(x)"]
    for at in range(2_000):
        export.kernel(chance.choice(names), at, chance.choice([0.5, chance.uniform(0.001, 3)]))
    export.kernel("once<1>()", 3_000, 1.25)
    path = export.saved()
    database = sqlite3.connect(path)
    total = database.execute("SELECT sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
    expected = []
    for name, number, *figures in database.execute(
        "SELECT s.value, s.id, sum(end - start), count(*), avg(end - start), min(end - start), "
        "max(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = "
        "k.demangledName GROUP BY s.id ORDER BY sum(end - start) DESC"
    ):
        lengths = [
            length
            for (length,) in database.execute(
                "SELECT end - start FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE demangledName = ?",
                (number,),
            )
        ]
        expected.append(
            {
                "file": "a.sqlite",
                "name": name,
                "time_pct": round(figures[0] * 100 / total[0], 1),
                "total_ns": figures[0],
                "instances": figures[1],
                "avg_ns": round(figures[2], 1),
                "med_ns": round(statistics.median(lengths), 1),
                "min_ns": figures[3],
                "max_ns": figures[4],
                "stddev_ns": round(statistics.stdev(lengths), 1) if len(lengths) > 1 else None,
            }
        )
    recording = read(path)

    assert recording.statistics["kernels"] == expected
    assert [row["instances"] for row in expected][-1] == 1
    shown = {each.name: each.category for each in recording.operators}
    assert shown["ncclDevKernel_AllReduce(x)"] == "communication"
    assert shown["once<1>()"] == "GPU kernels"


def test_copies_calls_and_ranges_have_their_times(tmp_path):
    export = Export(tmp_path / "a.sqlite")
    export.copy(1, 0, 2)
    export.copy(1, 5, 4)
    export.copy(99, 10, 1)
    export.memset(20, 3)
    export.call("cudaLaunchKernel_v7000", 0, 1)
    export.call("cudaLaunchKernel_v7000", 2, 1)
    export.range("forward", 0, 10)
    export.range("conv", 2, 3, is_by_number=True)
    found = {each.name: each for each in read(export.saved()).operators}

    assert {name: (each.count, each.total_us, each.own_us) for name, each in found.items()} == {
        "[CUDA memcpy Host-to-Device]": (2, 6_000, None),
        "[CUDA memcpy kind 99]": (1, 1_000, None),
        "[CUDA memset]": (1, 3_000, None),
        "cudaLaunchKernel": (2, 2_000, None),
        "forward": (1, 10_000, 7_000),
        "conv": (1, 3_000, 3_000),
    }
    assert found["conv"].category == "NVTX ranges"


def test_a_gpu_is_busy_while_a_kernel_or_a_copy_is_on_it(tmp_path):
    export = Export(tmp_path / "a.sqlite")
    export.range("all", 0, 399.999)
    export.kernel("a", 0, 50)
    export.copy(2, 25, 50)
    export.kernel("c", 190, 20)
    export.kernel("d", 0, 300, gpu=1)
    for gpu, name in enumerate(("NVIDIA A100", "NVIDIA H100")):
        export.add("TARGET_INFO_GPU", vmId=0, id=gpu, name=name, totalMemory=(40 + gpu) * 2**30)
    recording = read(export.saved())

    assert columns(recording) == {
        "gpu0.busy_pct": [75, 10, 10, 0],
        "gpu1.busy_pct": [100, 100, 100, 0],
    }
    assert recording.statistics["gpus"] == [
        {"node": "node-1", "gpu": 0, "busy_us": 95_000, "idle_us": 115_000, "gaps": 1,
         "longest_gap_us": 115_000},
        {"node": "node-1", "gpu": 1, "busy_us": 300_000, "idle_us": 0, "gaps": 0,
         "longest_gap_us": 0},
    ]  # fmt: skip
    assert recording.nodes[0].started_ms == EPOCH_NS // 10**6
    run = import_path(tmp_path / "a.sqlite", StatedFacts())
    assert run.imported.format == "Nsight Systems"
    gpus = run.imported.nodes[0].declaration.node.gpus
    assert [(gpu.model, gpu.memory_bytes) for gpu in gpus] == [
        ("NVIDIA A100", 40 * 2**30),
        ("NVIDIA H100", 41 * 2**30),
    ]


def test_a_process_that_sees_one_gpu_as_its_first_is_on_the_right_one(tmp_path):
    export = Export(tmp_path / "a.sqlite")
    export.range("all", 0, 199.999)
    for pid, gpu in ((PID, 0), (OTHER_PID, 3)):
        device = {"gpuId": gpu, "cudaId": 0, "pid": pid, "uuid": "", "numMultiprocessors": 108}
        export.add("TARGET_INFO_CUDA_DEVICE", **device)
    export.kernel("a", 0, 50, pid=PID)
    export.kernel("a", 0, 100, pid=OTHER_PID)
    recording = read(export.saved())

    assert columns(recording) == {"gpu0.busy_pct": [50, 0], "gpu3.busy_pct": [100, 0]}
    assert recording.nodes[0].gpus == 4


def test_a_kernel_of_an_unknown_process_counts(tmp_path):
    export = Export(tmp_path / "a.sqlite")
    device = {"gpuId": 3, "cudaId": 0, "pid": PID, "uuid": "", "numMultiprocessors": 108}
    export.add("TARGET_INFO_CUDA_DEVICE", **device)
    name = export.text("gemm")
    row = {"start": 0, "end": 10, "deviceId": 1, "contextId": 1, "streamId": 7}
    export.add("CUPTI_ACTIVITY_KIND_KERNEL", **row, demangledName=name, shortName=name)
    recording = read(export.saved())
    assert [each.name for each in recording.operators] == ["gemm"]
    assert recording.nodes[0].gpus == 2


def test_ranges_that_are_named_as_steps_are_the_steps_of_their_process(tmp_path):
    export = Export(tmp_path / "a.sqlite")
    for pid in (PID, OTHER_PID):
        for number in range(4):
            export.range(f"train_step {number}", 100 * number, 90 + number, pid)
            export.range(f"batch {number}", 100 * number + 5, 20, pid)
            export.range("forward", 100 * number, 60, pid)
    export.range("train_step 9", 350, 100)
    tally = Tally()
    recording = read(export.saved(), tally)
    found = steps(recording)

    assert [each.rank for each in found] == [0, 1]
    assert (found[0].start_us - EPOCH_NS // 1000).tolist() == [0, 100_000, 200_000, 300_000]
    assert found[0].duration_us.tolist() == [90_000, 91_000, 92_000, 93_000]
    assert any("training steps" in note for note in tally.notes)
    assert {each.name: each.count for each in recording.operators} == {
        "train_step #": 9,
        "batch #": 8,
        "forward": 8,
    }


def test_gpu_metrics_are_the_mean_of_each_cell(tmp_path):
    export = Export(tmp_path / "a.sqlite")
    export.kernel("a", 0, 299.999)
    export.metric("SMs Active [Throughput %]", [10, 30] * 5 + [50] * 10)
    export.metric("DRAM Read Bandwidth [Throughput %]", [20] * 30)
    export.metric("DRAM Write Bandwidth [Throughput %]", [5] * 30)
    export.metric("GPC Clock Frequency [MHz]", [90] * 30)
    found = columns(read(export.saved()))

    assert found["gpu0.sm_active_pct"][:2] == [20, 50]
    assert found["gpu0.sm_active_pct"][2] != found["gpu0.sm_active_pct"][2]
    assert found["gpu0.dram_active_pct"] == [25, 25, 25]
    assert set(found) == {"gpu0.busy_pct", "gpu0.sm_active_pct", "gpu0.dram_active_pct"}


def test_an_earlier_version_without_columns_and_times_is_read(tmp_path):
    database = sqlite3.connect(tmp_path / "old.sqlite")
    database.executescript(
        "CREATE TABLE StringIds (id INTEGER, value TEXT);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, shortName INT);"
        "CREATE TABLE NVTX_EVENTS (start INT, end INT, text TEXT);"
        "INSERT INTO StringIds VALUES (1, 'gemm');"
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5000000, 6000000, 0, 1);"
        "INSERT INTO NVTX_EVENTS VALUES (5000000, 8000000, 'x'), (5000000, NULL, 'never ended');"
    )
    database.commit()
    database.close()
    at, tally = datetime(2026, 5, 4, tzinfo=UTC), Tally()
    recording = read(tmp_path / "old.sqlite", tally, imported_at=at)

    assert {each.name for each in recording.operators} == {"gemm", "x"}
    assert recording.nodes[0].started_ms == at.timestamp() * 1000
    assert any("no time of day" in note for note in tally.notes)


def test_values_of_other_types_lose_only_their_rows(tmp_path):
    export = Export(tmp_path / "a.sqlite")
    export.kernel("good", 0, 10)
    bad: list[dict[str, Any]] = [
        {"start": "x"}, {"end": b"\xff"}, {"start": 2**63 - 1}, {"start": -(2**63)}, {"end": -5},
        {"deviceId": -1}, {"deviceId": 10**9}, {"demangledName": 1.5},
    ]  # fmt: skip
    for values in bad:
        row = {"start": 0, "end": 9, "deviceId": 0, "contextId": 0, "streamId": 0, "shortName": 1}
        export.add("CUPTI_ACTIVITY_KIND_KERNEL", **{**row, "demangledName": 1, **values})
    export.add("NVTX_EVENTS", start="x", end=3, eventType=59, text="y")
    export.add("NVTX_EVENTS", start=1, end=3, eventType=59, text=b"\xff\xfe")
    tally = Tally()
    (operator,) = read(export.saved(), tally).operators

    assert (operator.name, operator.count) == ("good", 1)
    assert sum(each.count for each in tally.skipped.values()) == len(bad) + 2


HOSTILE = {
    "a view": "CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT "
    "start + 1 FROM n) SELECT start, start + 1 AS end, 'a' AS text FROM n",
    "a virtual table": "CREATE VIRTUAL TABLE CUPTI_ACTIVITY_KIND_KERNEL USING "
    "fts5(start, end, deviceId, demangledName)",
    "generated columns": "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (deviceId INT, "
    "demangledName INT, start INT AS (length(hex(zeroblob(100000000)))), end INT AS (start + 1)); "
    "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0, 1)",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_schemas_are_not_run(name, tmp_path):
    path = tmp_path / "a.sqlite"
    database = sqlite3.connect(path)
    database.executescript(f"CREATE TABLE ANALYSIS_DETAILS (stopTime INT); {HOSTILE[name]};")
    database.commit()
    database.close()
    with pytest.raises(NotImportableError):
        read(path)


def test_an_endless_table_ends_at_the_bound(tmp_path, monkeypatch):
    monkeypatch.setattr("advisor.importers.nsys.tables._MOST_ROWS", 10)
    monkeypatch.setattr("advisor.importers.nsys.database._ROWS_A_BATCH", 5)
    export = Export(tmp_path / "a.sqlite")
    for at in range(25):
        export.kernel("a", at, 1)
    tally = Tally()
    (operator,) = read(export.saved(), tally).operators
    assert operator.count == 10
    assert [(each.why, each.count) for each in tally.skipped.values()] == [("more than fit", 15)]


def test_a_file_that_takes_too_long_ends_with_what_was_read(tmp_path, monkeypatch):
    export = Export(tmp_path / "a.sqlite")
    for at in range(2_000):
        export.kernel("a", at, 1)
    path = export.saved()
    monkeypatch.setattr("advisor.importers.nsys.database._FEWEST_STEPS", -(10**9))
    tally = Tally()
    (operator,) = read(path, tally).operators
    assert 0 < operator.count < 100
    assert any("interrupted" in each.why for each in tally.skipped.values())


def test_a_truncated_file_is_refused_or_keeps_its_whole_pages(tmp_path):
    export = Export(tmp_path / "a.sqlite")
    for at in range(20_000):
        export.kernel(f"kernel {at % 50}", at, 1)
    path = export.saved()
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 3 // 4])
    tally = Tally()
    recording = read(path, tally)

    assert 1_000 < sum(each.count for each in recording.operators) < 20_000
    assert any("damaged" in each.why for each in tally.skipped.values())


def test_other_sqlite_files_are_not_taken_for_it(tmp_path):
    database = sqlite3.connect(tmp_path / "mlruns.db")
    database.execute("CREATE TABLE runs (id INTEGER)")
    database.commit()
    database.close()
    with pytest.raises(NotImportableError, match="no export of Nsight Systems"):
        import_path(tmp_path, StatedFacts())
