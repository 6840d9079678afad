"""The life cycle of recommendations: how runs create and change their rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.utils import timezone

from advisor.advice.input_pipeline import RULE as INPUT_BOUND
from advisor.advice.instance_type import KIND as CHANGE_INSTANCE_TYPE
from advisor.recommend import Recommendation as Advised
from webapp.advice.models import Recommendation
from webapp.advice.selectors.recommendations import open_recommendations
from webapp.analysis.models import Judgement
from webapp.runs.models import Job, Run, RunQuerySet


def save(run: Run, advised: Sequence[Advised], is_final: bool) -> None:
    """Keeps one row per job and kind of recommendation. Rows that a person decided on don't change.

    When the newest finished run gives no reason for a recommendation, it was followed ("claimed")
    if the recommended setting has changed, else it has expired. With too little evidence it stays
    open. Deleted runs are ignored.
    """
    if run.deleted_at is not None:
        return
    for each in advised:
        _save_one(run, each, is_final)
    if is_final and run.state == Run.FINISHED and _is_newest(run):
        keys = [each.dedupe_key for each in advised]
        for gone in open_recommendations(run.job).exclude(dedupe_key__in=keys):
            _settle(gone, run)


def move(source: Job, target: Job, runs: RunQuerySet | None, **_: Any) -> None:
    """Move the recommendations from `runs` (None: every run of `source`) to their new job. If both
    jobs have one of the same kind, each keeps its own until the next run."""
    taken = Recommendation.objects.filter(job=target).values("dedupe_key")
    moved = Recommendation.objects.filter(job=source).exclude(dedupe_key__in=taken)
    (moved if runs is None else moved.filter(run__in=runs)).update(job=target)


def _settle(gone: Recommendation, run: Run) -> None:
    followed = _looks_followed(gone, run)
    if followed is None:
        return
    gone.state = Recommendation.CLAIMED if followed else Recommendation.EXPIRED
    gone.claimed_by = run if followed else None
    gone.changed_at = timezone.now()
    gone.save(update_fields=["state", "claimed_by", "changed_at"])


def _looks_followed(gone: Recommendation, run: Run) -> bool | None:
    """None: unknown from this run."""
    if gone.kind == CHANGE_INSTANCE_TYPE:
        before = gone.run.configuration.get("instance_type")
        return bool(run.configuration.get("instance_type") != before)
    judged = Judgement.objects.filter(run=run, rule=INPUT_BOUND).first()
    return True if judged is not None and judged.state == Judgement.PASSED else None


def _save_one(run: Run, advised: Advised, is_final: bool) -> None:
    own = Recommendation.objects.filter(job=run.job)
    known = own.filter(dedupe_key=advised.dedupe_key).first()
    if known is not None and not _may_be_renewed(known, run):
        return
    Recommendation.objects.update_or_create(
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
            "state": Recommendation.ACTIVE,
            "claimed_by": None,
            "is_provisional": not is_final,
            "changed_at": timezone.now(),
        },
    )


def _may_be_renewed(known: Recommendation, run: Run) -> bool:
    """Whether a newer run, or its own run again, may change it. A person's decision is kept."""
    if known.run.deleted_at is None and _order(known.run) > _order(run):
        return False
    if known.state == Recommendation.CLAIMED:
        return known.claimed_by is None or _order(run) > _order(known.claimed_by)
    return known.state in (Recommendation.ACTIVE, Recommendation.EXPIRED)


def _order(run: Run) -> tuple[datetime, int]:
    return run.began_at, run.number


def _is_newest(run: Run) -> bool:
    return not run.job.present_runs.after(run).filter(state=Run.FINISHED).exists()
