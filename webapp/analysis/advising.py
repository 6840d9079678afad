"""Recommendations: what the advisor needs from rows, and the rows that its advice becomes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.utils import timezone

from advisor.advice.input_pipeline import RULE as INPUT_BOUND
from advisor.advice.instance_type import KIND as CHANGE_INSTANCE_TYPE
from advisor.cost import RunCost
from advisor.figures import Figures
from advisor.pricing.book import PriceBook
from advisor.recommend import Recommendation, recommend
from advisor.sizing.demand import PRESETS, Demand
from rules.engine import Judgement
from webapp.advice import models as rows
from webapp.analysis import pricing, queue
from webapp.prices.machines import catalogue_in
from webapp.runs.models import Job, Node, Run

RECENT = timedelta(days=30)


def recommendations(
    run: Run,
    nodes: Sequence[Node],
    judgements: list[Judgement],
    cost: RunCost,
    measured: Figures,
    book: PriceBook,
) -> list[Recommendation]:
    """What this run gives reason for; nothing for a run that failed or was stopped."""
    if run.state in (Run.FAILED, Run.STOPPED) or run.duration is None:
        return []
    demand = _demand(run, nodes, measured)
    return recommend(
        judgements,
        demand,
        cost.total_usd,
        run.duration.total_seconds(),
        _recent_costs_usd(run, nodes, judgements, cost),
        book,
        catalogue_in(demand.region if demand else ""),
        timezone.now(),
        PRESETS[run.workspace.preset],
    )


def save(run: Run, found: list[Recommendation], is_final: bool) -> None:
    """One row a job and kind of advice; what a person has decided on stays as it is.

    Once the newest finished run gives no reason for it any more, advice was followed ("claimed")
    if what it asked to change has changed, and has expired if not. Too little evidence is no
    reason to give it up. A deleted run advises nothing.
    """
    if run.deleted_at is not None:
        return
    for advised in found:
        _save_one(run, advised, is_final)
    if is_final and run.state == Run.FINISHED and _is_newest(run):
        open_ones = run.job.recommendations.filter(
            state=rows.Recommendation.ACTIVE, run__deleted_at=None
        )
        keys = [advised.dedupe_key for advised in found]
        for gone in open_ones.exclude(dedupe_key__in=keys).select_related("run"):
            _settle(gone, run)


def advise_again(job: Job, **_: Any) -> None:
    """Have the newest finished run of a job analysed once more: advice that came from a run which
    is no longer there is renewed from it. Call in a transaction."""
    newest = job.present_runs.filter(state=Run.FINISHED).newest_first().first()
    if newest is not None:
        queue.want(newest)
        queue.enqueue_on_commit(newest)


def _settle(gone: rows.Recommendation, run: Run) -> None:
    followed = _looks_followed(gone, run)
    if followed is None:
        return
    gone.state = rows.Recommendation.CLAIMED if followed else rows.Recommendation.EXPIRED
    gone.claimed_by = run if followed else None
    gone.changed_at = timezone.now()
    gone.save(update_fields=["state", "claimed_by", "changed_at"])


def _looks_followed(gone: rows.Recommendation, run: Run) -> bool | None:
    """None: this run doesn't tell."""
    if gone.kind == CHANGE_INSTANCE_TYPE:
        before = gone.run.configuration.get("instance_type")
        return bool(run.configuration.get("instance_type") != before)
    judged = run.judgements.filter(rule=INPUT_BOUND).first()
    return True if judged is not None and judged.state == "passed" else None


def _save_one(run: Run, advised: Recommendation, is_final: bool) -> None:
    known = run.job.recommendations.filter(dedupe_key=advised.dedupe_key).first()
    if known is not None and not _may_be_renewed(known, run):
        return
    rows.Recommendation.objects.update_or_create(
        job=run.job,
        dedupe_key=advised.dedupe_key,
        defaults={
            "run": run,
            "kind": advised.kind,
            "title": advised.title,
            "change": advised.change,
            "saving_low_usd": advised.saving_low_usd,
            "saving_usd": advised.saving_usd,
            "saving_high_usd": advised.saving_high_usd,
            "monthly_saving_usd": advised.monthly_saving_usd,
            "risk": advised.risk,
            "risk_dimension": advised.risk_dimension,
            "effort": advised.effort,
            "evidence": advised.evidence,
            "assumptions": advised.assumptions,
            "candidates": advised.candidates,
            "state": rows.Recommendation.ACTIVE,
            "claimed_by": None,
            "is_provisional": not is_final,
            "changed_at": timezone.now(),
        },
    )


def _may_be_renewed(known: rows.Recommendation, run: Run) -> bool:
    """By a newer run, or by its own again; but never against what a person decided."""
    if known.run.deleted_at is None and _order(known.run) > _order(run):
        return False
    if known.state == rows.Recommendation.CLAIMED:
        return known.claimed_by is None or _order(run) > _order(known.claimed_by)
    return known.state in (rows.Recommendation.ACTIVE, rows.Recommendation.EXPIRED)


def _order(run: Run) -> tuple[datetime, int]:
    return run.began_at, run.number


def _is_newest(run: Run) -> bool:
    return not run.job.present_runs.after(run).filter(state=Run.FINISHED).exists()


def _demand(run: Run, nodes: Sequence[Node], measured: Figures) -> Demand | None:
    """None where CPU or memory wasn't measured, or the nodes aren't alike."""
    keys = {pricing.price_key(node) for node in nodes}
    if len(keys) != 1 or measured.cores_busy_p95 is None or measured.memory_p99_bytes is None:
        return None
    key = keys.pop()
    assert run.duration is not None  # noqa: S101 - the caller looked
    return Demand(
        cores_busy_p95=measured.cores_busy_p95,
        memory_p99_bytes=measured.memory_p99_bytes,
        gpus=max(_allocated_gpus(node) for node in nodes),
        duration_seconds=run.duration.total_seconds(),
        instance_type=key.instance_type,
        region=key.region,
        service=key.service,
        provider=key.provider,
        purchase_option=key.purchase_option,
        node_count=len(nodes),
    )


def _allocated_gpus(node: Node) -> int:
    return sum(1 for gpu in node.gpus if gpu.get("allocated", True))


def _recent_costs_usd(
    run: Run, nodes: Sequence[Node], judgements: list[Judgement], cost: RunCost
) -> list[Decimal]:
    """Of the job's priced runs of the last 30 days that were like this one, which is among them.

    Like it: on the same machines, and waiting for data if this one did. A month's saving over
    runs that had nothing to save would be a promise that can't be kept.
    """
    since = timezone.now() - RECENT
    others = run.job.present_runs.filter(
        started_at__gte=since,
        cost_usd__isnull=False,
        configuration__instance_type=pricing.instance_types(nodes),
    ).exclude(pk=run.pk)
    if any(j.rule_id == INPUT_BOUND and j.verdict.state == "fired" for j in judgements):
        others = others.filter(judgements__rule=INPUT_BOUND, judgements__state="fired")
    costs = list(others.values_list("cost_usd", flat=True))
    is_recent = run.started_at is not None and run.started_at >= since
    if is_recent and cost.total_usd is not None:
        costs.append(cost.total_usd)
    return [usd for usd in costs if usd is not None]
