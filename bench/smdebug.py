"""smdebug's own readers, in an environment of their own, on the files of SageMaker's profiler."""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PEER_PACKAGES = ("smdebug==1.0.34", "pandas", "requests", "psutil")
"""smdebug imports the other three, but its wheel doesn't declare them."""
PEER = """
import json, logging, resource, sys, time
logging.disable(logging.CRITICAL)
from smdebug.profiler.analysis.utils.profiler_data_to_pandas import PandasFrame
began = time.process_time()
frame = PandasFrame(sys.argv[1])
count = len(frame.get_all_system_metrics()) + len(frame.get_all_framework_metrics())
seconds = time.process_time() - began
peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"records": count, "seconds": seconds, "peak_bytes": peak}))
"""


@dataclass(frozen=True)
class ReadCost:
    records: int
    seconds: float
    """The CPU seconds."""
    peak_bytes: int
    part_seconds: float = 0.0
    """The CPU seconds of a part that the benchmark names."""

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds


def read(python: Path, folder: Path) -> ReadCost:
    """Measure what smdebug takes to read a folder of SageMaker's profiler."""
    return run_command([str(python), "-c", PEER, str(folder)])


def run_command(words: list[str]) -> ReadCost:
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, timeout=900)
    return ReadCost(**json.loads(done.stdout.splitlines()[-1]))


def peer_python(given: Path | None, folder: Path) -> Path | None:
    """Return the Python with smdebug; None if it can't be installed here: the reason is printed."""
    if given is not None:
        return given
    python = folder / "bin" / "python"
    venv.create(folder, with_pip=True)
    words = [str(python), "-m", "pip", "install", "--quiet", *PEER_PACKAGES]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=600)
    if done.returncode:
        print(f"smdebug is left out, it doesn't install here: {done.stderr.strip()[-300:]}")
        return None
    return python


def print_cost(name: str, took: ReadCost) -> None:
    print(
        f"{name:24} {took.records:9,} records {took.seconds:8.2f} CPU s "
        f"{took.records_per_second:12,.0f} records/s {took.peak_bytes / 1e6:7.0f} MB"
    )


def command(
    description: str,
    measure: Callable[[Path, int], ReadCost],
    compare: Callable[[Path | None, Path], list[str]],
) -> int:
    """Run a benchmark beside smdebug, and return its exit code.

    Args:
        measure: measures ours, in a process of its own, on a folder of so many folds.
        compare: prints all figures and returns the broken promises, given the peer's python, if
            there is one, and a folder for files.
    """
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="fail where a promise is broken")
    parser.add_argument("--peer", type=Path, help="python of an environment with smdebug")
    parser.add_argument("--measure", nargs=2, metavar=("FOLDER", "FOLDS"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        print(json.dumps(vars(measure(Path(chosen.measure[0]), int(chosen.measure[1])))))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        broken = compare(chosen.peer, Path(folder))
    for promise in broken:
        print(f"broken: {promise}")
    return int(chosen.check and bool(broken))
