"""Members and invitations of a workspace."""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from webapp.accounts import audit, mails, members, scope, second_factor
from webapp.accounts.access import PersonRequest, changed_by_owners, owners_only
from webapp.accounts.forms import InvitationForm, TwoFactorRequirementForm
from webapp.accounts.models import Membership


@changed_by_owners
@require_http_methods(["GET", "POST"])
def list_members(request: PersonRequest) -> HttpResponse:
    """List the members; owners invite here. A new link is shown once."""
    form = InvitationForm(request.POST or None)
    link, is_mailed = "", False
    if request.method == "POST" and form.is_valid():
        link, is_mailed = _invite(request, form)
    context = {
        "form": InvitationForm() if link else form,
        "link": link,
        "is_mailed": is_mailed,
        "memberships": scope.memberships_of(request.workspace).order_by("user__email"),
        "invitations": scope.invitations_of(request.workspace) if request.is_owner else [],
        "roles": Membership.ROLES,
        "with_two_factor": second_factor.people_with(request.workspace) if request.is_owner else (),
        "requirement": TwoFactorRequirementForm(instance=request.workspace),
    }
    return render(request, "accounts/members.html", context)


def _invite(request: PersonRequest, form: InvitationForm) -> tuple[str, bool]:
    """Return the link of the new invitation, and whether it was mailed; empty with the reason in
    the form.
    """
    email, role = form.cleaned_data["email"], form.cleaned_data["role"]
    try:
        secret = members.invite(request.workspace, request.user, email, role)
    except ValidationError as error:
        form.add_error("email", error)
        return "", False
    link = settings.BASE_URL + reverse("accounts:accept_invitation", args=[secret])
    invitation = members.open_invitation(secret)
    return link, invitation is not None and mails.send_invitation(invitation, link)


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
def require_two_factor(request: PersonRequest) -> HttpResponse:
    """Require two factors of all members, or no longer."""
    workspace = request.workspace
    before = workspace.requires_two_factor
    form = TwoFactorRequirementForm(request.POST, instance=workspace)
    form.full_clean()
    wanted = form.cleaned_data["requires_two_factor"]
    if wanted and not second_factor.is_satisfied(request):
        messages.error(request, "Set up your own two-factor sign-in first, then require it.")
        return redirect("accounts:two_factor")
    with transaction.atomic():
        form.save()
        change = {"requires_two_factor": (before, wanted)}
        audit.record(workspace, request.user, "workspace.changed", workspace.name, change)
    messages.success(request, "Saved.")
    return redirect("accounts:members")
