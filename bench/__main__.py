"""Runs benchmarks and writes the page of their figures.

    python -m bench all --write docs/figures.md    all of them; takes about three hours
    python -m bench store rules --write docs/figures.md
                                                   the other rows of the page stay as they are
    python -m bench trust --write docs/figures.md  all that breaks the service on purpose; more of
                                                   it is said by `python -m bench trust --help`

A benchmark that fails is a row that says so. Without `--write` only the benchmarks' own output is
shown. The exit code is 1 if a promise isn't kept or a benchmark failed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench import figures_page, trust
from bench.figures import Figure
from bench.promises import PROMISES


def main() -> int:
    if sys.argv[1:2] == ["trust"]:
        return trust.main(sys.argv[2:])
    benches = sorted({promise.bench for promise in PROMISES if promise.bench})
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    named = f"trust, all, {', '.join(benches)}"
    parser.add_argument("chosen", nargs="+", metavar="BENCH", help=named)
    parser.add_argument("--write", type=Path, metavar="FILE", help="the page, in Markdown")
    asked = parser.parse_args()
    chosen = benches if asked.chosen == ["all"] else asked.chosen
    if unknown := set(chosen) - set(benches):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    figures: list[Figure] = []
    for command in (command for bench in chosen for command in figures_page.commands(bench)):
        for figure in figures_page.measure_command(command):
            figures.append(figure)
            if asked.write:
                # At once, so that an hour's figures survive a benchmark that is interrupted.
                figures_page.write(asked.write, [figure])
    return 0 if all(figure.is_kept for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
