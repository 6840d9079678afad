"""Traces of PyTorch's profiler: operators as `key_averages()` has them, steps, waits and GPUs."""

from __future__ import annotations

import gzip
import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from advisor.importers.recording import NotImportableError, Samples, Steps
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts
from advisor.importers.tally import Tally
from advisor.importers.torch_trace import TorchRecording, open_recording
from advisor.offline.importing import import_path
from tests.agent.torch_python import NEEDS_TORCH, PYTHON

BASE_NS = 1_767_225_600 * 10**9
TRAINING = """
import json, sys, torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = DataLoader(TensorDataset(torch.randn(512, 64), torch.randint(0, 10, (512,))), batch_size=32)
with profile(activities=[ProfilerActivity.CPU]) as profiler:
    for x, y in data:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
profiler.export_chrome_trace(sys.argv[1])
averages = {e.key: [e.count, e.self_cpu_time_total] for e in profiler.key_averages()}
print(json.dumps(averages))
"""


def event(name: str, start: float, length: float, category: str = "cpu_op", **more: Any) -> Any:
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": start,
            "dur": length, **more}  # fmt: skip


def kernel(name: str, start: float, length: float, gpu: int = 0, stream: int = 7) -> Any:
    return event(name, start, length, "kernel", tid=stream, args={"device": gpu, "stream": stream})


def written(folder: Path, events: list[Any], name: str = "a.pt.trace.json", **head: Any) -> Path:
    path = folder / name
    document = {"schemaVersion": 1, "baseTimeNanoseconds": BASE_NS, **head, "traceEvents": events}
    text = json.dumps(document).encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


def read(path: Path, tally: Tally | None = None) -> TorchRecording:
    return open_recording(Source.from_path(path), StatedFacts(), tally or Tally())


def columns(recording: TorchRecording) -> dict[str, list[float]]:
    parts = [p for p in recording.parts(recording.nodes[0]) if isinstance(p, Samples)]
    return {name: values.tolist() for part in parts for name, values in part.columns.items()}


def steps(recording: TorchRecording) -> Steps:
    (found,) = (p for p in recording.parts(recording.nodes[0]) if isinstance(p, Steps))
    return found


def test_the_time_of_its_own_is_without_what_it_called(tmp_path):
    events = [
        event("aten::linear", 100, 100),
        event("aten::addmm", 110, 60),
        event("aten::copy_", 120, 10),
        event("aten::copy_", 200, 5),
        event("aten::copy_", 100, 7, tid=2),
    ]
    tally = Tally()
    found = {each.name: each for each in read(written(tmp_path, events), tally).operators}

    assert (found["aten::linear"].total_us, found["aten::linear"].own_us) == (100, 40)
    assert (found["aten::addmm"].total_us, found["aten::addmm"].own_us) == (60, 50)
    assert (found["aten::copy_"].count, found["aten::copy_"].own_us) == (3, 22)
    assert dict(tally.records) == {"operations": 5}


def test_kernels_copies_and_communication_are_told_apart(tmp_path):
    events = [
        kernel("ampere_sgemm", 0, 10),
        kernel("ncclDevKernel_AllReduce_Sum_f32", 10, 30),
        event("Memcpy HtoD", 40, 5, "gpu_memcpy", args={"device": 0}),
        event("cudaLaunchKernel", 0, 2, "cuda_runtime"),
    ]
    found = {each.category: each.own_us for each in read(written(tmp_path, events)).operators}

    assert found == {"GPU kernels": 10, "communication": 30, "GPU copies": 5, "CUDA calls": 2}


def test_a_gpu_is_busy_while_any_of_its_streams_is(tmp_path):
    events = [
        event("start", 0, 1),
        kernel("a", 0, 50_000),
        kernel("b", 25_000, 50_000, stream=8),
        kernel("c", 190_000, 20_000),
        kernel("d", 0, 300_000, gpu=1),
        event("end", 399_999, 1),
    ]
    recording = read(written(tmp_path, events))

    assert recording.nodes[0].gpus == 2
    assert columns(recording) == {
        "gpu0.busy_pct": [75, 10, 10, 0],
        "gpu1.busy_pct": [100, 100, 100, 0],
    }


def test_each_machine_is_a_node_with_its_own_gpus(tmp_path):
    for host, rank, gpus in (("b", 0, 1), ("a", 1, 2), ("a", 2, 2)):
        events = [event("start", 0, 1), event("end", 399_999, 1)]
        events += [kernel("k", 0, 100_000, gpu=gpu) for gpu in range(gpus)]
        head = {"host_name": host, "distributedInfo": {"rank": rank}}
        written(tmp_path, events, f"{rank}.pt.trace.json", **head)
    recording = read(tmp_path)

    assert [(node.name, node.gpus) for node in recording.nodes] == [("a", 2), ("b", 1)]
    parts = {node.name: list(recording.parts(node)) for node in recording.nodes}
    series = {name: set(part.columns) for name, each in parts.items() for part in each
              if isinstance(part, Samples)}  # fmt: skip
    assert series == {"a": {"gpu0.busy_pct", "gpu1.busy_pct"}, "b": {"gpu0.busy_pct"}}


