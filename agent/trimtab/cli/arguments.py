"""Arguments and messages that several commands share."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from typing import Protocol


class Commands(Protocol):
    """Parsers to which a command adds its own."""

    def add_parser(
        self,
        name: str,
        *,
        help: str,
        usage: str | None = None,
        epilog: str | None = None,
        formatter_class: type[argparse.HelpFormatter] = argparse.HelpFormatter,
    ) -> argparse.ArgumentParser: ...


def add_server_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--url", help="URL of the service; default TRIMTAB_URL, else as saved by `trimtab init`"
    )
    parser.add_argument(
        "--token",
        help="token of the workspace; default TRIMTAB_TOKEN, else as saved by `trimtab init`",
    )


def say(text: str) -> None:
    """Print one line on standard error. A closed or missing standard error is ignored."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"trimtab: {text}\n")
        sys.stderr.flush()


def say_count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
