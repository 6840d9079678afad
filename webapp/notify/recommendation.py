"""The mail about a recommendation: one to each member who wants it, once its run is analysed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import F, QuerySet
from django.urls import reverse

from webapp.advice.models import Recommendation
from webapp.notify.addresses import absolute
from webapp.notify.letters import Due, Kind, Letter, NotYetError
from webapp.notify.models import Mail, Subscription
from webapp.notify.text import one_line
from webapp.runs.models import Run
from webapp.templatetags import shown

ID = "recommendation"
LOOK_BACK = timedelta(days=7)
"""The service may have been down for so long; what is older is no news."""
MOST_JOB_CHARACTERS, MOST_TITLE_CHARACTERS = 60, 90


def due(now: datetime) -> Iterator[Due]:
    """Final advice of finished runs, for whom it was made after they joined."""
    subscriptions = _wanted_by_workspace()
    news = _holding().filter(changed_at__gte=now - LOOK_BACK, job__workspace__in=subscriptions)
    fields = ("uuid", "created_at", "title", "job__name", "job__workspace_id")
    for uuid, created_at, title, job, workspace_id in news.values_list(*fields):
        about = f"{one_line(job, MOST_JOB_CHARACTERS)}: {title}"
        for each in subscriptions[workspace_id]:
            if each.since <= created_at:
                yield Due(each.membership.user_id, workspace_id, str(uuid), about)


def letter(mail: Mail) -> Letter | None:
    """None: it was followed, dismissed or overtaken meanwhile. Raises NotYetError while its run is
    analysed again."""
    found = (
        _standing().filter(job__workspace=mail.workspace_id, uuid=UUID(mail.subject_key)).first()
    )
    if found is None:
        return None
    if not _holding().filter(pk=found.pk).exists():
        raise NotYetError("The run is being analysed again.")
    job, title = one_line(found.job.name), one_line(found.title)
    context = {
        "job": job,
        "title": title,
        "row": found,
        "run": found.run,
        "seconds": found.run.duration.total_seconds() if found.run.duration else None,
        "change": [(shown.words(key), one_line(value)) for key, value in found.change.items()],
        "dimension": one_line(shown.words(found.risk_dimension)),
        "evidence": [one_line(text, 500) for text in found.evidence],
        "assumptions": [one_line(text, 500) for text in found.assumptions],
        "advice_url": absolute(reverse("dashboard:run", args=[found.run_id])) + "#advice",
        "job_url": absolute(reverse("dashboard:job", args=[found.job.uuid])),
    }
    return Letter(_subject(job, title, found), "notify/recommendation", context)


def _holding() -> QuerySet[Recommendation]:
    """Of what stands, that of finished runs of which all that arrived was judged."""
    return _standing().filter(
        is_provisional=False,
        run__state=Run.FINISHED,
        run__analysis__is_final=True,
        run__analysis__done__gte=F("run__analysis__wanted"),
    )


def _standing() -> QuerySet[Recommendation]:
    """Advice that nobody has decided on, of runs that may still come to a good end."""
    return Recommendation.objects.select_related("job", "run").filter(
        state=Recommendation.ACTIVE,
        run__state__in=(Run.RUNNING, Run.LOST, Run.FINISHED),
        run__deleted_at=None,
        job__deleted_at=None,
        job__workspace__deleted_at=None,
        job__workspace__is_sample_data=False,
    )


def _wanted_by_workspace() -> dict[int, list[Subscription]]:
    held = Subscription.objects.filter(kind=ID, membership__user__is_active=True)
    found = defaultdict(list)
    for each in held.select_related("membership"):
        if each.is_wanted:
            found[each.membership.workspace_id].append(each)
    return found


def _subject(job: str, title: str, found: Recommendation) -> str:
    subject = f"{one_line(job, MOST_JOB_CHARACTERS)}: {one_line(title, MOST_TITLE_CHARACTERS)}"
    if found.monthly_saving_usd is None:
        return subject
    return f"{subject} (saves {shown.usd(found.monthly_saving_usd)} a month)"


KIND = Kind(
    id=ID,
    title="Recommendations",
    description="A change that would make a job cheaper, sent when the run behind it has finished.",
    due=due,
    letter=letter,
)
