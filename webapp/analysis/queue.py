"""Which runs are due, and who works on them. Celery carries ids; these rows are the truth.

A broker may deliver an id twice or never. Claiming is one conditional UPDATE, and the beat sweep
hands out again whatever is due and was not taken.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from celery import current_app
from django.db import transaction
from django.db.models import Case, F, Q, QuerySet, When
from django.utils import timezone
from kombu.exceptions import OperationalError

from webapp.analysis.models import Analysis
from webapp.runs import locks
from webapp.runs.models import Run

TASK = "analysis.evaluate"
LEASE = timedelta(seconds=60)
HAND_OUT_AGAIN_AFTER = timedelta(seconds=30)
RETRY_AFTER = timedelta(seconds=20)
# While a run goes on it is analysed again when it grew by a tenth, at most 15 min apart.
GROWTH = 0.1
SOONEST, LATEST = timedelta(seconds=5), timedelta(minutes=15)
# In between its last minutes are looked at with each upload, of which an agent makes one in 10 s.
LOOK_AGAIN_AFTER = timedelta(seconds=9)
FRESH = {"attempts": 0, "kills": 0}

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Claim:
    """A worker's right to analyse a run, until the lease ends."""

    analysis_id: int
    run_id: uuid.UUID
    lease: uuid.UUID
    wanted: int
    """What had arrived when the work began."""
    whole_due_at: datetime
    """Before that, a look at the run's last minutes is enough."""
    began_at: datetime

    @property
    def is_look(self) -> bool:
        return self.began_at < self.whole_due_at


def want(run: Run) -> None:
    """Something of this run arrived or changed. Call inside the transaction that wrote it."""
    now = timezone.now()
    analysis, _ = Analysis.objects.get_or_create(run=run)
    changes: dict[str, object] = {"wanted": F("wanted") + 1, "due_at": _due_at(run, analysis, now)}
    if run.has_ended:
        changes |= FRESH
    Analysis.objects.filter(pk=analysis.pk).update(**changes)


def want_again(run: Run) -> None:
    """A person asks for it, whatever became of the attempts before. Call in a transaction."""
    again = {"wanted": F("wanted") + 1, "due_at": timezone.now(), "queued_at": None, "error": ""}
    Analysis.objects.filter(run=run).update(**again, **FRESH)
    enqueue_on_commit(run)


def enqueue_on_commit(run: Run) -> None:
    """Hand the run to the broker once its rows are durable, if it is due now."""
    transaction.on_commit(lambda: hand_out(_due(timezone.now()).filter(run=run)))


def hand_out(due: QuerySet[Analysis]) -> int:
    """Send the ids of `due` to the broker; how many it took. A dead broker is no error here."""
    handed_out = 0
    for analysis in due:
        row = Analysis.objects.filter(pk=analysis.pk)
        # Before it is sent: a fast worker is done with it, and says so here, in the same moment.
        row.update(queued_at=timezone.now())
        try:
            current_app.send_task(TASK, args=[str(analysis.run_id)], retry=False)
        except OperationalError as error:
            row.update(queued_at=None)
            logger.warning("broker unreachable; the sweep tries again", extra={"error": str(error)})
            break
        handed_out += 1
    return handed_out


def sweep() -> int:
    """Hand out what is due and lies with nobody; say of what nobody will try again."""
    worn_out = _unheld(timezone.now()).filter(kills__gte=Analysis.MAX_KILLS, error="")
    worn_out.update(error=f"Given up: {Analysis.MAX_KILLS} workers died while they analysed it.")
    return hand_out(_due(timezone.now())[:500])


def claim(run_id: uuid.UUID | str) -> Claim | None:
    """Take a due run; None if there is nothing to do or another worker has it."""
    now = timezone.now()
    lease = uuid.uuid4()
    # Who held it and neither finished nor failed has died.
    died = Case(When(lease=None, then=0), default=1)
    row = _free(now).filter(run_id=run_id)
    if row.update(lease=lease, leased_until=now + LEASE, kills=F("kills") + died) != 1:
        return None
    analysis = Analysis.objects.select_related("run").get(run_id=run_id)
    whole = _whole_due_at(analysis.run, analysis, now)
    return Claim(analysis.pk, analysis.run_id, lease, analysis.wanted, whole, now)


def renew(held: Claim) -> bool:
    """Extend the lease; False if it was lost."""
    return _held(held).update(leased_until=timezone.now() + LEASE) == 1


def finish(held: Claim, save: Callable[[], None], is_final: bool) -> bool:
    """Save the outcome, if the lease is still ours; in one transaction. False if it was lost."""
    now = timezone.now()
    with transaction.atomic():
        locks.run(held.run_id)
        kept = _held(held).update(
            done=held.wanted,
            error="",
            lease=None,
            leased_until=None,
            queued_at=None,
            is_final=is_final,
            finished_at=now,
            seconds=(now - held.began_at).total_seconds(),
            **FRESH,
        )
        if kept:
            save()
    return kept == 1


def put_back(held: Claim) -> None:
    """The run's last minutes showed nothing new: what has arrived waits for a whole analysis."""
    now = timezone.now()
    idle = {"lease": None, "leased_until": None, "queued_at": None, "looked_at": now}
    free = idle | FRESH
    nothing_came = _held(held).filter(wanted=held.wanted)
    if not nothing_came.update(due_at=held.whole_due_at, **free):
        _held(held).update(due_at=now + LOOK_AGAIN_AFTER, **free)


def fail(held: Claim, error: BaseException) -> None:
    """Keep the error for people to see; try again later, three times in all."""
    # PostgreSQL refuses NUL in text, and an error may quote anything.
    told = f"{type(error).__name__}: {error}".replace("\0", "")
    _held(held).update(
        attempts=F("attempts") + 1,
        error=told[:2000],
        due_at=timezone.now() + RETRY_AFTER,
        lease=None,
        leased_until=None,
        queued_at=None,
    )


def _held(held: Claim) -> QuerySet[Analysis]:
    return Analysis.objects.filter(pk=held.analysis_id, lease=held.lease)


def _unheld(now: datetime) -> QuerySet[Analysis]:
    unleased = Q(leased_until=None) | Q(leased_until__lt=now)
    return Analysis.objects.filter(unleased, wanted__gt=F("done"))


def _free(now: datetime) -> QuerySet[Analysis]:
    return _unheld(now).filter(attempts__lt=Analysis.MAX_ATTEMPTS, kills__lt=Analysis.MAX_KILLS)


def _due(now: datetime) -> QuerySet[Analysis]:
    idle = Q(queued_at=None) | Q(queued_at__lt=now - HAND_OUT_AGAIN_AFTER)
    return _free(now).filter(idle, due_at__lte=now).order_by("due_at")


def _due_at(run: Run, analysis: Analysis, now: datetime) -> datetime:
    whole = _whole_due_at(run, analysis, now)
    seen = [at for at in (analysis.looked_at, analysis.finished_at) if at is not None]
    look = max(seen, default=now) + LOOK_AGAIN_AFTER
    return max(now, min(whole, look))


def _whole_due_at(run: Run, analysis: Analysis, now: datetime) -> datetime:
    if run.has_ended or analysis.finished_at is None or run.duration is None:
        return now
    return analysis.finished_at + min(max(run.duration * GROWTH, SOONEST), LATEST)
