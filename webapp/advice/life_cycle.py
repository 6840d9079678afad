"""The life cycle of recommendations: how runs create, renew and end their rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from django.db.models import CharField, Q, QuerySet, prefetch_related_objects
from django.utils import timezone

from advisor.proof.followers import follows, has_gone_back
from advisor.proof.ledger import COUNTED
from advisor.recommend import Recommendation as Advised
from webapp.advice import estimates, evidence
from webapp.advice.models import Recommendation
from webapp.advice.settling import UNCLAIMED, settle
from webapp.analysis import queue
from webapp.database.prepared import Models, Slot
from webapp.runs.models import Job, Run, RunQuerySet

COPIED = (
    "kind",
    "title",
    "change",
    "saving_low_usd",
    "saving_usd",
    "saving_high_usd",
    "monthly_saving_usd",
    "risk",
    "risk_dimension",
    "risk_reason",
    "effort",
    "evidence",
    "assumptions",
    "candidates",
    "rung",
    "how_to_apply",
    "conflicts_with",
    "rules",
)
OPEN = (Recommendation.ACTIVE, Recommendation.SNOOZED)


def save(run: Run, advised: Sequence[Advised], is_final: bool) -> None:
    """Write what a run gives reason for, and what the job's runs tell of all its recommendations.
    Call in a transaction that has the job locked. Deleted runs and probes are ignored.

    What the run followed is claimed first, so that its own advice of that kind gets a new row. Has
    the run gone back to what was before, its advice opens the one that was followed again.

    One that the newest finished run gives no reason for has expired, if no run followed it. With
    too little evidence it stays open.
    """
    if run.deleted_at is not None or run.is_probe:
        return
    # What a running run shows proves nothing yet.
    if is_final:
        settle(run.job)
    for each in advised:
        _save_one(run, each, is_final)
    if is_final:
        if advised:
            settle(run.job)
        _expire_own(run, [each.dedupe_key for each in advised])
        _expire_earlier(run.job)


def move(source: Job, target: Job, runs: RunQuerySet | None, **_: Any) -> None:
    """Move the recommendations from `runs` (None: every run of `source`) to their new job. If both
    jobs have an open one of the same kind, each keeps its own until the next run."""
    taken = Recommendation.objects.filter(job=target, state__in=OPEN).values("dedupe_key")
    conflicting = Q(state__in=OPEN, dedupe_key__in=taken)
    moved = Recommendation.objects.filter(job=source).exclude(conflicting)
    (moved if runs is None else moved.filter(run__in=runs)).update(job=target)


def queue_advice(job: Job, **_: Any) -> None:
    """Queue the newest finished run of a job, to renew its recommendations, because a run was
    deleted or moved, or a probe measured something. Call in a transaction.
    """
    newest = job.compared_runs.filter(state=Run.FINISHED).newest_first().first()
    if newest is not None:
        queue.queue_run(newest, is_upload=False)
        queue.enqueue_on_commit(newest)


def _save_one(run: Run, advised: Advised, is_final: bool) -> None:
    known = _known(job=run.job_id, dedupe_key=advised.dedupe_key)
    prefetch_related_objects(known, "run", "claimed_by")
    if any(_is_answered(row, run) for row in known):
        return
    followed = followed_before(known, run)
    if followed is not None:
        _reopen(followed, run, advised)
        return
    row = _undecided(known) or Recommendation(job=run.job, dedupe_key=advised.dedupe_key)
    if row.pk is None or not _is_renewed_later(row, run):
        _renew(row, run, advised, is_final)


def _renew(row: Recommendation, run: Run, advised: Advised, is_final: bool) -> None:
    for name in COPIED:
        setattr(row, name, getattr(advised, name))
    row.run, row.is_provisional, row.changed_at = run, not is_final, timezone.now()
    if row.state != Recommendation.SNOOZED:
        row.state, row.state_reason = Recommendation.ACTIVE, ""
    for name, value in UNCLAIMED.items():
        setattr(row, name, value)
    row.expired_by = None
    row.save()


def _reopen(row: Recommendation, run: Run, advised: Advised) -> None:
    """Show one that was followed as open again. Its promise and its savings stay, and a run that
    follows it again continues them."""
    if not _is_newest(run):
        return
    row.reopened_by, row.monthly_saving_usd = run, advised.monthly_saving_usd
    row.changed_at = timezone.now()
    row.save(update_fields=["reopened_by", "monthly_saving_usd", "changed_at"])


def followed_before(known: Sequence[Recommendation], run: Run) -> Recommendation | None:
    """Return the one that was followed and that the run has gone back from. What failed, or was
    first followed more than a year ago, gets a new row."""
    state = Recommendation
    open_to = (state.CLAIMED, state.VERIFIED, state.UNVERIFIABLE)
    followed = [row for row in known if row.state in open_to and row.claimed_by is not None]
    return next((row for row in reversed(followed) if _has_gone_back(row, run)), None)


def _has_gone_back(row: Recommendation, run: Run) -> bool:
    claimed_by = row.claimed_by
    if claimed_by is None or _order(run) < _order(claimed_by):
        return False
    if run.began_at - claimed_by.began_at > COUNTED:
        return False
    plain = evidence.evidence_runs([run], row.rules, estimates.is_about_place(row))
    return bool(plain) and has_gone_back(estimates.promise(row), plain[0])


def _undecided(known: Sequence[Recommendation]) -> Recommendation | None:
    """Return the row that new advice renews."""
    undecided = [row for row in known if row.state in Recommendation.UNDECIDED]
    return max(undecided, key=lambda row: (row.state in OPEN, _order(row.run)), default=None)


def _is_renewed_later(row: Recommendation, run: Run) -> bool:
    return row.run.deleted_at is None and _order(row.run) > _order(run)


@Models
def _known() -> QuerySet[Recommendation]:
    """Return the query of a job's recommendations of one kind."""
    job, key = Slot("job", Job._meta.pk), Slot("dedupe_key", CharField())
    return Recommendation.objects.filter(job=job, dedupe_key=key).order_by("pk")


