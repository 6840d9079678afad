"""Fetches the reports of `cost` and `compare`, and formats money and tables."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from trimtab import options
from trimtab.cli.arguments import add_server_arguments, say
from trimtab.transport import Connection

FINE, COST_UP, FAILED, UNKNOWN = 0, 1, 2, 3
_FINEST = Decimal("0.00001")


def add_report_arguments(parser: argparse.ArgumentParser) -> None:
    add_server_arguments(parser)
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument(
        "--markdown", action="store_true", help="print Markdown, e.g. for a pull request"
    )
    forms.add_argument("--json", action="store_true", help="print the service's answer as JSON")


def document(
    arguments: argparse.Namespace, path: str, *, may_be_missing: bool = False, **query: str
) -> dict[str, Any] | None:
    """The service's answer. If there is none, None, with the reason on standard error.

    Args:
        may_be_missing: nothing is said if the service doesn't know what was asked for.
    """
    server = options.server(arguments.url, arguments.token, os.environ)
    if not server.url or not server.token:
        say("no service is set. Set TRIMTAB_URL and TRIMTAB_TOKEN, or run `trimtab init`.")
        return None
    try:
        answer = Connection(server).get(f"{path}?{urlencode(query)}")
    except ValueError as error:
        say(str(error))
        return None
    if answer.status == 404 and may_be_missing:
        return None
    if answer.status != 200 or not answer.document:
        say(
            answer.problem
            or f"{server.url} gave an answer that isn't JSON. Check that it is Trimtab's address."
        )
        if answer.status == 403:
            say("use a token with the scope `read`.")
        return None
    return answer.document


def show_json(document: dict[str, Any]) -> None:
    print(json.dumps(document, indent=2, ensure_ascii=False))


def usd(text: str | None, *, signed: bool = False) -> str:
    """`$6.15672`: to a thousandth of a cent, or to the nano-dollar if that rounds to zero."""
    if text is None:
        return "no price"
    amount = Decimal(text)
    fine = amount.quantize(_FINEST)
    shown = f"{abs(fine if fine else amount).normalize():f}"
    whole, _, digits = shown.partition(".")
    sign = "-" if amount < 0 else "+" if signed and amount > 0 else ""
    return f"{sign}${whole}.{digits:0<2}"


def table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Columns as wide as their widest cell; those in `right` are flush right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if n in right else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    )


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """The first row is the header; cells are escaped."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    for character in "\\|`*_<>[]":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())
