"""`trimtab compare A B`: compare two runs, and fail if the cost went up."""

from __future__ import annotations

import argparse
from decimal import Decimal, InvalidOperation
from typing import Any

from trimtab.cli import completeness, reports
from trimtab.cli.arguments import Commands, say

_EPILOG = """
A and B are run ids, or JOB#NUMBER. Costs are compared for the same work: per sample, token, epoch
or step if both runs counted it, else for whole runs. Of different amounts of work only the part
after start-up is compared. Exit code: 0; 1 if the cost went up by more than --fail-if-cost-up; 2
if the service gave no answer; 3 if --fail-if-cost-up can't compare the costs, or --wait was in
vain. Standard error then names the run and the field: no price, not finished, other data.
"""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "compare",
        help="compare two runs: what changed, what it cost, and why",
        epilog=_EPILOG,
    )
    parser.add_argument("a", metavar="A", help="the earlier run")
    parser.add_argument("b", metavar="B", help="the later run")
    reports.add_report_arguments(parser)
    parser.add_argument(
        "--fail-if-cost-up",
        type=_percent,
        metavar="PERCENT",
        help="exit with 1 if the same work costs more than PERCENT more, e.g. 5%%",
    )
    completeness.add_wait_argument(parser, "all of both runs has arrived and was analysed")
    parser.set_defaults(handler=compare)


def compare(arguments: argparse.Namespace) -> int:
    comparison = _settled(arguments)
    if comparison is None:
        return reports.FAILED
    if arguments.json:
        reports.show_json(comparison)
    elif arguments.markdown:
        print(comparison["markdown"], end="")
    else:
        print(_as_text(comparison))
    if arguments.wait is not None and completeness.incomplete_runs(_sides(comparison)):
        return reports.UNKNOWN
    if arguments.fail_if_cost_up is None:
        return reports.FINE
    return _judged(comparison, arguments.fail_if_cost_up)


def _settled(arguments: argparse.Namespace) -> dict[str, Any] | None:
    """Return the comparison; with --wait, once nothing more is expected or the time is over."""

    def ask() -> dict[str, Any] | None:
        return reports.document(arguments, "compare", a=arguments.a, b=arguments.b)

    return completeness.ask_until_settled(ask, _sides, arguments.wait)


def _sides(comparison: dict[str, Any]) -> list[dict[str, Any]]:
    return [comparison["a"], comparison["b"]]


def _judged(comparison: dict[str, Any], most: Decimal) -> int:
    change = comparison["cost_change_pct"]
    if change is None:
        reasons = comparison.get("incomparable_because") or ["the service doesn't say why"]
        say(f"the costs can't be compared: {'; '.join(reasons)}.")
        if completeness.is_more_expected(_sides(comparison)):
            say("use --wait to wait for it.")
        return reports.UNKNOWN
    if Decimal(change) <= most:
        return reports.FINE
    say(f"the same work costs {Decimal(change):.2f} % more, and --fail-if-cost-up allows {most} %.")
    return reports.COST_UP


def _as_text(comparison: dict[str, Any]) -> str:
    names = [f"#{comparison[side]['number']}" for side in ("a", "b")]
    figures = [["figure", *names, "change"]] + [
        [row["name"], row["a"], row["b"], row["change"]] for row in comparison["figures"]
    ]
    blocks = [
        comparison["sentence"],
        _attribution(comparison),
        "\n".join(f"changed: {c['name']} {c['a']} -> {c['b']}" for c in comparison["changes"]),
        reports.table(figures, right=(1, 2, 3)),
        "\n".join(f"note: {warning}" for warning in comparison["warnings"]),
        comparison["url"],
    ]
    return "\n\n".join(block for block in blocks if block)


def _attribution(comparison: dict[str, Any]) -> str:
    """Return the first cost, the difference by cause, the second cost."""
    if comparison["attribution"] is None:
        return ""
    first, second = (comparison[side] for side in ("a", "b"))
    rows = [[f"#{first['number']}", reports.exact_usd(first["cost_usd"])]]
    for term in comparison["attribution"]:
        rows.append([f"  {term['name']}", reports.exact_usd(term["usd"], signed=True)])
        for part in term["parts"]:
            rows.append([f"    {part['name']}", reports.exact_usd(part["usd"], signed=True)])
    change = _change(first["cost_usd"], second["cost_usd"])
    rows.append([f"#{second['number']}", reports.exact_usd(second["cost_usd"])])
    return f"{reports.table(rows, right=(1,))}{change}"


def _change(old: str, new: str) -> str:
    if not Decimal(old):
        return ""
    return f"  ({100 * (Decimal(new) / Decimal(old) - 1):+.2f} %)"


def _percent(text: str) -> Decimal:
    try:
        percent = Decimal(text.strip().removesuffix("%"))
    except InvalidOperation:
        percent = Decimal(-1)
    if not percent.is_finite() or percent < 0:
        raise argparse.ArgumentTypeError(f"{text} is not a percentage from 0. Use e.g. 5%.")
    return percent
