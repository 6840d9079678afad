"""The cost, by step, of making an answered segment survive a power loss.

    python -m bench.durability                     in the temporary folder
    python -m bench.durability --folder /srv       on the disk that is to be used
    python -m bench.durability --segments 2000

Each line writes the same segments with one more or one other step. "wait" is the time until a
segment may be answered, "CPU" the processor's part of it.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

BODY_BYTES = 3_000
"""A busy segment of 10 s, compressed."""
GROUP = 8
"""Requests that share a commit, as far as there are so many at once."""
ROW = """
CREATE TABLE segment (id INTEGER PRIMARY KEY, session TEXT, seq INTEGER, object_key TEXT,
    sha256 TEXT, start_ms INTEGER, UNIQUE (session, seq));
CREATE TABLE session (id TEXT PRIMARY KEY, last_ms INTEGER);
CREATE TABLE run (id TEXT PRIMARY KEY, last_received_at TEXT);
CREATE TABLE analysis (run TEXT PRIMARY KEY, wanted INTEGER);
INSERT INTO session VALUES ('session', 0);
INSERT INTO run VALUES ('run', '');
INSERT INTO analysis VALUES ('run', 0);
"""
"""The tables of rows like those that one segment writes."""


@dataclass(frozen=True)
class Figures:
    name: str
    wait_ms: float
    p99_ms: float
    cpu_ms: float

    def __str__(self) -> str:
        return f"{self.name:<44}{self.wait_ms:>9.3f}{self.p99_ms:>9.3f}{self.cpu_ms:>9.3f}"


def object_writer(folder: Path, syncs_file: bool, syncs_folder: bool) -> Callable[[int], None]:
    """Writes an object as the store does; with fsync of the file, and of
    the folder that has its name."""

    def write(number: int) -> None:
        temporary, path = folder / f".tmp-{number}", folder / f"{number}.segment"
        with temporary.open("wb") as target:
            target.write(os.urandom(BODY_BYTES))
            target.flush()
            if syncs_file:
                os.fsync(target.fileno())
        temporary.replace(path)
        if syncs_folder:
            descriptor = os.open(folder, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)

    return write


def row_writer(folder: Path, synchronous: str, group: int = 1) -> Callable[[int], None]:
    """Commits the rows of `group` segments at a time."""
    connection = sqlite3.connect(folder / f"{synchronous}-{group}.sqlite3", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.executescript(ROW)
    connection.execute(f"PRAGMA synchronous={synchronous}")

    def write(number: int) -> None:
        if number % group == 0:
            connection.execute("BEGIN IMMEDIATE")
        values = number, f"runs/run/session/{number:09d}.segment", "0" * 64, number * 10_000
        connection.execute("INSERT INTO segment VALUES (NULL, 'session', ?, ?, ?, ?)", values)
        connection.execute("UPDATE session SET last_ms = ?", (number * 10_000,))
        connection.execute("UPDATE run SET last_received_at = ?", (str(number),))
        connection.execute("UPDATE analysis SET wanted = wanted + 1")
        if number % group == group - 1:
            connection.execute("COMMIT")

    return write


def measure_writes(name: str, write: Callable[[int], None], segments: int) -> Figures:
    waits: list[float] = []
    cpu_began = time.process_time()
    for number in range(segments):
        began = time.perf_counter()
        write(number)
        waits.append((time.perf_counter() - began) * 1000)
    cpu_ms = (time.process_time() - cpu_began) * 1000 / segments
    return Figures(name, sum(waits) / segments, sorted(waits)[int(segments * 0.99)], cpu_ms)


def all_figures(folder: Path, segments: int) -> Iterable[Figures]:
    def objects(name: str, **steps: bool) -> Figures:
        place = folder / name.replace(" ", "-").replace(",", "")
        place.mkdir()
        return measure_writes(name, object_writer(place, **steps), segments)

    yield objects("object", syncs_file=False, syncs_folder=False)
    yield objects("object, fsync of the file", syncs_file=True, syncs_folder=False)
    yield objects("object, fsync of file and folder", syncs_file=True, syncs_folder=True)
    for synchronous in ("NORMAL", "FULL"):
        write = row_writer(folder, synchronous)
        yield measure_writes(f"rows, synchronous={synchronous}", write, segments)
    write = row_writer(folder, "FULL", GROUP)
    yield measure_writes(f"rows, synchronous=FULL, {GROUP} segments a commit", write, segments)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, help="where to write; default the temporary folder")
    parser.add_argument("--segments", type=int, default=500)
    arguments = parser.parse_args()
    print(f"{'ms a segment':<44}{'wait':>9}{'p99':>9}{'CPU':>9}")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for figures in all_figures(Path(folder), arguments.segments - arguments.segments % GROUP):
            print(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
