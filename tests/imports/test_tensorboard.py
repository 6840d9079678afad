"""TensorBoard's event files: scalars of both kinds, parameters, folders, checksums and damage."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from advisor.importers.recording import Happening, NotImportableError
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts
from advisor.importers.tally import Tally
from advisor.importers.tensorboard import TensorBoardRecording, open_recording
from advisor.importers.tensorboard.records import crc32c
from advisor.offline.importing import import_path
from tests.imports.messages import (
    START,
    event_file,
    field,
    scalar,
    session,
    tf_record,
    varint,
)

WRITTEN = {
    "tensorboardX 2.6": (
        "1e00000000000000d9dc1232090a460f6a37c1da412a130a110a0a747261696e2f6c6f7373150000803fbe74"
        "d23c",
        ("train/loss", 1.0, 0),
    ),
    "tensorboard 2.21, a tensor": (
        "34000000000000005e33175c09a0ad126a37c1da4110012a270a250a0a65706f63685f6c6f7373420a080112"
        "002a040000003f4a0b0a090a077363616c617273d927eab9",
        ("epoch_loss", 0.5, 1),
    ),
}
"""Records of events as real writers made them."""


def read(path: Path, tally: Tally | None = None) -> TensorBoardRecording:
    return open_recording(Source.from_path(path), StatedFacts(), tally or Tally())


def metrics(recording: TensorBoardRecording) -> list[tuple[float, str, float, int]]:
    parts = [p for p in recording.parts(recording.nodes[0]) if isinstance(p, Happening)]
    return [
        (p.time_ms / 1000 - START, p.data["name"], p.data["value"], p.data["step"]) for p in parts
    ]


def test_the_checksum_is_that_of_rfc_3720():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA


@pytest.mark.parametrize("writer", WRITTEN)
def test_what_a_real_writer_wrote_is_read(writer, tmp_path):
    record, expected = WRITTEN[writer]
    path = event_file(tmp_path)
    path.write_bytes(path.read_bytes() + bytes.fromhex(record))
    ((_, *found),) = metrics(read(path))
    assert tuple(found) == expected


def test_scalars_become_metrics_with_their_times_and_steps(tmp_path):
    events = [scalar("loss", 1 / 2**n, 10 * n, 1.5 * n, is_tensor=n > 1) for n in range(4)]
    tally = Tally()
    recording = read(event_file(tmp_path, *events), tally)

    assert metrics(recording) == [(1.5 * n, "loss", 1 / 2**n, 10 * n) for n in range(4)]
    assert recording.nodes[0].name == "node-1"
    assert recording.nodes[0].started_ms == START * 1000
    assert dict(tally.records) == {"metrics": 4}
    assert not tally.skipped
    assert any("no training steps" in note for note in tally.notes)


@pytest.mark.parametrize("dtype", [14, 19])
@pytest.mark.parametrize("as_content", [True, False])
def test_numbers_of_two_bytes_are_scalars_too(dtype, as_content, tmp_path):
    """A half (19) begins with five bits of exponent, a bfloat16 (14) is half of a float."""
    body = struct.pack("<e", 0.375) if dtype == 19 else struct.pack("<f", 0.375)[2:]
    values = field(4, body) if as_content else field(13, varint(int.from_bytes(body, "little")))
    tensor = field(8, field(1, dtype) + field(2, b"") + values)
    marked = tensor + field(9, field(1, field(1, "scalars")))
    summary = field(1, field(1, "loss") + marked)
    event = tf_record(field(1, float(START)) + field(2, 7) + field(5, summary))

    tally = Tally()

    assert metrics(read(event_file(tmp_path, event), tally)) == [(0.0, "loss", 0.375, 7)]
    assert not tally.skipped


def test_parameters_and_the_end_are_those_of_the_plugin(tmp_path):
    event_file(tmp_path, scalar("loss", 1, 0, 0), scalar("loss", 0.5, 1, 60))
    said = {"lr": 0.125, "layers": 3, "optimizer": "adam", "amp": True}
    event_file(tmp_path / "1700000000.5", session(said), session({}, status=2))
    run = import_path(tmp_path, StatedFacts())

    assert run.imported.format == "TensorBoard"
    assert run.imported.nodes[0].declaration.parameters == said
    assert run.imported.state == "failed"
    assert run.timeline.duration_seconds == 60


def test_folders_of_the_same_time_are_one_training(tmp_path):
    event_file(tmp_path / "train", scalar("loss", 3, 0, 0), scalar("loss", 2, 1, 100))
    event_file(tmp_path / "validation", scalar("loss", 4, 1, 100))
    event_file(tmp_path / "earlier", scalar("loss", 9, 1, -900_000))
    tally = Tally()
    found = metrics(read(tmp_path, tally))

    assert [(name, value) for _, name, value, _ in found] == [
        ("train/loss", 3),
        ("train/loss", 2),
        ("validation/loss", 4),
    ]
    assert [(each.what, each.count) for each in tally.skipped.values()] == [("files", 1)]


def test_a_record_of_a_wrong_checksum_loses_only_itself(tmp_path):
    events = [scalar("loss", n, n, n) for n in range(5)]
    events[2] = events[2][:-6] + b"\xff" + events[2][-5:]
    tally = Tally()
    found = metrics(read(event_file(tmp_path, *events), tally))

    assert [step for *_, step in found] == [0, 1, 3, 4]
    assert {each.why: each.count for each in tally.skipped.values()} == {"a wrong checksum": 1}


def test_a_wrong_length_ends_its_file_and_a_tail_is_cut_off(tmp_path):
    events = [scalar("loss", n, n, n) for n in range(5)]
    event_file(tmp_path / "a", *events[:3], b"\xff" + events[3][1:], events[4])
    cut = event_file(tmp_path / "b", *events)
    cut.write_bytes(cut.read_bytes()[:-9])
    tally = Tally()

    assert len(metrics(read(tmp_path, tally))) == 3 + 4
    assert {each.what: each.why for each in tally.skipped.values()} == {
        "files": "damaged: the rest of it can't be read",
        "records": "cut off at the end of its file",
    }


def test_images_and_other_content_are_passed_over(tmp_path):
    image = field(1, field(1, "image") + field(4, b"\x89PNG" * 40_000))
    histogram = field(1, field(1, "weights") + field(5, b"\x08\x01"))
    text = field(1, field(1, "text") + field(8, field(1, 7)) + field(9, field(1, field(1, "text"))))
    content = [
        tf_record(field(1, START + 1.0) + field(5, each)) for each in (image, histogram, text)
    ]
    tally = Tally()
    found = metrics(read(event_file(tmp_path, *content, scalar("loss", 1, 1, 1)), tally))

    assert [name for _, name, *_ in found] == ["loss"]
    assert [each.count for each in tally.skipped.values()] == [1]


@pytest.mark.parametrize(
    "event",
    [b"", field(2, 1), tf_record(b"\xff" * 20), scalar("loss", 1, 1, 1e12),
     struct.pack("<Q", 2**62) + bytes(8)],
)  # fmt: skip
def test_files_without_a_scalar_are_refused(event, tmp_path):
    with pytest.raises(NotImportableError):
        read(event_file(tmp_path, event))
