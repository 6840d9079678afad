"""`trimtab compare A B`: compare two runs, and fail if the cost went up."""

from __future__ import annotations

import argparse
import time
from decimal import Decimal, InvalidOperation
from typing import Any

from trimtab.cli import reports
from trimtab.cli.arguments import Commands, say

WAIT_SECONDS, MOST_WAIT_SECONDS = 600, 7 * 24 * 3600
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 30.0
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
    parser.add_argument(
        "--wait",
        type=_seconds,
        nargs="?",
        const=WAIT_SECONDS,
        metavar="SECONDS",
        help=f"wait until all of both runs has arrived and was analysed (default {WAIT_SECONDS})",
    )
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
    if arguments.wait is not None and _incomplete(comparison):
        return reports.UNKNOWN
    if arguments.fail_if_cost_up is None:
        return reports.FINE
    return _judged(comparison, arguments.fail_if_cost_up)


def _settled(arguments: argparse.Namespace) -> dict[str, Any] | None:
    """The comparison; with --wait, once nothing more is expected or the time is over."""
    deadline = time.monotonic() + (arguments.wait or 0.0)
    pause = FIRST_PAUSE_SECONDS
    while True:
        comparison = reports.document(arguments, "compare", a=arguments.a, b=arguments.b)
        if arguments.wait is None or comparison is None or not _incomplete(comparison):
            return comparison
        left = deadline - time.monotonic()
        if left <= 0 or not _expected(comparison):
            _say_in_vain(comparison, arguments.wait)
            return comparison
        time.sleep(min(pause, left))
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def _say_in_vain(comparison: dict[str, Any], waited_seconds: float) -> None:
    reasons = "; ".join(
        f"run #{side['number']} ({side['state']}): {', '.join(side['incomplete_because'])}"
        for side in _incomplete(comparison)
    )
    if _expected(comparison):
        say(f"not complete after {waited_seconds:g} s: {reasons}.")
    else:
        say(f"waiting doesn't help: {reasons}.")


def _incomplete(comparison: dict[str, Any]) -> list[dict[str, Any]]:
    """The runs of which something is missing. An older service doesn't say."""
    return [
        comparison[side] for side in ("a", "b") if not comparison[side].get("is_complete", True)
    ]


def _expected(comparison: dict[str, Any]) -> bool:
    """Something is missing, and all of it may still come."""
    missing = _incomplete(comparison)
    return bool(missing) and all(side["may_complete"] for side in missing)


def _judged(comparison: dict[str, Any], most: Decimal) -> int:
    change = comparison["cost_change_pct"]
    if change is None:
        reasons = comparison.get("incomparable_because") or ["the service doesn't say why"]
        say(f"the costs can't be compared: {'; '.join(reasons)}.")
        if _expected(comparison):
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
    """The first cost, the difference by cause, the second cost."""
    if comparison["attribution"] is None:
        return ""
    first, second = (comparison[side] for side in ("a", "b"))
    rows = [[f"#{first['number']}", reports.usd(first["cost_usd"])]]
    for term in comparison["attribution"]:
        rows.append([f"  {term['name']}", reports.usd(term["usd"], signed=True)])
        for part in term["parts"]:
            rows.append([f"    {part['name']}", reports.usd(part["usd"], signed=True)])
    change = _change(first["cost_usd"], second["cost_usd"])
    rows.append([f"#{second['number']}", reports.usd(second["cost_usd"])])
    return f"{reports.table(rows, right=(1,))}{change}"


def _change(old: str, new: str) -> str:
    if not Decimal(old):
        return ""
    return f"  ({100 * (Decimal(new) / Decimal(old) - 1):+.2f} %)"


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MOST_WAIT_SECONDS:
        raise argparse.ArgumentTypeError(
            f"{text} is not a number of seconds from 0 to {MOST_WAIT_SECONDS}."
        )
    return seconds


def _percent(text: str) -> Decimal:
    try:
        percent = Decimal(text.strip().removesuffix("%"))
    except InvalidOperation:
        percent = Decimal(-1)
    if not percent.is_finite() or percent < 0:
        raise argparse.ArgumentTypeError(f"{text} is not a percentage from 0. Use e.g. 5%.")
    return percent
