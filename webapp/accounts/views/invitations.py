"""Joining a workspace by an invitation."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from webapp.accounts import members, people
from webapp.accounts.access import open_to_everybody
from webapp.accounts.forms import JoinForm
from webapp.accounts.models import Invitation, User
from webapp.accounts.views.sign_in import enter, remember


@open_to_everybody
@require_http_methods(["GET", "POST"])
@never_cache
@sensitive_post_parameters()
def accept_invitation(request: HttpRequest, secret: str) -> HttpResponse:
    """Accepts an invitation. A new person creates an account; a person with an account signs in
    first.
    """
    invitation = members.open_invitation(secret)
    if invitation is None:
        return _page(request, None, {}, 410)
    invited = people.find_user(invitation.email)
    if request.user.is_authenticated or invited is not None:
        return _join(request, invitation, invited)
    form = JoinForm(User(email=invitation.email), request.POST or None)
    if request.method == "POST" and form.is_valid():
        user = people.join(invitation, form.cleaned_data)
        return _enter(request, invitation, user) if user else _page(request, None, {}, 410)
    return _page(request, invitation, {"form": form})


def _join(request: HttpRequest, invitation: Invitation, invited: User | None) -> HttpResponse:
    if not request.user.is_authenticated:
        remember(request, request.path)
        return _page(request, invitation, {"must_sign_in": True})
    if invited is None or invited.pk != request.user.pk:
        return _page(request, invitation, {"is_somebody_else": True}, status=403)
    if request.method == "POST":
        is_in = members.accept(invitation, invited)
        return _enter(request, invitation, invited) if is_in else _page(request, None, {}, 410)
    return _page(request, invitation, {"is_ready": True})


def _enter(request: HttpRequest, invitation: Invitation, user: User) -> HttpResponse:
    is_signed_in = request.user.pk == user.pk
    answer = redirect("dashboard:home") if is_signed_in else enter(request, user)
    request.session["workspace"] = invitation.workspace_id
    return answer


def _page(
    request: HttpRequest, invitation: Invitation | None, more: dict[str, object], status: int = 200
) -> HttpResponse:
    context = {"invitation": invitation, **more}
    return render(request, "accounts/accept_invitation.html", context, status=status)
