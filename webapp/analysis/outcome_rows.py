"""Writes the outcome of an analysis. Writing the same outcome twice leaves the same rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.utils import timezone

from rules.engine import Judgement as RuleJudgement
from webapp.analysis import ledger_rows, pricing, sharing, stopping, summaries, verdicts
from webapp.analysis.judgement_columns import columns_of, waste_usd
from webapp.analysis.models import CostPart, Judgement
from webapp.analysis.outcome import Outcome
from webapp.runs import progress
from webapp.runs.models import Run


def save(outcome: Outcome) -> None:
    """Write judgements, cost, the run's figures and follow-ups. Call in a transaction."""
    run = Run.objects.select_for_update(of=("self",), no_key=True).get(pk=outcome.run.pk)
    _save_cost(run, outcome)
    _save_figures(run, outcome)
    ledger_rows.save(run, outcome)
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
    """Price the known waste at the new cost. Its seconds were measured when there were samples."""
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
    """Write one row per node and UTC day. Rows of days outside the run are deleted."""
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
        run.summary = summaries.with_figures(run.summary, outcome.measured)
    run.configuration = _configuration(outcome)
    run.summary = summaries.with_prices(run, outcome)
    run.summary = replace(run.summary, **verdicts.keys(run))
    progress.derive(run)
    run.save()


def _configuration(outcome: Outcome) -> dict[str, Any]:
    """The configuration: machines and parameters, which can be tuned without changing the work."""
    nodes = outcome.nodes
    return {
        "instance_type": pricing.instance_types(nodes),
        "node_count": len(nodes),
        "purchase_option": ", ".join(sorted({node.purchase_option for node in nodes})),
        **outcome.run.parameters,
    }
