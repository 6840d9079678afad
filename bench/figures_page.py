"""The page of figures: a row for each promise, and the benchmarks that measure them."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from bench.figures import FILE_VARIABLE, Figure, read_figures
from bench.promises import PROMISES, Promise

LOOK_SECONDS = 0.2
NOT_MEASURED = "not measured"
HEAD = """# Figures

What Trimtab promises, and what was measured: one row for each promise, written by
`python -m bench all --write docs/figures.md`. The commands are in `bench/`; each can be run alone,
such as `python -m bench.store --check`. A peer's figure was measured in the same call, on the same
machine.

| promise | measured | kept | peer | date | machine |
|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Command:
    """A benchmark with its arguments."""

    bench: str
    arguments: tuple[str, ...] = ()

    @property
    def promises(self) -> list[Promise]:
        """Return the promises that it measures."""
        return [each for each in PROMISES if (each.bench, each.arguments) == self._key]

    @property
    def _key(self) -> tuple[str, tuple[str, ...]]:
        return self.bench, self.arguments


def commands(bench: str) -> list[Command]:
    """Return what is run for a benchmark: once for each of its sets of arguments."""
    wanted = (promise.arguments for promise in PROMISES if promise.bench == bench)
    return [Command(bench, arguments) for arguments in dict.fromkeys(wanted)]


@dataclass
class Measurement:
    """One run of a command: its figures while it continues, and what it took."""

    command: Command
    more: tuple[str, ...] = ()
    """Arguments beside those of the promise."""
    output: IO[str] | None = None
    """The stream for its lines; None for where ours go."""
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    """The CPU seconds of its processes, except those whose parents were killed."""
    exit_code: int = 0

    def figures(self) -> Iterator[Figure]:
        """Yield each figure as soon as it is noted. A promise of which the benchmark said nothing
        has not been kept."""
        missing = {promise.key for promise in self.command.promises}
        with tempfile.TemporaryDirectory(prefix="trimtab-figures-") as folder:
            for figure in self._noted(Path(folder) / "figures"):
                if figure.promise in missing:
                    missing.remove(figure.promise)
                    yield figure
        failed = f"the benchmark failed with exit code {self.exit_code}"
        nothing = failed if self.exit_code else "the benchmark measured nothing here"
        for promise in self.command.promises:
            if promise.key in missing:
                yield Figure(promise.key, nothing, is_kept=False)

    def _noted(self, file: Path) -> Iterator[Figure]:
        command = self.command
        words = [sys.executable, "-m", f"bench.{command.bench}", *command.arguments, *self.more]
        print(f"== {' '.join(words[2:])}", flush=True)
        began = time.monotonic()
        process = subprocess.Popen(
            words,
            env=os.environ | {FILE_VARIABLE: str(file)},
            stdout=self.output,
            stderr=self.output and subprocess.STDOUT,
        )
        ended = 0
        try:
            while not ended:
                ended, status, usage = os.wait4(process.pid, os.WNOHANG)
                yield from read_figures(file)
                time.sleep(0 if ended else LOOK_SECONDS)
        finally:
            if not ended:
                process.terminate()
                _, status, usage = os.wait4(process.pid, 0)
            self.exit_code = process.returncode = os.waitstatus_to_exitcode(status)
            self.wall_seconds = time.monotonic() - began
            self.cpu_seconds = usage.ru_utime + usage.ru_stime


def measure_command(command: Command) -> Iterator[Figure]:
    """Run a benchmark, and yield its figures."""
    yield from Measurement(command).figures()


def write(path: Path, figures: list[Figure]) -> None:
    """Put the figures into the page; its other rows stay."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    path.write_text(page(figures, before), encoding="utf-8")


def page(figures: list[Figure], before: str) -> str:
    """Return the page with these figures; other rows as they were `before`."""
    new = {figure.promise: figure for figure in figures}
    kept = {row.split(" | ")[0].removeprefix("| "): row for row in before.splitlines()}
    rows = [
        row(promise, new[promise.key])
        if promise.key in new
        else _row_of_before(promise, kept.get(promise.text, ""))
        for promise in PROMISES
    ]
    return HEAD + "\n".join(rows) + "\n"


def _row_of_before(promise: Promise, before: str) -> str:
    return before or f"| {promise.text} | {NOT_MEASURED} | | | | |"


def row(promise: Promise, figure: Figure) -> str:
    """Return the page's row of a figure measured on this machine, today."""
    verdict = "yes" if figure.is_kept else "**no**"
    today = datetime.now(UTC).date().isoformat()
    columns = (promise.text, figure.measured, verdict, figure.peer, today, machine())
    return f"| {' | '.join(columns)} |"


def machine() -> str:
    """Describe this machine in words: cores, processor, memory, system, Python."""
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
