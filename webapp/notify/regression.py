"""The mail about a confirmed regression of a job, and about its end."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Q, QuerySet
from django.urls import reverse

from webapp.analysis.models import Regression
from webapp.analysis.selectors.verdict import verdict_of
from webapp.notify.addresses import absolute_url
from webapp.notify.models import Mail
from webapp.notify.notification_kind import DueNotification, MailContent, NotificationKind
from webapp.notify.text import one_line
from webapp.notify.wanted import wanted_by_workspace
from webapp.runs.models import Run
from webapp.templatetags import shown

ID = "regression"
BEGAN, ENDED = "began", "ended"
LOOK_BACK = timedelta(days=7)
"""The age up to which changes are mailed, which allows for downtime of the service. What older runs
show isn't news, such as imported ones."""
AT_MOST_EVERY = timedelta(days=1)
"""The least time between two mails to one person about one job. Further news wait."""
MOST_JOB_CHARACTERS = 60


def due_regressions(now: datetime) -> Iterator[DueNotification]:
    """Yield what began or ended, for members who were subscribed at that time."""
    wanted, states = wanted_by_workspace(ID), _states()
    held_back = _told_lately(now)
    since = now - LOOK_BACK
    began = Q(opened_at__gte=since, confirmed_by__ended_at__gte=since)
    recent = began | Q(ended_at__gte=since, ended_by__ended_at__gte=since)
    for row in _holding().filter(recent, job__workspace__in=wanted).order_by("opened_at"):
        for each in wanted[row.job.workspace_id]:
            user_id = each.membership.user_id
            event = _event(row, user_id, states)
            if not event or each.since > row.opened_at or (user_id, row.job_id) in held_back:
                continue
            held_back.add((user_id, row.job_id))
            yield DueNotification(user_id, row.job.workspace_id, _key(row, event), _subject(row))


def content(mail: Mail) -> MailContent | None:
    """Return the mail's content; None if its news no longer holds."""
    since, _, event = mail.subject_key.partition(":")
    row = _holding().filter(job__workspace=mail.workspace_id, since=UUID(since)).first()
    if row is None or event != _present_event(row):
        return None
    verdict = verdict_of(row.last)
    context = {
        "row": row,
        "title": _subject(row),
        "job": one_line(row.job.name),
        "is_over": event == ENDED,
        "causes": [one_line(cause) for cause in verdict.causes] if verdict else [],
        "job_url": absolute_url(reverse("dashboard:job", args=[row.job.uuid])),
        "run_url": absolute_url(reverse("dashboard:run", args=[row.since_id])),
    }
    return MailContent(_subject(row), "notify/regression", context)


def _event(row: Regression, user_id: int, states: dict[tuple[int, str], str]) -> str:
    """Return what this person has no mail about yet; empty if there is nothing. The end is news to
    those who were told of the beginning.
    """
    event = _present_event(row)
    if not event or (user_id, _key(row, event)) in states:
        return ""
    was_told = states.get((user_id, _key(row, BEGAN)), Mail.WITHDRAWN) != Mail.WITHDRAWN
    return event if event == BEGAN or was_told else ""


def _present_event(row: Regression) -> str:
    """Return the event that the regression's state means; accepting it is no news, because a person
    did that.
    """
    if row.is_open:
        return BEGAN
    return ENDED if row.ended_by_id is not None and not row.is_accepted else ""


def _key(row: Regression, event: str) -> str:
    """Return the mail's key, by the first run: the row may be written again, in another job,
    too.
    """
    return f"{row.since_id.hex}:{event}"


def _states() -> dict[tuple[int, str], str]:
    """Return the state of the mail by (person, subject). None is written a second time."""
    mails = Mail.objects.filter(kind=ID).values_list("user_id", "subject_key", "state")
    return {(user_id, key): state for user_id, key, state in mails}


def _told_lately(now: datetime) -> set[tuple[int, int]]:
    """Return (person, job) of the last day's mails."""
    mails = Mail.objects.filter(kind=ID, created_at__gt=now - AT_MOST_EVERY)
    mails = mails.exclude(state=Mail.WITHDRAWN)
    lately = [
        (user_id, UUID(key.partition(":")[0]))
        for user_id, key in mails.values_list("user_id", "subject_key")
    ]
    runs = Run.objects.filter(pk__in={since for _, since in lately})
    jobs = dict(runs.values_list("pk", "job_id"))
    return {(user_id, jobs[since]) for user_id, since in lately if since in jobs}


def _holding() -> QuerySet[Regression]:
    """Return the regressions of jobs and runs that aren't deleted."""
    kept = Regression.objects.filter(
        since__deleted_at=None,
        job__deleted_at=None,
        job__workspace__deleted_at=None,
        job__workspace__is_sample_data=False,
    )
    return kept.select_related("job", "since", "last", "ended_by")


def _subject(row: Regression) -> str:
    job, since = one_line(row.job.name, MOST_JOB_CHARACTERS), f"since run #{row.since.number}"
    if row.ended_by is not None:
        return f"{job}: the regression {since} is over"
    return f"{job}: {shown.signed_share(row.change)} machine time for the same work {since}"


KIND = NotificationKind(
    id=ID,
    title="Regressions",
    description="A job takes longer for the same work, confirmed by a second run, and its end. "
    "At most one mail a day for a job.",
    due=due_regressions,
    content=content,
)
