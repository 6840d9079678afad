"""The benchmarks that use the service's own code still run, at their smallest."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.running_service import CHECKOUT


@pytest.mark.parametrize(
    "bench",
    [("history", "--runs", "30"), ("ladder", "--histories", "10")],
    ids=lambda bench: bench[0],
)
def test_a_benchmark_runs(bench: tuple[str, ...]) -> None:
    name, *options = bench
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{name}", *options],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) > 5
