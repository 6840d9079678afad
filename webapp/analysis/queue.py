"""The queue of analyses: which runs are due, and when. The rows are background work.

While uploads are judged late, running runs are analysed as a whole less often, and so leave the
workers to looks, to first analyses and to runs that have ended. Looks get rarer by themselves: a
row that is late collects what arrives, and one look judges all of it. What a run is judged by
doesn't depend on this, only when.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Q, Value
from django.db.models.functions import Least
from django.urls import reverse
from django.utils import timezone

from webapp.analysis.models import Analysis
from webapp.background import claims, conditions, lag, waking
from webapp.background.kinds import WorkKind, WorkLimits
from webapp.runs import locks
from webapp.runs.models import Run

# A running run is analysed again when it has doubled, at least 5 and at most 15 min apart.
GROWTH = 1.0
SOONEST, LATEST = timedelta(minutes=5), timedelta(minutes=15)
SPREAD = 0.5
"""The largest share by which the soonest time is lengthened, differently for each run, so that runs
that began together come apart."""
# A run whose page a person has open is analysed whenever it has grown by a tenth, at least 10 s
# apart. The page asks once a minute.
GROWTH_WATCHED, SOONEST_WATCHED = 0.1, timedelta(seconds=10)
WATCHED_FOR, WATCHED_AGAIN_AFTER = timedelta(seconds=100), timedelta(seconds=30)
# In between, uploads trigger looks at its last minutes, except while a look has shown that no rule
# can find anything new. Agents upload every 10 s.
LOOK_AGAIN_AFTER = timedelta(seconds=9)
# Looks and the sweep are seconds apart, so an idle service is some seconds late as well.
ON_TIME, DOUBLED_EVERY = timedelta(seconds=15), timedelta(seconds=3)
MOST_DOUBLED = 10
"""The most doublings of the time between whole analyses of a running run."""
LONGEST_COMMIT = timedelta(seconds=60)
"""The longest time from the moment written in a row until others can read it."""
LOOKS_A_FIRST = 16
"""The number of looks that take as long as a run's first analysis (`bench.looks`,
`bench.fleet`)."""
KIND = WorkKind(
    id="analysis",
    title="Analysis",
    model=Analysis,
    work="webapp.analysis.tasks.evaluate",
    key="run_id",
    limits=WorkLimits(
        lease=timedelta(seconds=60),
        max_attempts=3,
        first_pause=timedelta(seconds=40),
        longest_pause=timedelta(seconds=80),
        is_shared=True,
    ),
    workspace="run__workspace",
    subject=lambda analysis: str(analysis.run),
    address=lambda analysis: reverse("dashboard:run", args=[analysis.run_id]),
    related=("run__job", "run__workspace"),
    urgent=Q(finished_at=None),
    beside_urgent=LOOKS_A_FIRST,
    lag_title="From upload to judged",
    shown={"run__deleted_at": None, "run__job__deleted_at": None},
    past=("began_at", "finished_at", "looked_at", "called_at", "watched_at"),
)


@dataclass(frozen=True)
class AnalysisClaim(claims.WorkClaim[Analysis]):
    """A worker's right to analyse a run."""

    whole_due_at: datetime
    """The time before which a look at the run's last minutes is enough."""

    @property
    def run_id(self) -> uuid.UUID:
        return self.row.run_id

    @property
    def is_look(self) -> bool:
        return self.began_at < self.whole_due_at

    @property
    def shows_nothing_new(self) -> bool:
        """Return whether nothing has arrived since the last look began."""
        seen_at, run = self.row.looked_at, self.row.run
        return seen_at is not None and run.last_received_at < seen_at - LONGEST_COMMIT


def queue_run(run: Run, is_upload: bool = True) -> None:
    """Queue a run to which something was added or that changed. Call in the transaction that wrote
    it.

    Args:
        is_upload: False: nothing arrived, so it isn't counted how long it waits.
    """
    analysis, _ = Analysis.objects.get_or_create(run=run)
    due_at = _due_at(run, analysis, timezone.now())
    rows = Analysis.objects.filter(pk=analysis.pk)
    claims.mark_due(rows, due_at, is_fresh=run.has_ended, is_awaited=is_upload)


def want_new(counts: Mapping[uuid.UUID, int]) -> None:
    """Queue runs that were made in this transaction: `want` and `enqueue_on_commit` for many.

    Args:
        counts: how many segments arrived, by run.
    """
    if not counts:
        return
    now = timezone.now()
    Analysis.objects.bulk_create(
        Analysis(run_id=run_id, wanted=count, due_at=now, waiting_since=now)
        for run_id, count in counts.items()
    )
    transaction.on_commit(waking.wake)


def want_running(counts: Mapping[uuid.UUID, int]) -> None:
    """Queue running runs, for which so many segments arrived. When such a run is due was decided
    with the last look or analysis.
    """
    claims.want_many(KIND, counts)


def requeue_run(run: Run) -> None:
    """Queue a run because a person asked, whatever the result of earlier attempts. Call in a
    transaction."""
    claims.mark_due(Analysis.objects.filter(run=run), error="")
    enqueue_on_commit(run)


def enqueue_on_commit(run: Run) -> None:
    """Wake a worker after commit, if the run is due."""
    waking.wake_on_commit(KIND, run=run)


