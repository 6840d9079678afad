"""A new password for people who forgot theirs."""

from __future__ import annotations

import math

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from webapp.accounts import passwords, sessions
from webapp.accounts.access import open_to_everybody
from webapp.accounts.forms import AddressForm, NewPasswordForm
from webapp.accounts.views.sign_in import enter

OPENED = "set"
"""The text that replaces the link's secret in the URL once the link was opened."""
LINK = "password_link"
"""Session key: the link's secret, which must not stay in a URL that is passed on or logged."""


@open_to_everybody
@require_http_methods(["GET", "POST"])
@never_cache
def forgot_password(request: HttpRequest) -> HttpResponse:
    """Gives the same answer whether or not the address has an account."""
    form = AddressForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        wait = passwords.seconds_until_reset(request)
        if wait:
            return _limited(request, wait)
        passwords.ask_for_link(form.cleaned_data["email"])
        return render(request, "accounts/forgot_password.html", {"sent_to": form.cleaned_data})
    return render(request, "accounts/forgot_password.html", {"form": form})


def _limited(request: HttpRequest, wait_seconds: int) -> HttpResponse:
    context = {"locked_minutes": math.ceil(wait_seconds / 60)}
    answer = render(request, "accounts/forgot_password.html", context, status=429)
    answer["Retry-After"] = str(wait_seconds)
    return answer


@open_to_everybody
@require_http_methods(["GET", "POST"])
@never_cache
@sensitive_post_parameters()
def new_password(request: HttpRequest, user_key: str, reset_token: str) -> HttpResponse:
    """Sets a new password, which signs in and ends all other sessions."""
    if reset_token != OPENED:
        request.session[LINK] = reset_token
        return redirect("accounts:new_password", user_key, OPENED)
    user = passwords.owner_of_link(user_key, request.session.get(LINK, ""))
    if user is None:
        return render(request, "accounts/new_password.html", status=410)
    form = NewPasswordForm(user, request.POST or None)
    if request.method == "POST" and form.is_valid():
        user.set_password(form.cleaned_data["password"])
        user.save(update_fields=["password"])
        sessions.end_others(request, user)
        del request.session[LINK]
        return enter(request, user)
    return render(request, "accounts/new_password.html", {"form": form, "person": user})
