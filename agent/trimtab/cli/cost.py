"""`trimtab cost RUN`: what a run cost, by node, day and phase. `trimtab cost TRAINING`: what a
training cost, by label and attempt."""

from __future__ import annotations

import argparse
import math
from contextlib import suppress
from typing import Any
from uuid import UUID

from trimtab.cli import completeness, reports, training_cost
from trimtab.cli.arguments import Commands, say

_EPILOG = """
RUN is a run id, or JOB#NUMBER. The name that runs were given with --training shows the whole
training: every attempt, lost work, goodput. With --training, so does any of its runs. Exit code: 0;
2 if the service gave no answer; 3 if there is no price, or --wait was in vain.
"""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser("cost", help="show what a run or a training cost", epilog=_EPILOG)
    parser.add_argument("run", metavar="RUN")
    parser.add_argument(
        "--training", action="store_true", help="show the training that the run is a part of"
    )
    parser.add_argument(
        "--reach",
        type=_metric_value,
        default={},
        metavar="METRIC=VALUE",
        help="show what a training had cost when a metric first was at least this good",
    )
    completeness.add_wait_argument(parser, "all of the run has arrived and was analysed")
    reports.add_report_arguments(parser)
    parser.set_defaults(handler=cost)


def cost(arguments: argparse.Namespace) -> int:
    whole = None
    if arguments.training or arguments.reach or not _is_run(arguments.run):
        if arguments.wait is not None:
            say("--wait waits for one run: name it by its id, or JOB#NUMBER, without --training.")
            return reports.FAILED
        alone = not arguments.training and not arguments.reach
        whole = reports.document(
            arguments,
            "training",
            may_be_missing=alone,
            training=arguments.run,
            **arguments.reach,
        )
    if whole is not None:
        return training_cost.show(whole, arguments)
    if arguments.training or arguments.reach:
        return reports.FAILED
    report = completeness.ask_until_settled(
        lambda: reports.document(arguments, "cost", run=arguments.run),
        lambda answer: [answer],
        arguments.wait,
    )
    if report is None:
        return reports.FAILED
    if arguments.json:
        reports.show_json(report)
    else:
        is_markdown = arguments.markdown
        print("\n\n".join(block for block in _blocks(report, is_markdown) if block))
    is_vain = arguments.wait is not None and completeness.incomplete_runs([report])
    return reports.UNKNOWN if report["cost_usd"] is None or is_vain else reports.FINE


def _metric_value(text: str) -> dict[str, str]:
    name, _, value = text.rpartition("=")
    if not name or not math.isfinite(float(value)):
        raise ValueError(text)
    return {"metric": name, "value": value}


def _is_run(reference: str) -> bool:
    """Return whether the reference has the form of a run's: an id, or JOB#NUMBER. Anything else may
    be the name of a training.
    """
    with suppress(ValueError):
        UUID(reference)
        return True
    return reference.rpartition("#")[2].isdecimal() and "#" in reference


def _blocks(report: dict[str, Any], is_markdown: bool) -> list[str]:
    headline = _headline(report)
    write = reports.markdown_table if is_markdown else _aligned
    money = report["money"]
    return [
        f"**{headline}**" if is_markdown else headline,
        "\n".join(_details(report)),
        write(_phases(money)) if money["phases"] else "",
        write(_parts(report)) if report["parts"] else "",
        report["url"],
    ]


def _headline(report: dict[str, Any]) -> str:
    at_least = "at least " if report["cost_is_at_least"] and report["cost_usd"] else ""
    name = f"{report['job']} #{report['number']}, {report['state']}"
    return f"{name}: {at_least}{reports.usd(report['cost_usd'])}"


def _details(report: dict[str, Any]) -> list[str]:
    money, projected = report["money"], report["money"]["projected"]
    lines = [*_failure(report), *report["missing_prices"]]
    if money["basis"] != "list":
        lines.append(f"at {money['basis']}; {reports.usd(money['list_usd'])} at list price")
    # An older service doesn't tell it.
    if electricity := money.get("electricity"):
        usd = "not measured" if electricity["usd"] is None else reports.usd(electricity["usd"])
        lines.append(f"of which electricity {usd}: {electricity['words']}")
    if projected:
        lines.append(f"{reports.usd(projected['usd'])} projected at the end of the run")
    for unit in money["per_work"]:
        amount = "" if unit["amount"] == 1 else f"{unit['amount']:,} "
        name = unit["unit"].removesuffix("s") if unit["amount"] == 1 else unit["unit"]
        lines.append(f"{reports.usd_per_unit(unit['usd'])} per {amount}{name}")
    if money["billed_difference_usd"] is not None:
        more = reports.usd(money["billed_difference_usd"], signed=True)
        lines.append(f"{more} difference between the bill and the computed cost")
    if money["verdict"]:
        lines.append(money["verdict"]["sentence"])
    return [*lines, *money["notes"]]


def _failure(report: dict[str, Any]) -> list[str]:
    """Return why the run failed. An older service doesn't say."""
    failure = report.get("failure")
    return [f"failed on {failure['node']}: {failure['words']}"] if failure else []


def _phases(money: dict[str, Any]) -> list[list[str]]:
    return [["phase", "cost"]] + [[p["name"], reports.usd(p["usd"])] for p in money["phases"]]


def _parts(report: dict[str, Any]) -> list[list[str]]:
    return [["node", "machine", "day (UTC)", "charged", "cost"]] + [
        [
            part["node"],
            part["instance_type"] or "not declared",
            part["day"],
            f"{part['seconds']:g} s",
            reports.usd(part["usd"]),
        ]
        for part in report["parts"]
    ]


def _aligned(rows: list[list[str]]) -> str:
    return reports.table(rows, right=range(len(rows[0]))[-1:])
