"""Prints what a training cost: its two figures, its ledger and its attempts."""

from __future__ import annotations

import argparse
from typing import Any

from trimtab.cli import reports


def show(report: dict[str, Any], arguments: argparse.Namespace) -> int:
    """Print the cost and return the exit code."""
    if arguments.json:
        reports.show_json(report)
    else:
        write = reports.markdown_table if arguments.markdown else _aligned
        headline = f"{report['name']}: {reports.usd(report['cost_usd'])}"
        blocks = [
            f"**{headline}**" if arguments.markdown else headline,
            "\n".join([*_asked(report, arguments.reach), *_details(report)]),
            write(_ledger(report)) if report["ledger"] else "",
            write(_attempts(report)) if report["attempts"] else "",
            write(_failures(report)) if report.get("failures") else "",
            write(_metrics(report)) if report.get("metrics") else "",
            report["url"],
        ]
        print("\n\n".join(block for block in blocks if block))
    return reports.UNKNOWN if report["cost_usd"] is None else reports.FINE


def _details(report: dict[str, Any]) -> list[str]:
    lines = [
        f"goodput {_share(report['goodput'])}",
        f"effective dollars {_share(report['effective_share'])} of paid dollars",
        _steps(report),
    ]
    if report["slowdown_seconds"] is not None:
        slow = _minutes(report["slowdown_seconds"])
        lines.append(f"slowdown {slow} of the effective time, against the best pace")
    if report["waiting_seconds"]:
        lines.append(f"waiting for a machine {_minutes(report['waiting_seconds'])}, without cost")
    if report["lost_is_unknown"]:
        lines.append("an attempt resumed at an unknown step, so lost work may be missing")
    if report["is_provisional"]:
        lines.append("provisional: a later attempt may turn effective time into lost time")
    return lines


def _ledger(report: dict[str, Any]) -> list[list[str]]:
    return [["label", "time", "cost"]] + [
        [line["label"], _minutes(line["seconds"]), reports.usd(line["usd"])]
        for line in report["ledger"]
    ]


def _attempts(report: dict[str, Any]) -> list[list[str]]:
    return [["attempt", "run", "began (UTC)", "lost", "cost"]] + [
        [
            str(each["number"]),
            f"#{each['run_number']}",
            each["began"][:16].replace("T", " "),
            _minutes(each["lost_seconds"]),
            reports.usd(each["usd"]),
        ]
        for each in report["attempts"]
    ]


def _failures(report: dict[str, Any]) -> list[list[str]]:
    """Return the failures, the newest first, with what was lost, and the start that followed."""
    return [["failure", "run", "at (UTC)", "lost", "cost"]] + [
        [
            each.get("title", each["cause"]),
            f"#{each['run_number']}",
            each["at"][:16].replace("T", " "),
            _minutes(each["lost_seconds"]) if each["lost_is_known"] else "unknown",
            reports.usd(each["usd"]),
        ]
        for each in report["failures"]
    ]


def _metrics(report: dict[str, Any]) -> list[list[str]]:
    rows = [["metric", "best", "after", "cost until then"]]
    for metric in report["metrics"]:
        best = metric["points"][-1]
        cost = reports.usd(best["usd"])
        rows.append([metric["name"], f"{best['value']:g}", _minutes(best["seconds"]), cost])
    return rows


def _asked(report: dict[str, Any], reach: dict[str, str]) -> list[str]:
    """Return what it cost to reach a value, if that was asked."""
    if not reach:
        return []
    asked = report.get("asked")
    if asked is None:
        return [f"no metric {reach['metric']} is known whose better direction is known"]
    name, reached = f"{asked['metric']} {asked['target']:g}", asked["reached"]
    if reached is None:
        return [f"{name} was not reached"]
    return [f"{name} reached after {_minutes(reached['seconds'])}, {reports.usd(reached['usd'])}"]


def _aligned(rows: list[list[str]]) -> str:
    return reports.table(rows, right=range(len(rows[0]))[-2:])


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{100 * value:.1f} %"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:,.1f} min"


def _steps(report: dict[str, Any]) -> str:
    counted, lost = report["steps"], report["lost_steps"]
    if counted is None or lost is None:
        return "no steps are known of some run, so lost work isn't either"
    return f"{counted:,} steps count, {lost:,} were lost"
