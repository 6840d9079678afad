"""The command `trimtab`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from trimtab import __version__
from trimtab.cli import run, status, sync


def main(words: Sequence[str] | None = None) -> int:
    """Returns the exit code: for `run`, the command's own."""
    arguments = _parser().parse_args(words)
    handler = arguments.handler
    return int(handler(arguments))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="trimtab", description="Measures a training run and sends what it saw to Trimtab."
    )
    parser.add_argument("--version", action="version", version=f"trimtab {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in (run, sync, status):
        command.add_to(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
