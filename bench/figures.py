"""The figures that a benchmark measured of a promise, for the page that lists them all.

`python -m bench` names a file in the environment; a benchmark that is run by itself writes none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

FILE_VARIABLE = "TRIMTAB_BENCH_FIGURES"


@dataclass(frozen=True)
class Figure:
    promise: str
    """The key of a promise in `bench.promises`."""
    measured: str
    is_kept: bool
    peer: str = ""
    """The same figure of another tool, measured in the same call; empty: there is none."""
    counts: dict[str, int] = field(default_factory=dict)
    """The counts that `bench.trust` summarises, such as `lost`."""


def note(promise: str, measured: str, is_kept: bool, peer: str = "", **counts: int) -> None:
    """Adds a figure to the page, if one is being written."""
    if path := os.environ.get(FILE_VARIABLE):
        figure = Figure(promise, measured, is_kept, peer, counts)
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(figure)) + "\n")


def read_figures(path: Path) -> Iterator[Figure]:
    """Return what a benchmark wrote to the file; nothing if it wrote none."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return (Figure(**json.loads(line)) for line in lines)
