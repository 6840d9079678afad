"""A person's notification settings in the current workspace, and their recent mails."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db import transaction
from django.forms import Form, ModelChoiceField
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.timezone import now
from django.views.decorators.http import require_http_methods, require_POST

from webapp.accounts import audit
from webapp.accounts.access import PersonRequest, open_to_viewers, owners_only
from webapp.accounts.models import Membership
from webapp.http import rate_limits
from webapp.notify import delivery, queue, recipients, scope, subscriptions
from webapp.notify.channels import channels
from webapp.notify.channels.channel import Channel, Setup
from webapp.notify.forms import LeastSavingForm
from webapp.notify.kinds import KINDS
from webapp.notify.models import Mail, Subscription
from webapp.notify.notification_kind import NotificationKind

MOST_MAILS = 20
TEST_MAILS_A_MINUTE = 3


@dataclass(frozen=True)
class Choice:
    kind: NotificationKind
    is_on: bool


@dataclass(frozen=True)
class Panel:
    """A channel, as the page shows it."""

    channel: Channel
    setup: Setup
    form: Form | None
    is_reached: bool
    """True if the channel reaches this person."""


@open_to_viewers
@require_http_methods(["GET", "POST"])
def notifications(request: PersonRequest) -> HttpResponse:
    """Switches the person's own mails on and off."""
    if request.method == "POST":
        for kind in KINDS:
            subscriptions.switch(request.membership, kind, kind in request.POST.getlist("kind"))
        messages.success(request, "Saved.")
        return redirect("notify:notifications")
    return _page(request)


@owners_only
@require_POST
def set_least_saving(request: PersonRequest) -> HttpResponse:
    """Sets the saving per month below which nobody in the workspace is mailed."""
    form = LeastSavingForm(request.POST)
    if not form.is_valid():
        return _page(request, least=form)
    workspace, wanted = request.workspace, form.cleaned_data["least_mailed_usd"]
    change = {"least_mailed_usd": (str(workspace.least_mailed_usd), str(wanted))}
    with transaction.atomic():
        workspace.least_mailed_usd = wanted
        workspace.save(update_fields=["least_mailed_usd"])
        audit.record(workspace, request.user, "workspace.changed", workspace.name, change)
    messages.success(request, "Saved.")
    return redirect("notify:notifications")


@open_to_viewers
@require_POST
def set_up_channel(request: PersonRequest) -> HttpResponse:
    """Saves a person's settings for a channel, or with `off` deletes them."""
    channel = channels().get(request.POST.get("channel", ""))
    if channel is None or channel.form is None:
        messages.error(request, "This channel has no settings, or doesn't exist.")
        return redirect("notify:notifications")
    if "off" in request.POST:
        recipients.delete_settings(channel, request.membership)
    else:
        form = channel.form(request.POST)
        if not form.is_valid():
            return _page(request, {channel.id: form})
        recipients.save_settings(channel, request.membership, form.cleaned_data)
    messages.success(request, "Saved.")
    return redirect("notify:notifications")


@open_to_viewers
@require_POST
def send_test_mail(request: PersonRequest) -> HttpResponse:
    """Sends a test message now, so that the page can show errors."""
    channel = channels().get(request.POST.get("channel", "mail"))
    target = channel and recipients.target(channel, request.user, request.workspace)
    if not channel or not target:
        messages.error(request, "This channel doesn't reach you.")
        return redirect("notify:notifications")
    wait_seconds = rate_limits.seconds_until_person_may(
        "test-mail", request.user.pk, TEST_MAILS_A_MINUTE
    )
    if wait_seconds:
        messages.error(request, f"Too many test mails. Try again in {wait_seconds} s.")
        return redirect("notify:notifications")
    error = delivery.send_test(channel, target)
    name = f"test {channel.title.lower()}"
    if error:
        messages.error(request, f"The {name} couldn't be sent. {error}")
    else:
        messages.success(request, f"{name.capitalize()} sent to {target}.")
    return redirect("notify:notifications")


@open_to_viewers
@require_POST
def send_again(request: PersonRequest) -> HttpResponse:
    """Retries one of the person's own failed mails. It is sent in the next round."""
    failed = scope.mails_to(request.membership).filter(state=Mail.FAILED)
    try:
        mail = ModelChoiceField(failed, to_field_name="uuid").clean(request.POST.get("mail"))
    except ValidationError:
        messages.error(request, "This mail hasn't failed, or doesn't exist.")
    else:
        queue.retry_mail(mail)
        messages.success(request, "The mail will be sent again within a minute.")
    return redirect("notify:notifications")


def _page(
    request: PersonRequest,
    refused: dict[str, Form] | None = None,
    least: LeastSavingForm | None = None,
) -> HttpResponse:
    """Return the page. `refused` are forms to show with their errors, by channel; `least` is that
    of the workspace.
    """
    present = {"least_mailed_usd": f"{request.workspace.least_mailed_usd:.2f}"}
    context = {
        "least": least or LeastSavingForm(initial=present),
        "choices": _choices(request.membership),
        "panels": [_panel(each, request.membership, refused or {}) for each in channels().values()],
        "mails": scope.mails_to(request.membership)[:MOST_MAILS],
        "now": now(),
    }
    return render(request, "notify/notifications.html", context)


def _panel(channel: Channel, member: Membership, refused: dict[str, Form]) -> Panel:
    if channel.form is None:
        return Panel(channel, channel.setup(), None, is_reached=True)
    entered = recipients.read_settings(channel, member)
    form = refused.get(channel.id) or channel.form(initial=entered)
    return Panel(channel, channel.setup(), form, is_reached=entered is not None)


def _choices(member: Membership) -> list[Choice]:
    held = {each.kind: each for each in scope.subscriptions_of(member)}
    return [
        Choice(kind, held.get(kind.id, Subscription(membership=member)).is_wanted)
        for kind in KINDS.values()
    ]
