"""Breaks the service in every way that we know, and proves that nothing is lost or doubled.

    python -m bench trust --write docs/figures.md
                                  all parts, two at a time; takes about an hour on two cores
    python -m bench trust --only faults,http --write docs/figures.md
                                  some parts, for instance those that an interrupted call lacks
    python -m bench trust --only kills --seed 7
                                  other schedules, kills or inputs

Each part is a benchmark of its own, whose row is written as soon as it has ended. A failure names
its seed. The exit code is 1 if a promise isn't kept.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

from bench import figures_page
from bench.figures import Figure
from bench.figures_page import Command, Measurement
from bench.promises import PROMISES

PARTS = {
    "faults": "nothing_lost",
    "postgres": "nothing_lost_postgres",
    "power": "power_loss",
    "kills": "working_workers",
    "backup": "backups",
    "upgrade": "upgrades",
    "fuzz": "hostile_inputs",
    "http": "hostile_requests",
}
"""The promise of each part. The first ones mostly wait."""
_page = Lock()


class Part:
    """A part, and what it measured."""

    def __init__(self, name: str, seed: int | None) -> None:
        promise = next(each for each in PROMISES if each.key == PARTS[name])
        assert promise.bench is not None
        more = ("--check",) if seed is None else ("--check", "--seed", str(seed))
        self.name = name
        self.measurement = Measurement(Command(promise.bench, promise.arguments), more)
        self.figures: list[Figure] = []

    @property
    def is_kept(self) -> bool:
        return all(figure.is_kept for figure in self.figures) and not self.measurement.exit_code

    def run(self, page: Path | None) -> None:
        """Write each figure at once; print the benchmark's lines when it has ended."""
        with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
            self.measurement.output = output
            for figure in self.measurement.figures():
                self.figures.append(figure)
                if page:
                    with _page:
                        figures_page.write(page, [figure])
            output.seek(0)
            print(f"== {self.name}\n{output.read()}", end="", flush=True)

    def __str__(self) -> str:
        said = "; ".join(figure.measured for figure in self.figures)
        took = self.measurement
        return (
            f"{self.name:9}{'kept' if self.is_kept else 'BROKEN':8}"
            f"{took.wall_seconds / 60:6.1f} min{took.cpu_seconds / 60:7.1f} CPU-min  {said}"
        )


def main(words: list[str] | None = None) -> int:
    asked = _asked(words)
    parts = [Part(name, asked.seed) for name in asked.only]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with ThreadPoolExecutor(asked.together) as lanes:
        for ended in [lanes.submit(part.run, asked.write) for part in parts]:
            ended.result()
    for part in parts:
        print(part)
    print(summary(parts))
    return 0 if all(part.is_kept for part in parts) else 1


def _asked(words: list[str] | None) -> argparse.Namespace:
    options = argparse.ArgumentParser(
        prog="python -m bench trust",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument(
        "--only", type=_names, default=list(PARTS), metavar="PARTS", help=f"of {', '.join(PARTS)}"
    )
    options.add_argument("--write", type=Path, metavar="FILE", help="the page, in Markdown")
    options.add_argument("--seed", type=int, help="of every part; default: each has its own")
    options.add_argument("--together", type=int, default=2, help="so many parts at a time")
    return options.parse_args(words)


def _names(said: str) -> list[str]:
    names = said.split(",")
    if unknown := set(names) - set(PARTS):
        raise argparse.ArgumentTypeError(f"no such part: {', '.join(sorted(unknown))}")
    return names


def summary(parts: Iterable[Part]) -> str:
    total = Counter[str]()
    for part in parts:
        for figure in part.figures:
            total.update(figure.counts)
    costs = f"all {total['costs']} costs equal"
    if total["wrong_costs"]:
        costs = f"{total['wrong_costs']} of {total['costs']} costs differ"
    broken = [part.name for part in parts if not part.is_kept]
    said = f"{total['lost']} lost, {total['doubled']} doubled, {costs}"
    return f"{said}; broken: {', '.join(broken)}" if broken else said


if __name__ == "__main__":
    sys.exit(main())
