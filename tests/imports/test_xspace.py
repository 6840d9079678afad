"""XSpace files of TensorFlow's and JAX' profilers: GPUs, threads, steps, and damage."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from advisor.importers.recording import NotImportableError, Samples, Steps
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts
from advisor.importers.tally import Tally
from advisor.importers.xspace import XSpaceRecording, open_recording
from advisor.offline.importing import import_path
from tests.imports.messages import START, field
from tests.imports.reported import reported

Event = tuple[str, float, float]
"""Name, start and length in ms."""


class Plane:
    """A plane, written in the documented schema."""

    def __init__(self, name: str) -> None:
        self._body, self._names = field(2, name), dict[str, int]()

    def line(self, name: str, *events: Event, base: float = START, step: str = "") -> Plane:
        """Add a line. `step`: the name of events that are steps."""
        body = field(2, name) + field(3, round(base * 1e9))
        for number, (called, start, length) in enumerate(events):
            stat = field(4, field(1, 9) + field(4, number)) if called == step else b""
            body += field(
                4,
                field(1, self._number(called))
                + field(2, round(start * 1e9))
                + field(3, round(length * 1e9))
                + stat,
            )
        self._body += field(3, body)
        return self

    def message(self) -> bytes:
        names = b"".join(
            field(4, field(1, number) + field(2, field(1, number) + field(2, name)))
            for name, number in self._names.items()
        )
        marks = field(5, field(1, 9) + field(2, field(1, 9) + field(2, "step_num")))
        return field(1, self._body + names + marks)

    def _number(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names) + 1)


def written(folder: Path, *planes: Plane, host: str = "node-1") -> Path:
    path = folder / f"{host}.xplane.pb"
    path.write_bytes(b"".join(plane.message() for plane in planes))
    return path


def gpu(number: int = 0) -> Plane:
    return Plane(f"/device:GPU:{number}")


def threads(*events: Event) -> Plane:
    return Plane("/host:CPU").line("main", *events, step="train")


def read(path: Path, tally: Tally | None = None, **stated: datetime) -> XSpaceRecording:
    return open_recording(Source.from_path(path), StatedFacts(**stated), tally or Tally())  # type: ignore[arg-type]


def test_kernels_copies_threads_and_steps_are_told_apart(tmp_path):
    host = threads(("train", 0, 100), ("train", 100, 199), ("Run", 0, 80), ("MatMul", 10, 30))
    device = gpu().line("Stream #14(Compute)", ("gemm", 0, 50), ("ncclAllReduce", 50, 20))
    device.line("Stream #15(MemcpyH2D)", ("MemcpyH2D", 60, 30)).line("XLA Ops", ("gemm", 0, 50))
    tally = Tally()
    recording = read(written(tmp_path, host, device, Plane("/host:metadata")), tally)
    found = {each.name: (each.category, each.total_us, each.own_us) for each in recording.operators}
    (samples,) = [p for p in recording.parts(recording.nodes[0]) if isinstance(p, Samples)]
    (steps,) = [p for p in recording.parts(recording.nodes[0]) if isinstance(p, Steps)]

    assert found == {
        "Run": ("CPU operators", 80_000, 50_000),
        "MatMul": ("CPU operators", 30_000, 30_000),
        "gemm": ("GPU kernels", 50_000, None),
        "ncclAllReduce": ("communication", 20_000, None),
        "MemcpyH2D": ("GPU copies", 30_000, None),
    }
    assert samples.columns["gpu0.busy_pct"].tolist() == [90, 0, 0]
    assert (steps.start_us - START * 10**6).tolist() == [0, 100_000]
    assert steps.duration_us.tolist() == [100_000, 199_000]
    assert tally.records["operations"] == 7
    run = import_path(tmp_path, StatedFacts())
    assert (run.imported.format, run.imported.nodes[0].declaration.node.hostname) == (
        "TensorFlow or JAX profiler",
        "node-1",
    )


def test_each_host_is_a_machine(tmp_path):
    for host in ("b", "a"):
        written(tmp_path, gpu(1).line("Stream #1", ("k", 0, 300)), host=host)
    recording = read(tmp_path)
    assert [(node.name, node.gpus) for node in recording.nodes] == [("a", 2), ("b", 2)]


def test_a_clock_of_its_own_begins_when_it_was_imported(tmp_path):
    at = datetime(2026, 5, 4, tzinfo=UTC)
    plane = Plane("/host:CPU").line("main", ("Run", 5, 300), base=0.0)
    tally = Tally()
    recording = read(written(tmp_path, plane), tally, imported_at=at)
    assert recording.nodes[0].started_ms == at.timestamp() * 1000
    assert any("no time of day" in note for note in tally.notes)


def test_times_since_the_profile_began_are_placed_by_its_environment(tmp_path):
    environment = Plane("Task Environment")
    environment._body += field(6, field(1, 3) + field(3, START * 10**9))
    environment._body += field(5, field(1, 3) + field(2, field(2, "profile_start_time")))
    plane = Plane("/host:CPU").line("main", ("Run", 5, 300), base=0.0)
    recording = read(written(tmp_path, plane, environment))
    assert recording.nodes[0].started_ms == START * 1000 + 5


def test_a_truncated_file_keeps_its_whole_planes(tmp_path):
    path = written(tmp_path, threads(("Run", 0, 10)), threads(("Lost", 0, 10)))
    path.write_bytes(path.read_bytes()[:-5])
    tally = Tally()
    assert [each.name for each in read(path, tally).operators] == ["Run"]
    assert [each.count for each in tally.skipped.values()] == [1]


def test_broken_events_lose_only_themselves_and_a_broken_line_itself(tmp_path):
    host = threads(("good", 0, 10), ("bad", 0, -5)).line("other", ("late", 0, 1), base=4.1e9)
    damaged = Plane("/host:CPU")
    damaged._body += field(3, field(2, "x") + b"\xff\xff")
    tally = Tally()
    assert [each.name for each in read(written(tmp_path, host, damaged), tally).operators] == [
        "good"
    ]
    assert {each.what: each.count for each in tally.skipped.values()} == {"records": 2, "lines": 1}


@pytest.mark.parametrize("body", [b"", b"\xff" * 30, field(1, field(2, "/host:CPU"))])
def test_a_file_without_an_operation_is_refused(body, tmp_path):
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(body)
    with pytest.raises(NotImportableError):
        read(path)


def tpu(number: int = 0) -> Plane:
    return Plane(f"/device:TPU:{number}")


def test_the_operations_of_a_tpu_are_its_account(tmp_path):
    device = tpu().line("XLA Modules", ("jit_step", 0, 400), ("jit_step", 600, 400))
    device.line(
        "XLA Ops",
        ("%while.3 = (s32[]) while(...)", 0, 400),
        ("%fusion.12 = f32[8,8] fusion(%p0), kind=kLoop", 100, 200),
        ("%all-reduce.1 = f32[8] all-reduce(%fusion.12)", 600, 400),
    )
    device.line("Steps", ("0", 0, 400), ("1", 600, 400)).line("Async XLA Ops", ("copy", 0, 1000))
    idle = tpu(1).line("XLA Ops", ("%fusion.12 = f32[8,8] fusion(%p0)", 0, 200))
    tally = Tally()
    recording = read(written(tmp_path, device, idle), tally)
    samples, steps = list(recording.parts(recording.nodes[0]))[1:]

    assert isinstance(samples, Samples)
    assert isinstance(steps, Steps)
    assert samples.columns["tpu0.busy_pct"].tolist() == [100] * 4 + [0] * 2 + [100] * 4
    assert samples.columns["tpu1.busy_pct"].tolist() == [100] * 2 + [0] * 8
    assert steps.duration_us.tolist() == [400_000, 400_000]
    assert {(each.name, each.category, each.own_us) for each in recording.operators} == {
        ("while", "TPU operations", 200_000),
        ("fusion", "TPU operations", 400_000),
        ("all-reduce", "communication", 400_000),
    }
    assert recording.nodes[0].gpus == 0
    assert any("2 TPUs, busy for 50% of the 1 s" in note for note in tally.notes)


def test_a_file_that_was_saved_as_text_says_so(tmp_path):
    path = written(tmp_path, tpu().line("XLA Ops", *[("fusion", n / 9, 0.1) for n in range(9)]))
    path.write_bytes(path.read_bytes().decode(errors="replace").encode())
    with pytest.raises(NotImportableError, match=r"saved as text.*as a binary file"):
        read(path)


def test_the_reported_profile_of_a_tpu_is_told_to_be_a_damaged_copy():
    path = reported("xspace/tpu_inference_2.xplane.pb")
    with pytest.raises(NotImportableError, match="saved as text"):
        read(path)
