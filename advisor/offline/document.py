"""Converts a report to a JSON document. Money is text, so that no digit is lost."""

from __future__ import annotations

from dataclasses import asdict
from decimal import Decimal
from typing import Any

from advisor.costing.cost import CostPart
from advisor.costing.recoverable import RecoverablePart
from advisor.offline.analysis import OfflineReport
from advisor.offline.nodes import Node
from advisor.recommend import Recommendation
from advisor.sizing.doubt import doubts
from rules.engine import Judgement


def as_document(report: OfflineReport) -> dict[str, Any]:
    """Return the whole report."""
    timeline = report.timeline
    return {
        "run_id": str(report.run.run_id),
        "job": report.run.job,
        "state": timeline.state,
        "started_at": timeline.started_at.isoformat(),
        "ended_at": timeline.ended_at.isoformat(),
        "duration_seconds": timeline.duration_seconds,
        "missing_segments": timeline.missing_segments,
        "nodes": [_node(node) for node in timeline.nodes],
        "machine_doubts": doubts([node.facts for node in timeline.nodes]),
        "cost_usd": _usd(report.cost.total_usd),
        "cost_is_at_least": report.cost_is_at_least,
        "missing_prices": list(report.cost.missing),
        "cost_parts": [_part(part) for part in report.cost.parts],
        "cost_notes": report.cost_notes,
        "ledger": [
            {"label": line.label, "node_seconds": line.node_seconds, "usd": _usd(line.usd)}
            for line in report.ledger
        ],
        "figures": asdict(report.figures),
        "judgements": [_judgement(each, report) for each in _in_order(report)],
        "recommendations": [_recommendation(advised) for advised in report.recommendations],
        "conclusion": "" if report.recommendations else report.conclusion,
        "checked": [asdict(line) for line in report.checked],
        "inputs": [asdict(each) | {"is_known": each.is_known} for each in report.inputs],
    }


def _node(node: Node) -> dict[str, Any]:
    facts = node.facts
    names = ("hostname", "provider", "service", "region", "zone", "instance_type")
    return {"node": node.history.key} | {name: getattr(facts, name) for name in names}


def _part(part: CostPart) -> dict[str, Any]:
    return {
        "node": part.node_key,
        "day": part.day.isoformat(),
        "seconds": float(part.seconds),
        "usd": _usd(part.usd),
        "prices": [f"{row.usd_per_hour:f} an hour, {row.source}" for row in part.price_rows],
        "is_later_price": part.later_price,
        "is_estimated": part.estimated,
    }


def _in_order(report: OfflineReport) -> list[Judgement]:
    """Return the findings first, by what a fix gives back; then the rest as the rules are
    ordered.
    """
    unknown = RecoverablePart()

    def place(judgement: Judgement) -> tuple[bool, Decimal, float]:
        usd, seconds = report.recovered.get(judgement.rule_id, unknown).weight
        return judgement.verdict.state != "fired", -usd, -seconds

    return sorted(report.judgements, key=place)


def _judgement(judgement: Judgement, report: OfflineReport) -> dict[str, Any]:
    recovered = report.recovered.get(judgement.rule_id, RecoverablePart())
    return (
        {"rule": judgement.rule_id, "version": judgement.version}
        | asdict(judgement.verdict)
        | {
            "waste_seconds_low": recovered.seconds_low,
            "waste_seconds_high": recovered.seconds_high,
            "waste_usd_low": _usd(recovered.usd_low),
            "waste_usd_high": _usd(recovered.usd_high),
            "explained_by": recovered.explained_by,
            "taken": [asdict(each) | {"usd": _usd(each.usd)} for each in recovered.taken],
        }
    )


def _recommendation(advised: Recommendation) -> dict[str, Any]:
    shares = {name: float(share) for name, share in advised.shares_after.items()}
    return {
        name: _usd(value) if name.endswith("_usd") else value
        for name, value in asdict(advised).items()
    } | {"shares_after": shares}


def _usd(amount: Decimal | None) -> str | None:
    return None if amount is None else f"{amount:f}"
