"""A SageMaker job of 27 hours from its raw files to all verdicts, beside smdebug that reads it.

    python -m bench.imports                       prints the figures
    python -m bench.imports --check               exits with 1 if a promise is broken
    python -m bench.imports --peer ~/smdebug/bin/python
                                                  an environment that has smdebug 1.0.34 and pandas

1.36 million records in 3,200 files of JSON, which `bench.rules_trace` makes. Ours imports them,
prices the run and judges every rule, as `python -m advisor import` does; smdebug only reads them.
CPU seconds and peak memory are those of separate processes, one after the other. For both,
imports count in the memory but not in the seconds. Without `--peer` smdebug is installed into a
temporary folder; if that fails, it is skipped with a message, and `--check` fails.
"""

from __future__ import annotations

import resource
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from advisor.importers.stated_facts import StatedFacts
from advisor.offline.analysis import report_of
from advisor.offline.importing import import_path
from advisor.sizing.demand import BALANCED
from bench import rules_trace as trace
from bench.figures import note
from bench.smdebug import ReadCost, command, peer_python, print_cost, read, run_command

FOLDS, SPEED_RATIO, MOST_BYTES = 20, 6.0, 600_000_000
STATED = StatedFacts(
    provider="aws",
    service="sagemaker_training",
    region="us-east-1",
    instance_type="ml.p3.2xlarge",
    purchase_option="on_demand",
)


def measure(folder: Path, folds: int) -> ReadCost:
    """Import the folder in this process, and judge the run."""
    began = time.process_time()
    imported = import_path(folder, STATED)
    seconds = time.process_time() - began
    report = report_of(imported.run, imported.timeline, BALANCED, datetime.now(UTC))
    judging = time.process_time() - began - seconds
    taken = imported.imported.tally.records
    assert taken["samples"] + taken["steps"] == trace.records(folds), taken
    assert not imported.imported.tally.skipped
    assert len(report.judgements) > 20
    assert not any("The rule failed" in j.verdict.summary for j in report.judgements)
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return ReadCost(trace.records(folds), seconds + judging, peak, judging)


def measure_ours(folder: Path, folds: int) -> ReadCost:
    """Return the best of three processes, because other load only adds time."""
    words = [sys.executable, "-m", "bench.imports", "--measure", str(folder), str(folds)]
    return min((run_command(words) for _ in range(3)), key=lambda took: took.seconds)


def compare(given: Path | None, folder: Path) -> list[str]:
    """Print all figures. Returns the broken promises."""
    trace.sagemaker(folder / "job", FOLDS)
    own = measure_ours(folder / "job", FOLDS)
    print_cost("ours, to verdicts", own)
    print(f"of which the rules, cost and advice: {own.part_seconds:.2f} CPU s")
    note("imports_memory", f"{own.peak_bytes / 1e6:.0f} MB", own.peak_bytes <= MOST_BYTES)
    broken = []
    if own.peak_bytes > MOST_BYTES:
        broken.append(f"{own.peak_bytes / 1e6:.0f} MB, over {MOST_BYTES / 1e6:.0f}")
    python = peer_python(given, folder / "venv")
    if python is None:
        return [*broken, "not compared with smdebug"]
    peer = read(python, folder / "job")
    print_cost("smdebug reads", peer)
    ratio = own.records_per_second / peer.records_per_second
    print(f"{ratio:.1f} x its speed, {own.peak_bytes / peer.peak_bytes:.2f} of its memory")
    theirs = f"smdebug {peer.records_per_second:,.0f} records/s, only reading"
    note("imports_speed", f"{ratio:.1f} times", ratio >= SPEED_RATIO, theirs)
    if ratio < SPEED_RATIO:
        broken.append(f"{ratio:.1f} times smdebug's records a second, under {SPEED_RATIO}")
    return broken


if __name__ == "__main__":
    sys.exit(command(__doc__ or "", measure, compare))
