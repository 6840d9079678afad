"""The disk that loses power and the clock that jumps do what the schedules need of them."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from tests.faults.clock import own_clock
from tests.faults.disk import small_disk


def test_only_what_was_flushed_survives_a_loss_of_power(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        if disk is None:
            pytest.skip("needs root, to mount a disk")
        with (disk.folder / "flushed").open("wb") as file:
            file.write(b"kept")
            file.flush()
            os.fsync(file.fileno())
        with (disk.folder / "flushed").open("ab") as file:
            file.write(b", and lost")
        (disk.folder / "unflushed").write_bytes(b"lost")
        disk.lose_power()
        with pytest.raises(OSError, match="Input/output error"):
            (disk.folder / "later").touch()
        disk.power_up()
        left = {path.name: path.read_bytes() for path in disk.folder.iterdir()}
    assert left["flushed"] == b"kept"
    assert left.get("unflushed", b"") == b""
    assert "later" not in left


def test_a_moved_clock_is_seen_by_processes_that_run_already(tmp_path):
    clock = own_clock(tmp_path / "clock")
    if clock is None:
        pytest.skip("needs a C compiler")
    script = "import time\nwhile input():\n print(time.time(), time.monotonic(), flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", script],
        env=os.environ | clock.variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:

        def read() -> tuple[float, float]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("now\n")
            process.stdin.flush()
            of_day, monotonic = map(float, process.stdout.readline().split())
            return of_day - time.time(), monotonic - time.monotonic()

        assert read() == pytest.approx((0, 0), abs=60)
        with clock.moved(-3600):
            assert read() == pytest.approx((-3600, 0), abs=60)
        assert read() == pytest.approx((0, 0), abs=60)
        process.kill()