def watch(run: Run, analysis: Analysis | None) -> None:
    """Record that a person has the running run's page open: until they leave, it's analysed more
    often.
    """
    now = timezone.now()
    if analysis is None or analysis.finished_at is None or run.has_ended:
        return
    if analysis.watched_at is not None and now - analysis.watched_at < WATCHED_AGAIN_AFTER:
        return
    analysis.watched_at = now
    whole = max(now, _whole_due_at(run, analysis, now))
    rows = Analysis.objects.filter(pk=analysis.pk)
    rows.update(watched_at=now, due_at=Least("due_at", Value(whole)))


def claim(run_id: uuid.UUID | str, **which: object) -> AnalysisClaim | None:
    """Claim a run; None if there is nothing to do or another worker has it."""
    held = claims.claim(KIND, run_id, **which)
    if held is None:
        return None
    whole_due_at = _whole_due_at(held.row.run, held.row, held.began_at)
    if whole_due_at <= held.began_at and not held.row.run.has_ended:
        whole_due_at = _stretched(whole_due_at, held.row, held.began_at)
    return AnalysisClaim(held.kind, held.row, held.lease, held.began_at, whole_due_at)


def finish_analysis(
    held: AnalysisClaim,
    save: Callable[[Run], None],
    is_final: bool,
    analysed: timedelta | None = None,
    quiet_until: datetime | None = None,
    called_for: Collection[str] = (),
) -> bool:
    """Save the outcome in one transaction, if the lease is still ours. Returns False if it was
    lost.

    Args:
        save: writes it to the run, which is locked with its job.
        analysed: how long the run was, as far as it was analysed.
        quiet_until: no look shows anything new before this time.
        called_for: the rules that a look saw fire, and so called for it.
    """
    with transaction.atomic():
        run = locks.run(held.run_id)
        now, held.row.analysed = timezone.now(), analysed
        whole = now if run.has_ended else now + _until_whole(run, held.row, now)
        # Before it has samples a run isn't analysed, whatever was written.
        finished_at = None if held.row.run.started_at is None else now
        columns: dict[str, Any] = {"is_final": is_final, "analysed": analysed}
        if called_for:
            columns |= {"called_at": now, "called_for": sorted(called_for)}
        due_at = min(whole, _look_at(now, quiet_until))
        return claims.finish_work(
            held, partial(save, run), due_at, finished_at=finished_at, **columns
        )


def release_until_next_look(held: AnalysisClaim, quiet_until: datetime | None = None) -> None:
    """Release a run whose last minutes showed nothing new, until the next look.

    Args:
        quiet_until: no look shows anything new before this time.
    """
    due_at = min(held.whole_due_at, _look_at(timezone.now(), quiet_until))
    claims.postpone(held, due_at, looked_at=held.began_at)


def longest_wait(now: datetime) -> timedelta:
    """Return how long ago the first upload came that waits for its turn with a worker."""
    mine = conditions.due_rows(KIND, now).filter(attempts=0, kills=0)
    since = lag.waiting_since(mine, now)
    return timedelta() if since is None else now - since


def _due_at(run: Run, analysis: Analysis, now: datetime) -> datetime:
    whole = _whole_due_at(run, analysis, now)
    seen = [at for at in (analysis.looked_at, analysis.finished_at) if at is not None]
    look = max(seen, default=now) + LOOK_AGAIN_AFTER
    return max(now, min(whole, look))


def _whole_due_at(run: Run, analysis: Analysis, now: datetime) -> datetime:
    if run.has_ended or analysis.finished_at is None or run.duration is None:
        return now
    return analysis.finished_at + _until_whole(run, analysis, now)


def _until_whole(run: Run, analysis: Analysis, now: datetime) -> timedelta:
    """Return the time from a whole analysis to the next, by what it saw, since more may have come
    at once.
    """
    is_watched = analysis.watched_at is not None and now - analysis.watched_at < WATCHED_FOR
    growth, soonest = (GROWTH_WATCHED, SOONEST_WATCHED) if is_watched else (GROWTH, SOONEST)
    soonest *= 1.0 if is_watched else 1.0 + SPREAD * _place(run)
    seen = analysis.analysed or run.duration or timedelta()
    return min(max(seen * growth, soonest), LATEST)


def _place(run: Run) -> float:
    """Return the run's place among all: always the same, from 0 to 1, evenly spread."""
    return zlib.crc32(run.pk.bytes) / 2**32


def _look_at(seen_at: datetime, quiet_until: datetime | None) -> datetime:
    """Return when the look after one at this time is due."""
    soonest = seen_at + LOOK_AGAIN_AFTER
    return max(soonest, quiet_until or soonest)


def _stretched(due_at: datetime, analysis: Analysis, now: datetime) -> datetime:
    """Return when a whole analysis that is due at `due_at` is due if uploads are judged late."""
    if analysis.finished_at is None:
        return due_at
    doublings = min(max((longest_wait(now) - ON_TIME) / DOUBLED_EVERY, 0.0), MOST_DOUBLED)
    pause: timedelta = (due_at - analysis.finished_at) * 2.0**doublings
    return analysis.finished_at + min(pause, LATEST)
