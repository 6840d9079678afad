"""Fetches the reports of `cost` and `compare`, and formats money and tables."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any
from urllib.parse import urlencode

from trimtab import options
from trimtab.cli.arguments import add_server_arguments, say
from trimtab.transport import ServiceConnection

FINE, COST_UP, FAILED, UNKNOWN = 0, 1, 2, 3
_TEN_THOUSANDTH, _CENT = Decimal("0.0001"), Decimal("0.01")
_LEAST_ROUNDED = Decimal("0.1")


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
    """Return the service's answer, or None if there is none, with the reason on standard error.

    Args:
        may_be_missing: nothing is said if the service doesn't know what was asked for.
    """
    server = options.server(arguments.url, arguments.token, os.environ)
    if not server.url or not server.token:
        say("no service is set. Set TRIMTAB_URL and TRIMTAB_TOKEN, or run `trimtab init`.")
        return None
    try:
        answer = ServiceConnection(server).get(f"{path}?{urlencode(query)}")
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
    """Format an amount with the digits of the service's pages: four decimals below $1, else cents;
    `$0.00` for exactly nothing."""
    if text is None:
        return "no price"
    amount = Decimal(text)
    size, fine = abs(amount), abs(amount).quantize(_TEN_THOUSANDTH, ROUND_HALF_UP)
    if not amount:
        shown = "$0.00"
    elif not fine:
        shown = f"<${_TEN_THOUSANDTH}"
    elif fine < 1:
        shown = f"${fine}"
    else:
        shown = f"${size.quantize(_CENT, ROUND_HALF_UP):,}"
    return _sign(amount, signed) + shown


def usd_per_unit(text: str) -> str:
    """Format as `usd`, but with at least three significant digits."""
    amount = Decimal(text)
    if not amount or abs(amount) >= _LEAST_ROUNDED:
        return usd(text)
    shown = abs(amount).quantize(Decimal(1).scaleb(amount.adjusted() - 2), ROUND_HALF_UP)
    return f"{_sign(amount)}${shown:f}"


def exact_usd(text: str | None, *, signed: bool = False) -> str:
    """Format an amount with all its digits, at least two of them decimals, so that the terms of a
    comparison add up: `$6.15672`, `$2.00`.
    """
    if text is None:
        return "no price"
    amount = Decimal(text)
    whole, _, digits = f"{abs(amount).normalize():f}".partition(".")
    return f"{_sign(amount, signed)}${whole}.{digits:0<2}"


def _sign(amount: Decimal, signed: bool = False) -> str:
    return "-" if amount < 0 else "+" if signed and amount > 0 else ""


def table(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Format columns as wide as their widest cell; those in `right` are flush right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if n in right else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    )


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Format a table whose first row is the header; cells are escaped."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    for character in "\\|`*_<>[]":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())
