"""Runs benchmarks and writes the page of their figures.

    python -m bench all --write docs/figures.md    all of them; takes about two hours
    python -m bench store rules --write docs/figures.md
                                                   the other rows of the page stay as they are

A benchmark that fails is a row that says so. Without `--write` only the benchmarks' own output is
shown. The exit code is 1 if a promise isn't kept or a benchmark failed.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from bench.figures import FILE_VARIABLE, Figure, noted
from bench.promises import PROMISES, Promise

NOT_MEASURED = "not measured"
HEAD = """# Figures

What Trimtab promises, and what was measured: one row for each promise, written by
`python -m bench all --write docs/figures.md`. The commands are in `bench/`; each can be run alone,
such as `python -m bench.store --check`. A peer's figure was measured in the same call, on the same
machine.

| promise | measured | kept | peer | date | machine |
|---|---|---|---|---|---|
"""


def main() -> int:
    benches = sorted({promise.bench for promise in PROMISES if promise.bench})
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("chosen", nargs="+", metavar="BENCH", help=f"all, {', '.join(benches)}")
    parser.add_argument("--write", type=Path, metavar="FILE", help="the page, in Markdown")
    asked = parser.parse_args()
    chosen = benches if asked.chosen == ["all"] else asked.chosen
    if unknown := set(chosen) - set(benches):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    figures: list[Figure] = []
    for bench in chosen:
        figures += measured(bench)
        if asked.write:
            # After each, so that an hour's figures survive a benchmark that is interrupted.
            before = asked.write.read_text(encoding="utf-8") if asked.write.exists() else ""
            asked.write.write_text(page(figures, before), encoding="utf-8")
    return 0 if all(figure.is_kept for figure in figures) else 1


def measured(bench: str) -> list[Figure]:
    """Run it. A promise of which it said nothing has not been kept."""
    promises = [promise for promise in PROMISES if promise.bench == bench]
    print(f"== {bench}", flush=True)
    with tempfile.TemporaryDirectory(prefix="trimtab-figures-") as folder:
        file = Path(folder) / "figures"
        command = [sys.executable, "-m", f"bench.{bench}", *promises[0].arguments]
        ended = subprocess.run(command, env=os.environ | {FILE_VARIABLE: str(file)}, check=False)
        found = {figure.promise: figure for figure in noted(file)}
    failed = f"the benchmark failed with exit code {ended.returncode}"
    nothing = failed if ended.returncode else "the benchmark measured nothing here"
    return [found.get(each.key, Figure(each.key, nothing, is_kept=False)) for each in promises]


def page(figures: list[Figure], before: str) -> str:
    """The page with these figures; other rows as they were `before`."""
    new = {figure.promise: figure for figure in figures}
    kept = {row.split(" | ")[0].removeprefix("| "): row for row in before.splitlines()}
    rows = [
        _row(promise, new[promise.key])
        if promise.key in new
        else kept.get(promise.text, f"| {promise.text} | {NOT_MEASURED} | | | | |")
        for promise in PROMISES
    ]
    return HEAD + "\n".join(rows) + "\n"


def _row(promise: Promise, figure: Figure) -> str:
    verdict = "yes" if figure.is_kept else "**no**"
    today = datetime.now(UTC).date().isoformat()
    columns = (promise.text, figure.measured, verdict, figure.peer, today, machine())
    return f"| {' | '.join(columns)} |"


def machine() -> str:
    """This machine in words: cores, processor, memory, system, Python."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    return (
        f"{cores} cores of {_processor()}, {memory_gib:.0f} GiB, {platform.system()} "
        f"{platform.release().split('-')[0]}, Python {platform.python_version()}"
    )


def _processor() -> str:
    with Path("/proc/cpuinfo").open(encoding="utf-8") as lines:
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


if __name__ == "__main__":
    sys.exit(main())
