"""All rules on long runs, from the stored form, compared with smdebug reading the same data.

    python -m bench.rules                         prints the figures
    python -m bench.rules --check                 exits with 1 if a promise is broken
    python -m bench.rules --peer ~/smdebug/bin/python
                                                  an environment that has smdebug 1.0.34 and pandas

Without `--peer` such an environment is created in a temporary folder. If that fails, smdebug is
skipped with a message, and `--check` fails. CPU seconds and peak memory are those of separate
processes. For both, imports count in the memory but not in the seconds.
"""

from __future__ import annotations

import argparse
import json
import pickle
import resource
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from advisor.store.folder import FolderStore
from advisor.store.frames import load_frame
from bench import rules_trace as trace
from bench.figures import note
from rules.engine import evaluate
from rules.ledger import ledger

LONG, SPEED_RATIO, MEMORY_SHARE, GROWTH = 20, 20.0, 0.2, 22.0
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
    ledger_seconds: float = 0.0
    """Of CPU, besides."""

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds


def measure(folder: Path, folds: int) -> Took:
    """In this process: read the stored run into a frame, run every rule, and build the ledger."""
    node = pickle.loads((folder / "node").read_bytes())  # noqa: S301 - written by this program
    end = trace.START + timedelta(seconds=folds * trace.FOLD_SECONDS)
    began = time.process_time()
    store = FolderStore(str(folder))
    frame, unreadable = load_frame(store, [node], trace.START, end, _resolution(folds), True)
    judged = evaluate(frame, {})
    seconds = time.process_time() - began
    spent = ledger(frame)
    ledger_seconds = time.process_time() - began - seconds
    assert not unreadable
    assert not any("The rule failed" in j.verdict.summary for j in judged)
    assert spent.entries
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Took(trace.records(folds), seconds, peak, ledger_seconds)


def _resolution(folds: int) -> float:
    """As the service reads a run of that length: at most 10,000 rows."""
    return next(float(r) for r in (1, 2, 5, 10, 30) if r >= folds * trace.FOLD_SECONDS / 10_000)


def ours(folds: int, folder: Path) -> Took:
    """The best of three processes, because other load only adds time."""
    folder.mkdir()
    (folder / "node").write_bytes(pickle.dumps(trace.stored(folder, folds)))
    words = [sys.executable, "-m", "bench.rules", "--measure", str(folder), str(folds)]
    return min((_said(words) for _ in range(3)), key=lambda took: took.seconds)


def peers(python: Path, folds: int, folder: Path) -> Took:
    trace.sagemaker(folder, folds)
    return _said([str(python), "-c", PEER, str(folder)])


def _said(words: list[str]) -> Took:
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


def broken_promises(short: Took, long: Took, peer: Took | None) -> list[str]:
    growth = long.seconds / short.seconds
    broken = []
    if growth > GROWTH:
        broken.append(f"{LONG} times the data takes {growth:.1f} times as long, over {GROWTH}")
    if peer is None:
        return [*broken, "not compared with smdebug"]
    ratio = long.records_per_second / peer.records_per_second
    if ratio < SPEED_RATIO:
        broken.append(f"{ratio:.1f} times smdebug's records a second, under {SPEED_RATIO}")
    share = long.peak_bytes / peer.peak_bytes
    if share > MEMORY_SHARE:
        broken.append(f"{share:.2f} of smdebug's memory, over {MEMORY_SHARE}")
    return broken


def _print(name: str, took: Took) -> None:
    print(
        f"{name:24} {took.records:9,} records {took.seconds:8.2f} CPU s "
        f"{took.records_per_second:12,.0f} records/s {took.peak_bytes / 1e6:7.0f} MB"
    )


def compare(given: Path | None, folder: Path) -> list[str]:
    """Print all figures. Returns the broken promises."""
    short, long = ours(1, folder / "short"), ours(LONG, folder / "long")
    _print("ours, 80 min", short)
    _print("ours, 27 h", long)
    print(f"{LONG} times the data: {long.seconds / short.seconds:.1f} times as long")
    print(f"the ledger besides: {short.ledger_seconds:.2f} and {long.ledger_seconds:.2f} CPU s")
    python = peer_python(given, folder / "venv")
    peer = None if python is None else peers(python, LONG, folder / "sagemaker")
    if peer is not None:
        _print("smdebug reads, 27 h", peer)
        ratio = long.records_per_second / peer.records_per_second
        print(f"{ratio:.1f} x its speed, {long.peak_bytes / peer.peak_bytes:.2f} of its memory")
    _note(short, long, peer)
    return broken_promises(short, long, peer)


def _note(short: Took, long: Took, peer: Took | None) -> None:
    growth = long.seconds / short.seconds
    note("rules_growth", f"{growth:.1f} times", growth <= GROWTH)
    if peer is None:
        return
    ratio = long.records_per_second / peer.records_per_second
    speed = f"smdebug {peer.records_per_second:,.0f} records/s"
    share = long.peak_bytes / peer.peak_bytes
    memory = f"smdebug {peer.peak_bytes / 1e6:,.0f} MB"
    note("rules_speed", f"{ratio:.1f} times", ratio >= SPEED_RATIO, speed)
    note("rules_memory", f"{share:.2f} of it", share <= MEMORY_SHARE, memory)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
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


if __name__ == "__main__":
    sys.exit(main())
