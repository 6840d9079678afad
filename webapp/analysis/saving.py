"""Writes the outcome of an analysis. Writing the same outcome twice leaves the same rows."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.utils import timezone

from rules.engine import Judgement as RuleJudgement
from webapp.analysis import advising, pricing
from webapp.analysis.evaluation import Outcome
from webapp.analysis.models import CostPart, Judgement
from webapp.runs import progress
from webapp.runs.models import Node, Run


def save(outcome: Outcome) -> None:
    """Judgements, cost, the run's figures and its recommendations; call in a transaction."""
    run = Run.objects.select_for_update(of=("self",)).get(pk=outcome.run.pk)
    for judgement in outcome.judgements:
        _save_judgement(run, judgement, outcome)
    _save_cost(run, outcome)
    _save_figures(run, outcome)
    advising.save(run, outcome.recommendations, outcome.is_final)


def _save_judgement(run: Run, judged: RuleJudgement, outcome: Outcome) -> None:
    verdict, numbers = judged.verdict, judged.numbers
    fired = verdict.state == Judgement.FIRED
    known = Judgement.objects.filter(run=run, rule=judged.rule_id).first()
    since = (known.first_fired_at if known else None) or timezone.now()
    Judgement.objects.update_or_create(
        run=run,
        rule=judged.rule_id,
        defaults={
            "rule_version": judged.version,
            "values_hash": judged.values_hash,
            "values": dict(judged.values),
            "numbers": numbers.to_document(),
            "state": verdict.state,
            "severity": verdict.severity,
            "summary": verdict.summary,
            "advice": verdict.advice,
            "waste_seconds_low": verdict.waste_seconds_low,
            "waste_seconds_high": verdict.waste_seconds_high,
            "waste_usd_low": _waste_usd(outcome, verdict.waste_seconds_low),
            "waste_usd_high": _waste_usd(outcome, verdict.waste_seconds_high),
            "dedupe_key": verdict.dedupe_key,
            "is_provisional": not outcome.is_final,
            "first_fired_at": since if fired else None,
            "judged_at": timezone.now(),
        },
    )


def _waste_usd(outcome: Outcome, waste_seconds: float) -> Decimal | None:
    """The run's cost in proportion to its time; None: no price."""
    total, duration = outcome.cost.total_usd, outcome.run.duration
    if total is None or duration is None or not duration:
        return None
    share = Decimal(str(waste_seconds)) / Decimal(str(duration.total_seconds()))
    return total * min(share, Decimal(1))


def _save_cost(run: Run, outcome: Outcome) -> None:
    """One row per node and UTC day. Rows of days that are no longer part of the run go."""
    nodes = {node.key: node for node in outcome.nodes}
    kept = []
    for part in outcome.cost.parts:
        row, _ = CostPart.objects.update_or_create(
            node=nodes[part.node_key],
            day=part.day,
            defaults={
                "run": run,
                "microseconds": int(part.seconds * 1_000_000),
                "usd": part.usd,
                "is_later_price": part.later_price,
                "is_estimated": part.estimated,
            },
        )
        row.prices.set([price.id for price in part.price_rows if price.id is not None])
        kept.append(row.pk)
    CostPart.objects.filter(run=run).exclude(pk__in=kept).delete()
    run.cost_usd = outcome.cost.total_usd


def _save_figures(run: Run, outcome: Outcome) -> None:
    run.work = outcome.figures.work
    run.metrics = outcome.figures.metrics
    run.configuration = _configuration(outcome)
    run.summary = _summary(run, outcome)
    progress.derive(run)
    run.save()


def _configuration(outcome: Outcome) -> dict[str, Any]:
    """What may be tuned without changing the work: the machines, and the parameters."""
    nodes = outcome.nodes
    return {
        "instance_type": pricing.instance_types(nodes),
        "node_count": len(nodes),
        "purchase_option": ", ".join(sorted({node.purchase_option for node in nodes})),
        **outcome.run.parameters,
    }


def _summary(run: Run, outcome: Outcome) -> dict[str, Any]:
    """What lists and headlines show; see `Run.summary`."""
    found, cost = outcome.figures, outcome.cost
    parts = cost.parts
    return {
        "steps": found.steps,
        "step_seconds_p50": found.step_seconds_p50,
        "data_wait_share": found.data_wait_share,
        "cpu_busy_p95_pct": found.cpu_busy_p95_pct,
        "cores_busy_p95": found.cores_busy_p95,
        "memory_p99_bytes": found.memory_p99_bytes,
        "gpu_busy_p95_pct": found.gpu_busy_p95_pct,
        "phase_seconds": found.phase_seconds,
        "usd_per_hour": _usd_per_hour(outcome),
        "price_source": ", ".join(sorted({row.source for p in parts for row in p.price_rows})),
        "is_later_price": any(part.later_price for part in parts),
        "is_estimated": any(part.estimated for part in parts),
        "missing": _missing(outcome),
        "node_count": len(outcome.nodes),
        "instance_types": sorted({node.instance_type for node in outcome.nodes} - {""}),
        "missing_segments": progress.missing_segments(run),
        "unreadable": len(outcome.unreadable),
    }


def _missing(outcome: Outcome) -> list[str]:
    """Why there is no price, node by node."""
    unpriced = [node for node in outcome.nodes if node.key in outcome.cost.missing]
    return [f"{node}: {_why_unpriced(node)}" for node in unpriced]


def _why_unpriced(node: Node) -> str:
    if not node.instance_type:
        return "its instance type was not declared"
    option = node.purchase_option.replace("_", "-")
    where = node.region or "a region that was not declared"
    return f"no {option} price of {node.instance_type} in {where}"


def _usd_per_hour(outcome: Outcome) -> str | None:
    """The price of one node at the start of the run, where all nodes are alike."""
    keys = {pricing.price_key(node) for node in outcome.nodes}
    if len(keys) != 1 or outcome.run.started_at is None:
        return None
    priced = outcome.book.price_at(keys.pop(), outcome.run.started_at)
    return None if priced is None else str(priced.row.usd_per_hour)
