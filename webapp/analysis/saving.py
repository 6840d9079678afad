"""Writes the outcome of an analysis. Writing the same outcome twice leaves the same rows."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from django.utils import timezone

from advisor.cost import cost_of_run
from advisor.cost_notes import notes
from advisor.spend import projection, usd_by_phase
from rules.engine import Judgement as RuleJudgement
from webapp.analysis import ledger, pricing, sharing, stopping, verdicts
from webapp.analysis.judged import columns_of, waste_usd
from webapp.analysis.models import CostPart, Judgement
from webapp.analysis.outcome import Measured, Outcome
from webapp.runs import progress
from webapp.runs.models import Node, Run


def save(outcome: Outcome) -> None:
    """Judgements, cost, the run's figures and what follows from them; call in a transaction."""
    run = Run.objects.select_for_update(of=("self",), no_key=True).get(pk=outcome.run.pk)
    _save_cost(run, outcome)
    _save_figures(run, outcome)
    ledger.save(run, outcome)
    if outcome.is_final and run.state == Run.FINISHED:
        verdicts.judge(run)
    # After every run that is locked: see `locks`.
    sharing.count_neighbours_again(run, outcome.nodes)
    if outcome.measured is None:
        _price_waste_again(run, outcome)
        return
    for judgement in outcome.measured.judgements:
        _save_judgement(run, judgement, outcome)
    for follow_up in outcome.follow_ups:
        follow_up(run)
    if outcome.run.started_at is not None:
        since = outcome.run.started_at
        stopping.ask(run, outcome.nodes, outcome.measured.judgements, since)


def _price_waste_again(run: Run, outcome: Outcome) -> None:
    """The seconds were measured when there were samples; their dollars follow the cost."""
    known = outcome.cost.total_usd, outcome.run.duration
    for row in run.judgements.all():
        row.waste_usd_low = waste_usd(row.waste_seconds_low, *known)
        row.waste_usd_high = waste_usd(row.waste_seconds_high, *known)
        row.save(update_fields=["waste_usd_low", "waste_usd_high"])


def _save_judgement(run: Run, judged: RuleJudgement, outcome: Outcome) -> None:
    fired = judged.verdict.state == Judgement.FIRED
    known = Judgement.objects.filter(run=run, rule=judged.rule_id).first()
    since = (known.first_fired_at if known else None) or timezone.now()
    Judgement.objects.update_or_create(
        run=run,
        rule=judged.rule_id,
        defaults={
            **columns_of(judged, outcome.cost.total_usd, outcome.run.duration),
            "is_provisional": not outcome.is_final,
            "first_fired_at": since if fired else None,
            "judged_at": timezone.now(),
        },
    )


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
    if outcome.measured is not None:
        run.work = outcome.measured.figures.work
        run.metrics = outcome.measured.figures.metrics
        run.metric_progress = outcome.measured.figures.metric_progress
        kept = {name: run.summary[name] for name in ("verdict",) if name in run.summary}
        run.summary = kept | _found(outcome.measured)
    run.configuration = _configuration(outcome)
    run.summary = run.summary | _priced(run, outcome) | verdicts.keys(run)
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


def _found(measured: Measured) -> dict[str, Any]:
    """What lists and headlines show of the samples; see `Run.summary`."""
    figures = measured.figures
    return {
        "steps": figures.steps,
        "step_seconds_p50": figures.step_seconds_p50,
        "data_wait_share": figures.data_wait_share,
        "cpu_busy_p95_pct": figures.cpu_busy_p95_pct,
        "cores_busy_p95": figures.cores_busy_p95,
        "memory_p99_bytes": figures.memory_p99_bytes,
        "gpu_busy_p95_pct": figures.gpu_busy_p95_pct,
        "phase_seconds": figures.phase_seconds,
        "unreadable": len(measured.unreadable),
    }


def _priced(run: Run, outcome: Outcome) -> dict[str, Any]:
    """What lists and headlines show of machines and prices."""
    parts = outcome.cost.parts
    rows = [row for part in parts for row in part.price_rows]
    return {
        "usd_per_hour": _usd_per_hour(outcome),
        "basis": "list" if all(row.is_list for row in rows) else "your rate",
        "list_usd": _list_usd(outcome),
        "phase_usd": _phase_usd(run, outcome),
        "projected": _projected(run, outcome),
        "cost_notes": notes(outcome.uses, _own_shares(outcome), parts),
        "price_source": ", ".join(sorted({row.source for row in rows})),
        "is_later_price": any(part.later_price for part in parts),
        "is_estimated": any(part.estimated for part in parts),
        "missing": _missing(outcome),
        "node_count": len(outcome.nodes),
        "instance_types": sorted({node.instance_type for node in outcome.nodes} - {""}),
        "missing_segments": progress.missing_segments(run),
    }


def _phase_usd(run: Run, outcome: Outcome) -> dict[str, str]:
    """What each phase cost; empty: no price, or no phases."""
    phases, total = run.summary.get("phase_seconds") or {}, outcome.cost.total_usd
    length = outcome.run.duration
    if total is None or length is None or not phases:
        return {}
    parts = usd_by_phase(total, phases, length.total_seconds())
    return {name: str(usd) for name, usd in parts.items()}


def _own_shares(outcome: Outcome) -> dict[str, Fraction]:
    return {node.key: pricing.share(node) for node in outcome.nodes}


def _projected(run: Run, outcome: Outcome) -> dict[str, Any] | None:
    """What a running run will cost, where it says how much it will do."""
    total, length = outcome.cost.total_usd, outcome.run.duration
    if outcome.run.has_ended or total is None or length is None:
        return None
    train_seconds = (run.summary.get("phase_seconds") or {}).get("train", 0.0)
    planned = run.parameters
    projected = projection(total, length.total_seconds(), train_seconds, run.work, planned)
    return projected.to_document() if projected else None


def _missing(outcome: Outcome) -> list[str]:
    """Why there is no price, node by node."""
    unpriced = [node for node in outcome.nodes if node.key in outcome.cost.missing]
    return [f"{node}: {_why_unpriced(node)}" for node in unpriced]


def _why_unpriced(node: Node) -> str:
    if not node.instance_type:
        return "its instance type was not declared, and no rate of your own covers it"
    option = node.purchase_option.replace("_", "-")
    where = node.region or "a region that was not declared"
    return f"no {option} price of {node.instance_type} in {where}"


def _usd_per_hour(outcome: Outcome) -> str | None:
    """The price of one node at the start of the run, where all nodes are alike."""
    kinds = {(pricing.price_key(node), pricing.units(node)) for node in outcome.nodes}
    if len(kinds) != 1 or outcome.run.started_at is None:
        return None
    key, units = kinds.pop()
    priced = outcome.book.price_at(key, outcome.run.started_at)
    return None if priced is None else str(priced.row.usd_per_hour * units)


def _list_usd(outcome: Outcome) -> str | None:
    """The run's cost before discounts and own rates; None: no list price."""
    total = outcome.cost.total_usd
    if outcome.book.has_own_rates:
        total = cost_of_run(outcome.uses, outcome.book.at_list()).total_usd
    return None if total is None else str(total)