def test_a_trace_without_a_time_of_day_begins_when_it_was_imported(tmp_path):
    events = [event(f"ProfilerStep#{n}", 500 + 1000 * n, 900, "user_annotation") for n in range(3)]
    at, tally = datetime(2026, 5, 4, tzinfo=UTC), Tally()
    path = written(tmp_path, events, baseTimeNanoseconds=0)
    recording = open_recording(Source.from_path(path), StatedFacts(imported_at=at), tally)

    assert recording.nodes[0].started_ms == at.timestamp() * 1000
    assert steps(recording).start_us.tolist() == [
        round(at.timestamp() * 10**6) + 1000 * n for n in range(3)
    ]
    assert any("no time of day" in note for note in tally.notes)


def test_names_are_kept_as_far_as_a_database_takes_them(tmp_path):
    events = [event("a\0b", 0, 10), event("c\ud800", 20, 10)]
    run = import_path(written(tmp_path, events), StatedFacts())
    names = {each["name"] for each in run.imported.document()["operators"]}
    assert names == {"a?b", "c?"}


def test_marked_steps_have_their_wait_for_data(tmp_path):
    note = {"category": "user_annotation"}
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    events = [
        event("ProfilerStep#5", 1000, 500, **note),
        event("ProfilerStep#6", 1500, 400, **note),
        event(loader, 1400, 200, **note),
        event("Optimizer.step#SGD.step", 1450, 10, **note),
    ]
    found = steps(read(written(tmp_path, events, distributedInfo={"backend": "nccl", "rank": 3})))

    assert found.rank == 3
    assert (found.start_us - BASE_NS // 1000).tolist() == [1000, 1500]
    assert found.duration_us.tolist() == [500, 400]
    assert found.data_wait_us is not None
    assert found.data_wait_us.tolist() == [100, 100]


def test_without_marks_a_step_ends_with_the_optimizers(tmp_path):
    ends = [event("Optimizer.step#Adam.step", at, 10, "user_annotation") for at in (90, 190, 390)]
    found = steps(read(written(tmp_path, ends)))

    assert found.duration_us.tolist() == [100, 200]
    assert found.data_wait_us is None


def test_several_processes_are_one_run(tmp_path):
    for rank in range(2):
        written(
            tmp_path,
            [kernel("k", 0, 1000, gpu=rank), event("ProfilerStep#1", 0, 9_000, "user_annotation"),
             event("end", 250_000, 10)],
            f"host_{rank}.pt.trace.json.gz",
            distributedInfo={"rank": rank},
        )  # fmt: skip

    imported = import_path(tmp_path, StatedFacts()).imported

    assert imported.format == "PyTorch profiler"
    assert imported.tally.records["steps"] == 2
    assert len(imported.nodes[0].declaration.node.gpus) == 2


def test_what_is_broken_loses_only_itself(tmp_path):
    events = [event("good", 0, 10), event("bad", 5, -1), event("bad", "x", 1), 7, {"ph": 3}]
    tally = Tally()
    recording = read(written(tmp_path, events), tally)

    assert [each.name for each in recording.operators] == ["good"]
    assert sum(each.count for each in tally.skipped.values()) == 4


def test_a_truncated_file_keeps_its_whole_events(tmp_path):
    whole = written(tmp_path, [event("a", n * 10, 5, args={"n": {"m": n}}) for n in range(50)])
    text = json.dumps(json.loads(whole.read_text()), indent=1)
    whole.write_text(text[: len(text) * 3 // 4])
    tally = Tally()
    (operator,) = read(whole, tally).operators

    assert 30 < operator.count < 50
    assert [each.count for each in tally.skipped.values()] == [1]


def test_a_trace_without_operations_is_refused(tmp_path):
    with pytest.raises(NotImportableError, match="no operation"):
        read(written(tmp_path, []))


@pytest.mark.torch
@NEEDS_TORCH[1]
def test_shares_of_a_real_trace_are_those_of_key_averages(tmp_path):
    path = tmp_path / "real.json"
    done = subprocess.run(
        [PYTHON, "-c", TRAINING, str(path)], capture_output=True, text=True, check=True
    )
    averages = {name: own for name, (_, own) in json.loads(done.stdout).items()}
    counts = {name: count for name, (count, _) in json.loads(done.stdout).items()}
    found = {each.name: each for each in read(path).operators if each.category == "CPU operators"}
    whole, ours = sum(averages.values()), sum(each.cost_us for each in found.values())

    assert len(found) > 20
    for name, each in found.items():
        assert each.count == counts[name]
        assert each.cost_us / ours == pytest.approx(averages[name] / whole, abs=0.01)
