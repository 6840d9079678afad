"""Runs that W&B wrote to disk: metrics, configuration, system metrics, machines and damage."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from advisor.importers.recording import Happening, NotImportableError, Samples
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts
from advisor.importers.tally import Tally
from advisor.importers.wandb import WandbRecording, open_recording
from advisor.offline.importing import import_path
from tests.imports.messages import (
    START,
    field,
    wandb_file,
    wandb_history,
    wandb_item,
    wandb_run,
    wandb_stats,
)

WRITTEN = (
    "368cd0e48e0001080a1289010a1712085f72756e74696d6582010a302e31343930373235330a0b12055f73746570"
    "820101300a0a12046c6f7373820101310a0d120776616c2f616363820101300a0f12066e65737465641201618201"
    "01300a0c1204746578748201032278220a25120a5f74696d657374616d70820116312e3739353438313030313038"
    "3932323137652b30391200"
)
"""A fragment of a file as W&B 0.31 wrote it, with its checksum."""
EXIT = field(18, field(2, 4))
FAILED = field(18, field(1, 1))


def read(path: Path, tally: Tally | None = None) -> WandbRecording:
    return open_recording(Source.from_path(path), StatedFacts(), tally or Tally())


def metrics(recording: WandbRecording) -> list[tuple[str, float, int | None]]:
    parts = [p for p in recording.parts(recording.nodes[0]) if isinstance(p, Happening)]
    return [(p.data["name"], p.data["value"], p.data["step"]) for p in parts]


def columns(recording: WandbRecording, node: int = 0) -> dict[str, list[float]]:
    parts = [p for p in recording.parts(recording.nodes[node]) if isinstance(p, Samples)]
    return {name: values.tolist() for part in parts for name, values in part.columns.items()}


def test_what_wandb_wrote_is_read(tmp_path):
    path = wandb_file(tmp_path, [])
    path.write_bytes(path.read_bytes() + bytes.fromhex(WRITTEN))
    tally = Tally()

    assert metrics(read(path, tally)) == [("loss", 1, 0), ("val/acc", 0, 0), ("nested.a", 0, 0)]
    assert {each.why: each.first for each in tally.skipped.values()} == {"no number": "text"}


def test_a_run_has_its_job_parameters_tags_and_end(tmp_path):
    config = {"lr": 0.1, "model": {"depth": 3}, "_wandb": {"x": 1}, "path": "/data"}
    run = wandb_run(config, run_id="abc", project="vision", name="first", tag="a", host="n1")
    later = field(5, field(1, wandb_item("lr", 0.2)) + field(2, wandb_item("path", None)))
    machine = field(26, field(17, 16) + field(21, field(1, 2**36)) + field(22, field(3, "EPYC"))
                    + field(24, field(1, "NVIDIA A100") + field(2, 2**35)))  # fmt: skip
    records = [run, machine, later, wandb_history(60, 1, loss=0.5), FAILED]
    imported = import_path(wandb_file(tmp_path, records), StatedFacts()).imported

    declared = imported.nodes[0].declaration
    assert (imported.format, imported.state, declared.job) == ("W&B", "failed", "vision")
    assert declared.parameters == {"lr": 0.2, "model.depth": 3}
    assert declared.tags == {"run": "first", "W&B run": "abc", "tags": "a"}
    facts = declared.node
    assert (facts.hostname, facts.vcpus, facts.memory_bytes, facts.cpu_model) == (
        "n1", 16, 2**36, "EPYC",
    )  # fmt: skip
    assert [(gpu.model, gpu.memory_bytes) for gpu in facts.gpus] == [("NVIDIA A100", 2**35)]


def test_without_an_end_it_counts_as_finished_and_says_so(tmp_path):
    for records, has_note in (([EXIT], False), ([], True)):
        tally = Tally()
        path = wandb_file(tmp_path, [wandb_history(0, 0, loss=1), *records])
        assert read(path, tally).state == "finished"
        assert any("has no end" in note for note in tally.notes) is has_note


def test_histories_become_metrics_whatever_form_their_values_have(tmp_path):
    typed = field(2, field(1, field(1, "n") + field(5, 7)) + field(1, field(1, "x") + field(6, 0.5))
                  + field(1, wandb_item("_timestamp", START)) + field(2, field(1, 9)))  # fmt: skip
    odd = wandb_history(1, 10, bad=math.nan, image={"_type": "image"}, on=True, text="x")
    tally = Tally()
    found = metrics(read(wandb_file(tmp_path, [typed, odd]), tally))

    assert found[:2] == [("n", -4, 9), ("x", 0.5, 9)], "sint64 is zigzag"
    assert found[2][0] == "bad"
    assert math.isnan(found[2][1])
    assert sum(each.count for each in tally.skipped.values()) == 3


def test_system_metrics_become_series_of_one_tick(tmp_path):
    records = []
    for tick in range(3):
        host = {"memory_percent": 40 + tick, "cpu.0.cpu_percent": 10, "cpu.1.cpu_percent": 30}
        host |= {"network.sent": 10.0 * tick, "proc.memory.availableMB": 1024.0, "cpu": 5}
        gpus = {"gpu.0.gpu": 90 - tick, "system.gpu.1.memoryAllocatedBytes": 2**30}
        records += [wandb_stats(15 * tick, host), wandb_stats(15 * tick + 0.25, gpus)]
    tally = Tally()
    recording = read(wandb_file(tmp_path, records), tally)
    (part,) = [p for p in recording.parts(recording.nodes[0]) if isinstance(p, Samples)]

    assert (part.times_ms - START * 1000).tolist() == [0, 15_000, 30_000]
    assert part.cadence_ms == 15_000
    assert {name: values.tolist() for name, values in part.columns.items()} == {
        "host.memory_used_pct": [40, 41, 42],
        "host.memory_available_bytes": [2**30] * 3,
        "host.cpu_busy_pct": [20] * 3,
        "cpu0.busy_pct": [10] * 3,
        "cpu1.busy_pct": [30] * 3,
        "net.sent_bytes_total": [0, 10, 20],
        "gpu0.busy_pct": [90, 89, 88],
        "gpu1.memory_used_bytes": [2**30] * 3,
    }
    assert [(each.first, each.count) for each in tally.skipped.values()] == [("cpu", 3)]


def test_labels_of_a_shared_run_are_its_machines(tmp_path):
    records = [
        wandb_stats(15 * tick + node / 10, {f"gpu.0.gpu/l:node{node}": 10 * node + tick})
        for tick in range(2)
        for node in range(2)
    ]
    recording = read(wandb_file(tmp_path, records))

    assert [node.name for node in recording.nodes] == ["node0", "node1"]
    assert columns(recording, 0) == {"gpu0.busy_pct": [0, 1]}
    assert columns(recording, 1) == {"gpu0.busy_pct": [10, 11]}


def test_records_of_several_blocks_are_put_together(tmp_path):
    records = [wandb_history(n, n, loss=n, note="x" * (n * 997)) for n in range(120)]
    tally = Tally()
    found = metrics(read(wandb_file(tmp_path, records), tally))

    assert [step for _, _, step in found] == list(range(120))
    assert {each.what: each.count for each in tally.skipped.values()} == {"values": 120}


def damaged(body: bytes, at: int) -> bytes:
    return body[:at] + bytes([body[at] ^ 0xFF]) + body[at + 1 :]


@pytest.mark.parametrize(("at", "lost"), [(200, 1), (32_768 + 100, 1), (5 * 32_768 - 500, 1)])
def test_a_changed_byte_loses_only_its_record(at, lost, tmp_path):
    path = wandb_file(tmp_path, [wandb_history(n, n, loss=n, note="x" * 900) for n in range(300)])
    whole = len(metrics(read(path)))
    path.write_bytes(damaged(path.read_bytes(), at))
    tally = Tally()
    found = metrics(read(path, tally))

    assert (whole, len(found)) == (300, 300 - lost)
    assert tally.skipped["records", "a wrong checksum"].count == lost


def test_a_tail_that_a_crash_cut_off_is_counted(tmp_path):
    path = wandb_file(tmp_path, [wandb_history(n, n, loss=n) for n in range(50)])
    path.write_bytes(path.read_bytes()[:-5])
    tally = Tally()
    assert len(metrics(read(path, tally))) == 49
    assert [each.count for each in tally.skipped.values()] == [1]


def test_another_run_beside_it_is_named(tmp_path):
    for name in ("run-a", "run-b"):
        wandb_file(tmp_path / name, [wandb_history(0, 0, loss=1)], f"{name}.wandb")
    tally = Tally()
    assert len(metrics(read(tmp_path, tally))) == 1
    assert [(each.what, each.count) for each in tally.skipped.values()] == [("files", 1)]


@pytest.mark.parametrize(
    "records", [[], [field(17, b"\xff")], [wandb_history(1e11, 0, loss=1)], [b"\xff" * 50]]
)
def test_a_file_in_which_nothing_has_a_time_is_refused(records: list[Any], tmp_path):
    with pytest.raises(NotImportableError):
        read(wandb_file(tmp_path, records))


def summary(update: dict[str, Any], *removed: str) -> bytes:
    updated = b"".join(field(1, wandb_item(key, value)) for key, value in update.items())
    return field(3, updated + b"".join(field(2, wandb_item(key, None)) for key in removed))


def test_values_that_only_the_summary_has_are_metrics_at_the_end(tmp_path):
    records = [
        wandb_history(0, 0, loss=2.0),
        summary({"loss": 2.0, "best": {"acc": 0.5}, "gone": 1, "_runtime": 60}),
        wandb_history(60, 1, loss=1.0),
        summary({"best": {"acc": 0.9}, "table": {"_type": "table-file"}, "words": "x"}, "gone"),
        field(3, field(1, field(2, "acc") + field(2, "max") + field(16, "0.95"))),
        EXIT,
    ]
    tally = Tally()
    path = wandb_file(tmp_path, records)
    recording = read(path, tally)
    parts = [p for p in recording.parts(recording.nodes[0]) if isinstance(p, Happening)]

    assert [(p.data["name"], p.data["value"]) for p in parts] == [
        ("loss", 2), ("loss", 1), ("best.acc", 0.9), ("acc.max", 0.95),
    ]  # fmt: skip
    assert {p.time_ms for p in parts[2:]} == {(START + 60) * 1000}
    assert {(each.why, each.count) for each in tally.skipped.values()} == {("no number", 2)}


def test_a_run_with_a_summary_alone_is_read(tmp_path):
    only = summary({"accuracy": 0.75, "_timestamp": START + 5.0})
    assert metrics(read(wandb_file(tmp_path, [only, EXIT]))) == [("accuracy", 0.75, None)]
