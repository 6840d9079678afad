"""The people of a workspace, and those who are invited."""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from webapp.accounts import mails, members, scope
from webapp.accounts.access import PersonRequest, changed_by_owners, open_to_viewers, owners_only
from webapp.accounts.forms import InvitationForm
from webapp.accounts.models import Membership


@changed_by_owners
@require_http_methods(["GET", "POST"])
@never_cache
def list_members(request: PersonRequest) -> HttpResponse:
    """Everybody; owners invite here. The new link is shown this once."""
    form = InvitationForm(request.POST or None)
    link = _invite(request, form) if request.method == "POST" and form.is_valid() else ""
    context = {
        "form": InvitationForm() if link else form,
        "link": link,
        "memberships": scope.memberships_of(request.workspace).order_by("user__email"),
        "invitations": scope.invitations_of(request.workspace) if request.is_owner else [],
        "roles": Membership.ROLES,
    }
    return render(request, "accounts/members.html", context)


def _invite(request: PersonRequest, form: InvitationForm) -> str:
    """The link of the invitation; empty with the reason in the form."""
    email, role = form.cleaned_data["email"], form.cleaned_data["role"]
    try:
        secret = members.invite(request.workspace, request.user, email, role)
    except ValidationError as error:
        form.add_error("email", error)
        return ""
    link = settings.BASE_URL + reverse("accounts:accept_invitation", args=[secret])
    invitation = members.open_invitation(secret)
    if invitation is not None and not mails.send_invitation(invitation, link):
        messages.warning(request, "The mail server refused the mail. Send the link yourself.")
    return link


@owners_only
@require_POST
def withdraw_invitation(request: PersonRequest, invitation_uuid: UUID) -> HttpResponse:
    invitation = get_object_or_404(scope.invitations_of(request.workspace), uuid=invitation_uuid)
    members.withdraw(invitation, request.user)
    messages.success(
        request, f"The invitation of {invitation.email} is withdrawn. Its link no longer works."
    )
    return redirect("accounts:members")


@owners_only
@require_POST
def change_role(request: PersonRequest, membership_id: int) -> HttpResponse:
    membership = get_object_or_404(scope.memberships_of(request.workspace), pk=membership_id)
    try:
        members.change_role(membership, request.user, request.POST.get("role", ""))
    except ValidationError as error:
        messages.error(request, error.message)
    return redirect("accounts:members")


@owners_only
@require_POST
def remove_member(request: PersonRequest, membership_id: int) -> HttpResponse:
    membership = get_object_or_404(scope.memberships_of(request.workspace), pk=membership_id)
    return _remove(request, membership)


@open_to_viewers
@require_POST
def leave(request: PersonRequest) -> HttpResponse:
    return _remove(request, request.membership)


def _remove(request: PersonRequest, membership: Membership) -> HttpResponse:
    try:
        members.remove(membership, request.user)
    except ValidationError as error:
        messages.error(request, error.message)
        return redirect("accounts:members")
    messages.success(request, f"{membership.user} is no longer a member of {membership.workspace}.")
    return redirect(
        "dashboard:jobs" if membership.user_id == request.user.pk else "accounts:members"
    )
