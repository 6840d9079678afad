"""The benchmarks that use the service's own code still run, at their smallest."""

from __future__ import annotations

import csv
import math
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

import pytest

from bench.promises import PROMISES
from tests.agent.torch_python import NEEDS_TORCH
from tests.running_service import CHECKOUT

FIXTURES = Path(os.environ.get("TRIMTAB_FIXTURES", CHECKOUT.parent / "shared" / "fixtures"))
MEASUREMENTS = FIXTURES / "speed"


@pytest.mark.parametrize(
    "bench",
    [
        ("history", "--runs", "30"),
        ("ladder", "--histories", "10"),
        ("savings", "--jobs", "4"),
        pytest.param(
            ("fleet", "--nodes", "4", "--seconds", "14", "--outage", "2", "--no-peer"),
            marks=pytest.mark.long,
        ),
        pytest.param(("start", "--seconds", "0"), marks=pytest.mark.long),
        pytest.param(("neighbours", "--only", "asleep", "GAN"), marks=pytest.mark.long),
        pytest.param(("hook_overhead", "--pairs", "3"), marks=NEEDS_TORCH),
        pytest.param(
            ("advice", "--quick"),
            marks=[
                pytest.mark.long,
                pytest.mark.fixtures,
                pytest.mark.skipif(not MEASUREMENTS.exists(), reason=f"no {MEASUREMENTS}"),
            ],
        ),
    ],
    ids=lambda bench: bench[0],
)
def test_a_benchmark_runs(bench: tuple[str, ...]) -> None:
    name, *options = bench
    done = run(name, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) >= 5


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.timeout(900)
@pytest.mark.parametrize("bench", [("kills", "--kills", "2"), ("backups", "--nodes", "8")])
def test_a_part_of_trust_finds_nothing(bench: tuple[str, ...]) -> None:
    name, *options = bench
    done = run(name, *options, "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 lost, 0 doubled, 0 of" in done.stdout


@pytest.mark.parametrize("bench", sorted({each.bench for each in PROMISES if each.bench}))
def test_a_benchmark_can_be_started_from_a_shell(bench: str) -> None:
    """Nobody has named Django's settings there."""
    variables = {n: v for n, v in os.environ.items() if n != "DJANGO_SETTINGS_MODULE"}
    command = [sys.executable, "-m", f"bench.{bench}", "--help"]
    done = subprocess.run(command, cwd=CHECKOUT, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_benchmark_of_cores_finds_known_speeds_and_sees_wrong_ones(tmp_path: Path) -> None:
    """Throughput as a constant of the family times a power of the cores is predicted well; figures
    without any order break the promise."""
    write_cpu_facts(tmp_path, noise=0.05)
    done = run("cpu_speed", "--facts", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    everything = next(line for line in done.stdout.splitlines() if line.lstrip().startswith("all"))
    error, naive = (float(part.rstrip("%")) for part in everything.split() if part.endswith("%"))
    assert error < 8 < naive
    write_cpu_facts(tmp_path, noise=2.0)
    assert run("cpu_speed", "--facts", str(tmp_path), "--check").returncode == 1


def write_cpu_facts(folder: Path, noise: float) -> None:
    random = Random(1)
    speeds = {f: 1 + 0.3 * place for place, f in enumerate(("m5", "c5", "m6i", "c6i", "m7i"))}
    threads, tokens = [], []
    for family, speed in speeds.items():
        for size, vcpus in (("large", 2), ("xlarge", 4), ("2xlarge", 8), ("4xlarge", 16)):
            threads.append((f"{family}.{size}", vcpus, 1000 * speed, 2000 * speed))
            per_second = speed * vcpus**0.7 * math.exp(random.gauss(0, noise))
            tokens += [(f"{family}.{size}", "a.gguf", prompt, per_second) for prompt in (1, 2)]
    head = ("instance_type", "vcpus", "geekbench_single", "passmark_single")
    write(folder / "cpu_speed.csv", [head, *threads])
    head = ("instance_type", "model", "n_prompt", "tok_s")
    write(folder / "cpu_llm.csv", [head, *tokens])


def write(path: Path, lines: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(lines)


def run(name: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", f"bench.{name}", *options],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
