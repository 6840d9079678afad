"""The mail about a recommendation: one to each member who wants it, once its run is analysed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import F, Q, QuerySet
from django.urls import reverse

from advisor.advice.recommendation import MOST_RISK_MAILED
from advisor.sizing.doubt import doubts
from webapp.advice.models import Recommendation
from webapp.advice.selectors.savings import risk_words, saving_of
from webapp.notify.addresses import absolute_url
from webapp.notify.models import Mail
from webapp.notify.notification_kind import (
    DueNotification,
    MailContent,
    NotificationKind,
    NotYetError,
)
from webapp.notify.text import one_line
from webapp.notify.wanted import wanted_by_workspace
from webapp.runs.history import facts
from webapp.runs.models import Node, Run
from webapp.templatetags import shown

ID = "recommendation"
LOOK_BACK = timedelta(days=7)
"""The age up to which recommendations are mailed, which allows for downtime of the service."""
UNREAD = ("evidence", "assumptions", "candidates", "how_to_apply")
MOST_JOB_CHARACTERS, MOST_TITLE_CHARACTERS = 60, 90


def due_recommendations(now: datetime) -> Iterator[DueNotification]:
    """Yield the best final recommendation of each job, the first one on its pages, for members who
    were subscribed at that time.
    """
    subscriptions = wanted_by_workspace(ID)
    holding = _holding().filter(job__workspace__in=subscriptions, risk__lte=MOST_RISK_MAILED)
    recent = holding.filter(changed_at__gte=now - LOOK_BACK)
    rivals = holding.filter(job__in=recent.values("job")).defer(*UNREAD)
    best: dict[int, Recommendation] = {}
    for row in rivals:
        best.setdefault(row.job_id, row)
    for row in best.values():
        if row.changed_at < now - LOOK_BACK:
            continue
        about = f"{one_line(row.job.name, MOST_JOB_CHARACTERS)}: {row.title}"
        for each in subscriptions[row.job.workspace_id]:
            if each.since <= row.created_at:
                workspace_id = row.job.workspace_id
                yield DueNotification(each.membership.user_id, workspace_id, str(row.uuid), about)


def content(mail: Mail) -> MailContent | None:
    """Return the mail's content; None if it was followed, dismissed or replaced meanwhile. Raises
    NotYetError while its run is analysed again.
    """
    advice = (
        _standing().filter(job__workspace=mail.workspace_id, uuid=UUID(mail.subject_key)).first()
    )
    if advice is None:
        return None
    if not _holding().filter(pk=advice.pk).exists():
        raise NotYetError("The run is being analysed again.")
    job, title = one_line(advice.job.name), one_line(advice.title)
    context = {
        "job": job,
        "title": title,
        "row": advice,
        "saving": saving_of(advice),
        "run": advice.run,
        "cost_notes": [one_line(text, 500) for text in advice.run.summary.cost_notes],
        "seconds": advice.run.duration.total_seconds() if advice.run.duration else None,
        "change": [(shown.words(key), one_line(value)) for key, value in advice.change.items()],
        "risk": risk_words(advice),
        "dimension": one_line(shown.words(advice.risk_dimension)),
        "evidence": [one_line(text, 500) for text in advice.evidence],
        "assumptions": [one_line(text, 500) for text in advice.assumptions],
        "advice_url": absolute_url(reverse("dashboard:run", args=[advice.run_id])) + "#advice",
        "job_url": absolute_url(reverse("dashboard:job", args=[advice.job.uuid])),
    }
    return MailContent(_subject(job, title, advice), "notify/recommendation", context)


def _holding() -> QuerySet[Recommendation]:
    """Open recommendations of finished runs whose analysis is complete."""
    return _standing().filter(
        is_provisional=False,
        run__state=Run.FINISHED,
        run__analysis__is_final=True,
        run__analysis__done__gte=F("run__analysis__wanted"),
    )


def _standing() -> QuerySet[Recommendation]:
    """Return the undecided recommendations of runs that haven't failed or been stopped, and that
    save at least the workspace's floor a month, or nobody knows how much.
    """
    too_little = Q(monthly_saving_usd__lt=F("job__workspace__least_mailed_usd"))
    worth_it = Recommendation.objects.exclude(too_little)
    return worth_it.select_related("job", "run").filter(
        state=Recommendation.ACTIVE,
        run__state__in=(Run.RUNNING, Run.LOST, Run.FINISHED),
        run__deleted_at=None,
        job__deleted_at=None,
        job__workspace__deleted_at=None,
        job__workspace__is_sample_data=False,
    )


def _subject(job: str, title: str, advice: Recommendation) -> str:
    """Return the subject. It has no amount while the machine isn't the one that is charged."""
    subject = f"{one_line(job, MOST_JOB_CHARACTERS)}: {one_line(title, MOST_TITLE_CHARACTERS)}"
    saving = saving_of(advice)
    if saving.monthly_usd is None or (saving.is_at_least and not saving.monthly_usd):
        return subject
    nodes = Node.objects.filter(attempt__run=advice.run_id)
    if doubts([facts(node) for node in nodes]):
        return subject
    least = "at least " if saving.is_at_least else ""
    return f"{subject} (saves {least}{shown.usd(saving.monthly_usd)} a month)"


KIND = NotificationKind(
    id=ID,
    title="Recommendations",
    description="The change that would save most in a job, when the run behind it has finished. "
    "What saves too little a month isn't mailed.",
    due=due_recommendations,
    content=content,
)
