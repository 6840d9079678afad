"""The marks that tell one checkpoint file from another."""

from __future__ import annotations

import io
import os
import time
from pathlib import Path
from uuid import uuid4

import pytest
from trimtab.hooks.checkpoint_files import CheckpointFiles, fingerprint
from trimtab.ring import NOT_KNOWN

SIZES = [0, 1, 139_263, 139_264, 139_265, 5_000_000]


@pytest.mark.parametrize("size", SIZES)
def test_a_file_is_known_again_wherever_and_however_it_is_read(size: int, tmp_path: Path) -> None:
    content = os.urandom(size)
    path, copy = tmp_path / "model.pt", tmp_path / str(uuid4())
    path.write_bytes(content)
    copy.write_bytes(content)
    known = fingerprint(str(path))
    assert known[1] == size
    assert 0 <= known[0] < 2**63
    with copy.open("rb") as file, copy.open("ab") as written:
        file.seek(size // 2)
        places = [copy, file, written, io.BytesIO(content)]
        assert [fingerprint(each) for each in places] == [known] * 4
        assert file.tell() == size // 2


@pytest.mark.parametrize("at", [0, 15_000, 2_466_000, 4_999_999])
def test_another_step_is_another_checkpoint(at: int) -> None:
    """Head, end and blocks in between are compared, and the size."""
    before = bytes(5_000_000)
    changed = before[:at] + b"\x01" * 400_000 + before[at + 400_000 :]
    assert fingerprint(io.BytesIO(changed[:5_000_000])) != fingerprint(io.BytesIO(before))
    assert fingerprint(io.BytesIO(before[:-1])) != fingerprint(io.BytesIO(before))


def test_what_is_no_file_has_no_fingerprint(tmp_path: Path) -> None:
    """A pipe that nobody writes to isn't waited for."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    began = time.monotonic()
    for each in (pipe, tmp_path, tmp_path / "none.pt", "s3://bucket/model.pt", None, 7.5, object()):
        assert fingerprint(each) == (NOT_KNOWN, NOT_KNOWN)
    assert time.monotonic() - began < 1


class FarAway(io.BytesIO):
    """A file that answers slowly."""

    reads = 0

    def getbuffer(self) -> memoryview:
        FarAway.reads += 1
        time.sleep(0.15)
        return super().getbuffer()


class Told:
    rank = 0

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def checkpoint_file(self, at_ns: int, known: int, size: int, is_loaded: bool) -> None:
        self.sizes.append(size)


def test_after_a_slow_file_none_is_read() -> None:
    """Reading is on the training's time."""
    files, told = CheckpointFiles(), Told()
    for size in (10, 20, 30):
        files.record_save(told, FarAway(bytes(size)))
    files.record_save(told, io.BytesIO(bytes(40)))
    assert (told.sizes, FarAway.reads) == ([10], 1)
