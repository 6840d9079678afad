"""Prepares recommendations: reads the rows that the advisor needs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from advisor.advice.input_pipeline import RULE as INPUT_BOUND
from advisor.costing.cost import RunCost
from advisor.recommend import Recommendation, recommend
from advisor.sizing.demand import PRESETS, demand_of
from rules.engine import Judgement as RuleJudgement
from webapp.advice import life_cycle
from webapp.analysis import pricing, queue
from webapp.analysis.models import Judgement
from webapp.analysis.outcome import FollowUp, Outcome
from webapp.prices.machines import catalogue_in
from webapp.runs.history import facts
from webapp.runs.models import Job, Node, Run

RECENT = timedelta(days=30)


def prepare(outcome: Outcome) -> FollowUp:
    """The advisor's recommendations for an analysed run, to be saved with the analysis."""
    advised = recommendations(outcome)
    return lambda run: life_cycle.save(run, advised, outcome.is_final)


def recommendations(outcome: Outcome) -> list[Recommendation]:
    """The recommendations from a run; none if it failed, was stopped or wasn't measured."""
    run, measured = outcome.run, outcome.measured
    if run.state in (Run.FAILED, Run.STOPPED) or run.duration is None or measured is None:
        return []
    machines = [facts(node) for node in outcome.nodes]
    demand = demand_of(machines, measured.figures, run.duration.total_seconds())
    return recommend(
        measured.judgements,
        demand,
        outcome.cost.total_usd,
        run.duration.total_seconds(),
        _recent_costs_usd(run, outcome.nodes, measured.judgements, outcome.cost),
        outcome.book,
        catalogue_in(demand.region, demand.provider) if demand else catalogue_in(""),
        timezone.now(),
        PRESETS[run.workspace.preset],
    )


def advise_again(job: Job, **_: Any) -> None:
    """Queue the newest finished run of a job, to renew recommendations from a run that was deleted
    or moved. Call in a transaction."""
    newest = job.present_runs.filter(state=Run.FINISHED).newest_first().first()
    if newest is not None:
        queue.want(newest)
        queue.enqueue_on_commit(newest)


def _recent_costs_usd(
    run: Run, nodes: Sequence[Node], judgements: list[RuleJudgement], cost: RunCost
) -> list[Decimal]:
    """The costs of the job's priced runs of the last 30 days that are like this one, including it.

    Like it: on the same machines, and waiting for data if this run did. Runs that had nothing to
    save must not count in a month's saving.
    """
    since = timezone.now() - RECENT
    others = run.job.present_runs.filter(
        started_at__gte=since,
        cost_usd__isnull=False,
        configuration__instance_type=pricing.instance_types(nodes),
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