def _is_answered(row: Recommendation, run: Run) -> bool:
    """Return whether a person dismissed it, or advice from a run before the one that followed it is
    answered already. A person who says that it is followed is believed until a run after it is
    analysed.
    """
    if row.state == Recommendation.DISMISSED:
        return True
    if row.state not in Recommendation.FOLLOWED:
        return False
    if row.claimed_by is None:
        return row.followed_since is not None and run.began_at < row.followed_since
    return _order(run) < _order(row.claimed_by)


def _expire_own(run: Run, advised: Collection[str]) -> None:
    """Expire what an earlier look at the run gave reason for, and the whole run doesn't."""
    own = Recommendation.objects.filter(job=run.job, run=run, state__in=OPEN)
    gone = own.exclude(dedupe_key__in=advised)
    if gone.update(**_expired(run)) and run.state != Run.FINISHED:
        queue_advice(run.job)
    reopened = Recommendation.objects.filter(job=run.job, reopened_by__isnull=False)
    if not _is_newest(run):
        reopened = reopened.filter(reopened_by=run)
    reopened.exclude(dedupe_key__in=advised).update(reopened_by=None)


def _is_newest(run: Run) -> bool:
    """Return whether no complete run of the job began after this one."""
    newest = evidence.complete_runs(run.job).newest_first().first()
    return newest is None or _order(newest) <= _order(run)


def _expire_earlier(job: Job) -> None:
    newest = evidence.complete_runs(job).newest_first().first()
    if newest is None:
        return
    rows = Recommendation.objects.filter(job=job, state__in=OPEN, run__deleted_at=None)
    for row in rows.select_related("run"):
        # One that the newest run follows is claimed, unless it led there from a detour.
        if _order(row.run) < _order(newest) and _told(row, newest) is not None:
            Recommendation.objects.filter(pk=row.pk).update(**_expired(newest))


def _told(row: Recommendation, run: Run) -> bool | None:
    """Return whether the run follows the recommendation, or None if it doesn't tell."""
    plain = evidence.evidence_runs([run], row.rules, estimates.is_about_place(row))
    if not plain:
        return None
    told = follows(estimates.promise(row), plain[0])
    return False if told is None and not row.rules else told


def _expired(by: Run) -> dict[str, Any]:
    state = Recommendation.EXPIRED
    return {"state": state, "expired_by": by, "changed_at": timezone.now(), "snoozed_until": None}


def _order(run: Run) -> tuple[datetime, int]:
    return run.began_at, run.number
