"""Counts what earlier versions stored as saved again, as background work.

They credited a run's saving to each recommendation that it followed, and opened a new one whenever
a run went back. What a person decided stays.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from datetime import timedelta
from decimal import Decimal

from django.db import transaction
from django.db.models import F, Sum
from django.urls import reverse

from webapp.accounts.models import Workspace
from webapp.advice.life_cycle import followed_before
from webapp.advice.models import Recommendation, SavingsRecount
from webapp.advice.scope import realised_savings_of
from webapp.advice.settling import UNCLAIMED, settle
from webapp.background import claims
from webapp.background.kinds import WorkKind, WorkLimits
from webapp.runs import locks
from webapp.runs.models import Job

KIND = WorkKind(
    id="savings_recount",
    title="Counting savings again",
    model=SavingsRecount,
    work="webapp.advice.recounting.recount_savings",
    key="workspace_id",
    limits=WorkLimits(
        # The lease is renewed with each job.
        lease=timedelta(minutes=2),
        max_attempts=10,
        first_pause=timedelta(minutes=1),
        longest_pause=timedelta(minutes=30),
    ),
    workspace="workspace",
    subject=lambda _: "All followed recommendations of the workspace",
    address=lambda _: reverse("spend:savings"),
    related=("workspace",),
)

logger = logging.getLogger(__name__)


def note_of(workspace: Workspace) -> SavingsRecount | None:
    """Return what the savings page says about the count; None: it changed nothing, or a person
    closed it."""
    untold = SavingsRecount.objects.filter(workspace=workspace, is_told=False)
    return untold.exclude(after_usd=F("before_usd")).first()


def close_note(workspace: Workspace) -> None:
    SavingsRecount.objects.filter(workspace=workspace).update(is_told=True)


def recount_savings(workspace_id: int, **which: object) -> bool:
    """Derive every realised saving of the workspace again. Repeating it changes nothing."""
    held = claims.claim(KIND, workspace_id, **which)
    if held is None:
        return False
    try:
        workspace = held.row.workspace
        for job in Job.objects.filter(
            workspace=workspace, recommendations__isnull=False
        ).distinct():
            _count_job_again(job)
            claims.renew(held)
        claims.finish_work(held, after_usd=_proven_usd(workspace))
    except Exception as error:
        logger.exception("counting savings again failed", extra={"workspace": workspace_id})
        claims.fail(held, error)
    return True


@transaction.atomic
def _count_job_again(job: Job) -> None:
    held = locks.job(job.pk)
    settle(held, is_whole=True)
    if _continue_earlier_ones(held):
        settle(held, is_whole=True)


def _continue_earlier_ones(job: Job) -> bool:
    """End the recommendations that were opened because a run went back: runs that follow them
    continue the one that was followed before. Returns whether there were any."""
    rows = Recommendation.objects.filter(job=job, is_provisional=False, decided_by="")
    related = rows.select_related("run", "claimed_by").order_by("pk")
    kept: dict[str, list[Recommendation]] = defaultdict(list)
    ended = 0
    for row in sorted(related, key=lambda row: (row.run.began_at, row.run.number)):
        before = followed_before(kept[row.dedupe_key], row.run)
        if before is None:
            kept[row.dedupe_key].append(row)
        elif row.state != Recommendation.EXPIRED:
            _end(row, before)
            ended += 1
    return ended > 0


def _end(row: Recommendation, before: Recommendation) -> None:
    if row.state == Recommendation.ACTIVE:
        before.reopened_by, before.monthly_saving_usd = row.run, row.monthly_saving_usd
        before.save(update_fields=["reopened_by", "monthly_saving_usd"])
    for name, value in UNCLAIMED.items():
        setattr(row, name, value)
    row.state, row.expired_by = Recommendation.EXPIRED, row.run
    row.state_reason = f"Counted with the recommendation from run #{before.run.number}."
    row.save()
    row.savings.all().delete()
    row.not_followed_by.clear()


def _proven_usd(workspace: Workspace) -> Decimal:
    saved = realised_savings_of(workspace).filter(recommendation__state__in=Recommendation.PROVEN)
    return saved.order_by().aggregate(usd=Sum("usd"))["usd"] or Decimal(0)
