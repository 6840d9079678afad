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

import pickle
import resource
import sys
import time
from datetime import timedelta
from pathlib import Path

from advisor.store.folder import FolderStore
from advisor.store.frames import load_frame
from bench import rules_trace as trace
from bench.figures import note
from bench.smdebug import ReadCost, command, peer_python, print_cost, read, run_command
from rules.engine import evaluate
from rules.ledger import ledger

LONG, SPEED_RATIO, MEMORY_SHARE, GROWTH = 20, 20.0, 0.2, 22.0


def measure(folder: Path, folds: int) -> ReadCost:
    """Read the stored run into a frame in this process, run every rule, and build the ledger."""
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
    return ReadCost(trace.records(folds), seconds, peak, ledger_seconds)


def _resolution(folds: int) -> float:
    """Return the resolution at which the service reads a run of that length: at most 10,000
    rows.
    """
    return next(float(r) for r in (1, 2, 5, 10, 30) if r >= folds * trace.FOLD_SECONDS / 10_000)


def measure_ours(folds: int, folder: Path) -> ReadCost:
    """Return the best of three processes, because other load only adds time."""
    folder.mkdir()
    (folder / "node").write_bytes(pickle.dumps(trace.store_trace(folder, folds)))
    words = [sys.executable, "-m", "bench.rules", "--measure", str(folder), str(folds)]
    return min((run_command(words) for _ in range(3)), key=lambda took: took.seconds)


def broken_promises(short: ReadCost, long: ReadCost, peer: ReadCost | None) -> list[str]:
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


def compare(given: Path | None, folder: Path) -> list[str]:
    """Print all figures. Returns the broken promises."""
    short, long = measure_ours(1, folder / "short"), measure_ours(LONG, folder / "long")
    print_cost("ours, 80 min", short)
    print_cost("ours, 27 h", long)
    print(f"{LONG} times the data: {long.seconds / short.seconds:.1f} times as long")
    print(f"the ledger besides: {short.part_seconds:.2f} and {long.part_seconds:.2f} CPU s")
    python = peer_python(given, folder / "venv")
    peer = None
    if python is not None:
        trace.sagemaker(folder / "sagemaker", LONG)
        peer = read(python, folder / "sagemaker")
        print_cost("smdebug reads, 27 h", peer)
        ratio = long.records_per_second / peer.records_per_second
        print(f"{ratio:.1f} x its speed, {long.peak_bytes / peer.peak_bytes:.2f} of its memory")
    _note(short, long, peer)
    return broken_promises(short, long, peer)


def _note(short: ReadCost, long: ReadCost, peer: ReadCost | None) -> None:
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


if __name__ == "__main__":
    sys.exit(command(__doc__ or "", measure, compare))
