"""smdebug's own readers, in an environment of their own, on the files of SageMaker's profiler."""

from __future__ import annotations

import json
import subprocess
import venv
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
class Took:
    records: int
    seconds: float
    """Of CPU."""
    peak_bytes: int
    part_seconds: float = 0.0
    """Of CPU, of a part that the benchmark names."""

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds


def read(python: Path, folder: Path) -> Took:
    """What smdebug takes to read a folder of SageMaker's profiler."""
    return said([str(python), "-c", PEER, str(folder)])


def said(words: list[str]) -> Took:
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, timeout=900)
    return Took(**json.loads(done.stdout.splitlines()[-1]))


def peer_python(given: Path | None, folder: Path) -> Path | None:
    """None: it can't be installed here; the reason is printed."""
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


def shown(name: str, took: Took) -> None:
    print(
        f"{name:24} {took.records:9,} records {took.seconds:8.2f} CPU s "
        f"{took.records_per_second:12,.0f} records/s {took.peak_bytes / 1e6:7.0f} MB"
    )
