"""Which mails a person gets from the workspace that they look at, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.forms import ModelChoiceField
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.timezone import now
from django.views.decorators.http import require_http_methods, require_POST

from webapp.accounts.access import PersonRequest, open_to_viewers
from webapp.accounts.models import Membership
from webapp.http import rate_limits
from webapp.notify import delivery, queue, scope, subscriptions
from webapp.notify.kinds import KINDS
from webapp.notify.letters import Kind
from webapp.notify.models import Mail, Subscription

MOST_MAILS = 20
TEST_MAILS_A_MINUTE = 3


@dataclass(frozen=True)
class Choice:
    kind: Kind
    is_on: bool


@open_to_viewers
@require_http_methods(["GET", "POST"])
def notifications(request: PersonRequest) -> HttpResponse:
    """Switches one's own mails on and off."""
    if request.method == "POST":
        for kind in KINDS:
            subscriptions.switch(request.membership, kind, kind in request.POST.getlist("kind"))
        messages.success(request, "Saved.")
        return redirect("notify:notifications")
    context = {
        "choices": _choices(request.membership),
        "mails": scope.mails_to(request.membership)[:MOST_MAILS],
        "now": now(),
        "server": _server(),
        "sender": settings.DEFAULT_FROM_EMAIL,
    }
    return render(request, "notify/notifications.html", context)


@open_to_viewers
@require_POST
def send_test_mail(request: PersonRequest) -> HttpResponse:
    """To oneself, now, so that what goes wrong can be shown."""
    wait_seconds = rate_limits.seconds_until_person_may(
        "test-mail", request.user.pk, TEST_MAILS_A_MINUTE
    )
    if wait_seconds:
        messages.error(request, f"Too many test mails. Try again in {wait_seconds} s.")
        return redirect("notify:notifications")
    error = delivery.send_test(request.user)
    if error:
        messages.error(request, f"The test mail couldn't be sent. {error}")
    else:
        messages.success(request, f"Test mail sent to {request.user.email}.")
    return redirect("notify:notifications")


@open_to_viewers
@require_POST
def send_again(request: PersonRequest) -> HttpResponse:
    """One's own mail that failed; it goes out with the next round."""
    failed = scope.mails_to(request.membership).filter(state=Mail.FAILED)
    try:
        mail = ModelChoiceField(failed, to_field_name="uuid").clean(request.POST.get("mail"))
    except ValidationError:
        messages.error(request, "This mail hasn't failed, or doesn't exist.")
    else:
        queue.send_again(mail)
        messages.success(request, "The mail will be sent again within a minute.")
    return redirect("notify:notifications")


def _choices(member: Membership) -> list[Choice]:
    held = {each.kind: each for each in scope.subscriptions_of(member)}
    return [
        Choice(kind, held.get(kind.id, Subscription(membership=member)).is_wanted)
        for kind in KINDS.values()
    ]


def _server() -> str:
    """Where mail goes, without its password; empty: nowhere but the log."""
    if settings.EMAIL_FILE_PATH:
        return f"the folder {settings.EMAIL_FILE_PATH}"
    if not settings.EMAIL_HOST:
        return ""
    how = "STARTTLS" if settings.EMAIL_USE_TLS else "TLS" if settings.EMAIL_USE_SSL else "no TLS"
    return f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT} ({how})"
