"""The life cycle of recommendations: how runs create, renew and end their rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from django.db.models import CharField, Q, QuerySet, prefetch_related_objects
from django.utils import timezone

from advisor.proof.claims import follows
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

    What the run followed is claimed first, so that its own advice of that kind gets a new row.

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


def advise_again(job: Job, **_: Any) -> None:
    """Queue the newest finished run of a job, to renew its recommendations: a run was deleted or
    moved, or a probe measured something. Call in a transaction."""
    newest = job.compared_runs.filter(state=Run.FINISHED).newest_first().first()
    if newest is not None:
        queue.want(newest, is_upload=False)
        queue.enqueue_on_commit(newest)


def _save_one(run: Run, advised: Advised, is_final: bool) -> None:
    row = _row_for(run, advised.dedupe_key)
    if row is None:
        return
    for name in COPIED:
        setattr(row, name, getattr(advised, name))
    row.run, row.is_provisional, row.changed_at = run, not is_final, timezone.now()
    if row.state != Recommendation.SNOOZED:
        row.state, row.state_reason = Recommendation.ACTIVE, ""
    for name, value in UNCLAIMED.items():
        setattr(row, name, value)
    row.expired_by = None
    row.save()


def _row_for(run: Run, dedupe_key: str) -> Recommendation | None:
    """The row that a run's advice renews, or a new one; None: it changes nothing. A person's
    decision stays, and so does what a later run has followed or renewed."""
    known = _known(job=run.job_id, dedupe_key=dedupe_key)
    prefetch_related_objects(known, "run", "claimed_by")
    if any(row.state == Recommendation.DISMISSED for row in known):
        return None
    followed = [row for row in known if row.state in Recommendation.FOLLOWED]
    if any(_is_followed_later(row, run) for row in followed):
        return None
    undecided = [row for row in known if row.state in Recommendation.UNDECIDED]
    undecided.sort(key=lambda row: (row.state in OPEN, _order(row.run)))
    if undecided:
        last = undecided[-1]
        is_newer = last.run.deleted_at is None and _order(last.run) > _order(run)
        return None if is_newer else last
    taken_back = [row for row in followed if _is_taken_back(row, run)]
    if taken_back:
        return taken_back[-1]
    return Recommendation(job=run.job, dedupe_key=dedupe_key)


@Models
def _known() -> QuerySet[Recommendation]:
    """Of a job's recommendations, those of a kind."""
    job, key = Slot("job", Job._meta.pk), Slot("dedupe_key", CharField())
    return Recommendation.objects.filter(job=job, dedupe_key=key).order_by("pk")


def _is_followed_later(row: Recommendation, run: Run) -> bool:
    """Advice from a run before the one that followed it is answered already. A person who says
    that it is followed is believed until a run after it is analysed."""
    if row.claimed_by is None:
        return row.followed_since is not None and run.began_at < row.followed_since
    return _order(run) < _order(row.claimed_by)


def _is_taken_back(row: Recommendation, run: Run) -> bool:
    """It was claimed, but never proven, and the reason for it is back."""
    unproven = (Recommendation.CLAIMED, Recommendation.UNVERIFIABLE)
    is_open = row.state in unproven and row.followed_since is None
    return is_open and _told(row, run) is False


def _expire_own(run: Run, advised: Collection[str]) -> None:
    """What an earlier look at the run gave reason for, and its whole doesn't."""
    own = Recommendation.objects.filter(job=run.job, run=run, state__in=OPEN)
    gone = own.exclude(dedupe_key__in=advised)
    if gone.update(**_expired(run)) and run.state != Run.FINISHED:
        advise_again(run.job)


def _expire_earlier(job: Job) -> None:
    newest = evidence.complete_runs(job).newest_first().first()
    if newest is None:
        return
    rows = Recommendation.objects.filter(job=job, state__in=OPEN, run__deleted_at=None)
    for row in rows.select_related("run"):
        if _order(row.run) < _order(newest) and _told(row, newest) is False:
            Recommendation.objects.filter(pk=row.pk).update(**_expired(newest))


def _told(row: Recommendation, run: Run) -> bool | None:
    """Whether the run follows it; None: it doesn't tell."""
    plain = evidence.plain([run], row.rules, estimates.is_about_place(row))
    if not plain:
        return None
    told = follows(estimates.promise(row), plain[0])
    return False if told is None and not row.rules else told


def _expired(by: Run) -> dict[str, Any]:
    state = Recommendation.EXPIRED
    return {"state": state, "expired_by": by, "changed_at": timezone.now(), "snoozed_until": None}


def _order(run: Run) -> tuple[datetime, int]:
    return run.began_at, run.number
