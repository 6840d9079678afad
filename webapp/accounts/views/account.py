"""The person's own account."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from webapp.accounts import sessions
from webapp.accounts.access import PersonRequest, signed_in_only
from webapp.accounts.forms import ChangePasswordForm, PersonForm
from webapp.accounts.models import User


@signed_in_only
@require_http_methods(["GET", "POST"])
def account(request: PersonRequest) -> HttpResponse:
    """Shows and edits name and address."""
    user: User = request.user
    form = PersonForm(request.POST or None, instance=user)
    if request.method == "POST" and form.is_valid():
        form.save()
        messages.success(request, "Saved.")
        return redirect("accounts:account")
    if request.method == "POST":
        user.refresh_from_db()
    return _page(request, form, ChangePasswordForm(user))


@signed_in_only
@require_POST
@sensitive_post_parameters()
def change_password(request: PersonRequest) -> HttpResponse:
    """Set a new password. All other sessions of the person end."""
    user: User = request.user
    form = ChangePasswordForm(user, request.POST)
    if not form.is_valid():
        return _page(request, PersonForm(instance=user), form)
    user.set_password(form.cleaned_data["password"])
    user.save(update_fields=["password"])
    update_session_auth_hash(request, user)
    sessions.record_session(request, user)
    sessions.end_others(request, user)
    messages.success(request, "Password set. You are signed out on all other devices.")
    return redirect("accounts:account")


def _page(request: PersonRequest, form: PersonForm, password: ChangePasswordForm) -> HttpResponse:
    context = {"form": form, "password_form": password}
    return render(request, "accounts/account.html", context)
