"""Prepares recommendations: reads the rows that the advisor needs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal

from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from advisor.advice import checkpointing
from advisor.advice.input_pipeline import RULE as INPUT_BOUND
from advisor.advice.recommendation import Spending
from advisor.costing.cost import RunCost
from advisor.costing.recoverable import node_costs, recoverable_by_rule
from advisor.pricing.catalogue import Catalogue
from advisor.recommend import AdvisedRun, Market, Recommendation, recommend
from advisor.sizing.demand import PRESETS, Demand, demand_of
from advisor.sizing.interruptions import InterruptionRate
from advisor.sizing.other_gpus import SpeedEvidence
from rules.engine import Judgement as RuleJudgement
from webapp.advice import life_cycle, settling
from webapp.advice.calibrating import calibrate
from webapp.advice.selectors.interruptions import rate_of
from webapp.advice.selectors.purchases import allowed_for, book_for
from webapp.advice.selectors.speed_evidence import evidence_from
from webapp.analysis.models import Judgement
from webapp.analysis.outcome import FollowUp, Outcome
from webapp.analysis.pricing import machine_uses
from webapp.measurements import measuring
from webapp.measurements.selectors.evidence import evidence_with
from webapp.prices.machines import catalogue_for, catalogue_in
from webapp.runs.history import facts
from webapp.runs.models import Node, Run

RECENT = timedelta(days=30)


def prepare(outcome: Outcome) -> FollowUp:
    """Return the advisor's recommendations for an analysed run, to be saved with the analysis. A
    run that wasn't read has none, but its cost counts. A probe renews those of its job.
    """
    if outcome.run.is_probe:
        return lambda run: life_cycle.queue_advice(run.job) if outcome.is_final else None
    if outcome.measured is None or outcome.measured.too_large:
        return lambda run: settling.settle(run.job)
    advised = calibrate(recommendations(outcome), outcome)
    return lambda run: life_cycle.save(run, advised, outcome.is_final)


def recommendations(outcome: Outcome) -> list[Recommendation]:
    """Return the recommendations from a run; none if it failed, was stopped, wasn't measured or is
    a probe.
    """
    run, measured = outcome.run, outcome.measured
    if (
        run.is_probe
        or run.state in (Run.FAILED, Run.STOPPED)
        or run.duration is None
        or measured is None
    ):
        return []
    machines = [facts(node) for node in outcome.nodes]
    demand = demand_of(
        machines, measured.figures, run.duration.total_seconds(), run.began_at.date()
    )
    now, duration_seconds = timezone.now(), run.duration.total_seconds()
    # Without a price no advice asks what other runs cost, or how fast other machines are.
    has_price = outcome.cost.total_usd is not None
    advised = AdvisedRun(
        measured.judgements,
        demand,
        Spending(
            outcome.cost.total_usd,
            duration_seconds,
            tuple(_recent_costs_usd(run, outcome.nodes, measured.judgements, outcome.cost))
            if has_price
            else (),
        ),
        measured.speed,
        _interrupted(run, demand, measured.judgements),
        recoverable_by_rule(
            measured.judgements, measured.ledger, duration_seconds, node_costs(outcome.cost)
        ),
    )
    market = Market(
        book_for(run.workspace, demand, outcome.book),
        _catalogue(run, demand),
        now,
        allowed_for(run, demand, outcome.nodes, outcome.book, now),
    )
    evidence = _evidence(outcome, demand) if has_price else SpeedEvidence()
    return recommend(advised, market, evidence, PRESETS[run.workspace.preset])


def _catalogue(run: Run, demand: Demand | None) -> Catalogue:
    if demand is None:
        return catalogue_in("")
    return catalogue_for(run.workspace, demand.region, demand.provider)


def _interrupted(
    run: Run, demand: Demand | None, judgements: Sequence[RuleJudgement]
) -> InterruptionRate | None:
    """Return how often nodes like the run's are interrupted; None if too little is known, or no
    advice depends on it.
    """
    if demand is None or not checkpointing.saves(judgements):
        return None
    return rate_of(run.workspace, demand, timezone.now())


def _evidence(outcome: Outcome, demand: Demand | None) -> SpeedEvidence:
    """Return what was measured of the job, this run included if its reference ran on the GPUs of
    this run, and of the workspace's other jobs.
    """
    if demand is None:
        return SpeedEvidence()
    return evidence_from(
        outcome.run, evidence_with(outcome.run.job, measuring.measurement_of(outcome)), demand
    )


def _recent_costs_usd(
    run: Run, nodes: Sequence[Node], judgements: list[RuleJudgement], cost: RunCost
) -> list[Decimal]:
    """Return the costs of the job's priced runs of the last 30 days that are like this one,
    including it.

    Like it: on the same machines, and waiting for data if this run did. Runs that had nothing to
    save must not count in a month's saving.
    """
    since = timezone.now() - RECENT
    others = run.job.compared_runs.filter(
        started_at__gte=since,
        cost_usd__isnull=False,
        configuration__instance_type=machine_uses.instance_types(nodes),
    ).exclude(pk=run.pk)
    if any(j.rule_id == INPUT_BOUND and j.verdict.state == Judgement.FIRED for j in judgements):
        others = others.filter(Exists(_fired(INPUT_BOUND).filter(run=OuterRef("pk"))))
    costs = list(others.values_list("cost_usd", flat=True))
    is_recent = run.started_at is not None and run.started_at >= since
    if is_recent and cost.total_usd is not None:
        costs.append(cost.total_usd)
    return [usd for usd in costs if usd is not None]


def _fired(rule: str) -> QuerySet[Judgement]:
    return Judgement.objects.filter(rule=rule, state=Judgement.FIRED)
