"""Converts a report to a JSON document. Money is text, so that no digit is lost."""

from __future__ import annotations

from dataclasses import asdict
from decimal import Decimal
from typing import Any

from advisor.costing.cost import CostPart
from advisor.offline.analysis import Report
from advisor.offline.nodes import Node
from advisor.recommend import Recommendation
from rules.engine import Judgement


def as_document(report: Report) -> dict[str, Any]:
    """The whole report."""
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
        "cost_usd": _usd(report.cost.total_usd),
        "missing_prices": list(report.cost.missing),
        "cost_parts": [_part(part) for part in report.cost.parts],
        "cost_notes": report.cost_notes,
        "ledger": [
            {"label": line.label, "node_seconds": line.node_seconds, "usd": _usd(line.usd)}
            for line in report.ledger
        ],
        "figures": asdict(report.figures),
        "judgements": [_judgement(judgement) for judgement in report.judgements],
        "recommendations": [_recommendation(advised) for advised in report.recommendations],
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


def _judgement(judgement: Judgement) -> dict[str, Any]:
    return {"rule": judgement.rule_id, "version": judgement.version} | asdict(judgement.verdict)


def _recommendation(advised: Recommendation) -> dict[str, Any]:
    return {
        name: _usd(value) if name.endswith("_usd") else value
        for name, value in asdict(advised).items()
    }


def _usd(amount: Decimal | None) -> str | None:
    return None if amount is None else f"{amount:f}"
