"""The mail about a budget that reached a worse state this month."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet
from django.urls import reverse

from advisor.costing.budget import FORECAST_OVER, OVER
from webapp.notify.addresses import absolute_url
from webapp.notify.models import Mail
from webapp.notify.notification_kind import DueNotification, MailContent, NotificationKind
from webapp.notify.text import one_line
from webapp.notify.wanted import wanted_by_workspace
from webapp.spend.models import BudgetAlert
from webapp.templatetags import shown

ID = "budget"
LOOK_BACK = timedelta(days=7)
"""The age up to which alerts are mailed, which allows for downtime of the service."""
MOST_NAME_CHARACTERS = 90


def due_alerts(now: datetime) -> Iterator[DueNotification]:
    """Yield the recent alerts, for the members who were subscribed at that time."""
    wanted = wanted_by_workspace(ID)
    news = _holding().filter(reached_at__gte=now - LOOK_BACK, budget__workspace__in=wanted)
    for alert in news:
        workspace_id = alert.budget.workspace_id
        for each in wanted[workspace_id]:
            if each.since <= alert.reached_at:
                yield DueNotification(
                    each.membership.user_id, workspace_id, str(alert.pk), _subject(alert)
                )


def content(mail: Mail) -> MailContent | None:
    """Return the mail's content, or None if the budget was deleted meanwhile."""
    own = _holding().filter(budget__workspace=mail.workspace_id)
    alert = own.filter(pk=int(mail.subject_key)).first()
    if alert is None:
        return None
    context = {
        "row": alert,
        "name": one_line(alert.budget),
        "title": _subject(alert),
        "month": f"{alert.month:%B %Y}",
        "budgets_url": absolute_url(reverse("spend:budgets")),
        "spend_url": absolute_url(f"{reverse('spend:spend')}?month={alert.month:%Y-%m}"),
    }
    return MailContent(_subject(alert), "notify/budget", context)


def _holding() -> QuerySet[BudgetAlert]:
    """Return the alerts of budgets that aren't deleted."""
    kept = BudgetAlert.objects.filter(
        Q(budget__job=None) | Q(budget__job__deleted_at=None),
        budget__deleted_at=None,
        budget__workspace__deleted_at=None,
        budget__workspace__is_sample_data=False,
    )
    return kept.select_related("budget__job")


def _subject(alert: BudgetAlert) -> str:
    name = one_line(alert.budget, MOST_NAME_CHARACTERS)
    amount, spent = shown.usd(alert.amount_usd), shown.usd(alert.spent_usd)
    if alert.state == OVER:
        return f"{name}: over the budget, {spent} of {amount} spent"
    if alert.state == FORECAST_OVER:
        forecast = shown.usd(alert.forecast_usd)
        return f"{name}: will overrun its budget, {forecast} of {amount} forecast"
    return f"{name}: {spent} of {amount} spent"


KIND = NotificationKind(
    id=ID,
    title="Budgets",
    description="A budget is forecast to be exceeded, has reached its threshold, or is exceeded.",
    due=due_alerts,
    content=content,
)
