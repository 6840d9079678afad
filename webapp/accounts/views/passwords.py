"""A new password for whoever forgot theirs."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from webapp.accounts import passwords
from webapp.accounts.access import open_to_everybody
from webapp.accounts.forms import AddressForm, NewPasswordForm
from webapp.accounts.views.sign_in import enter

OPENED = "set"
"""Stands in the address for the link's secret once it was opened."""
LINK = "password_link"
"""Session key: the link's secret, so that it is in no address that is sent on or logged."""


@open_to_everybody
@require_http_methods(["GET", "POST"])
@never_cache
def forgot_password(request: HttpRequest) -> HttpResponse:
    """Answers the same whether or not somebody has the address."""
    form = AddressForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        passwords.send_link(form.cleaned_data["email"])
        return render(request, "accounts/forgot_password.html", {"sent_to": form.cleaned_data})
    return render(request, "accounts/forgot_password.html", {"form": form})


@open_to_everybody
@require_http_methods(["GET", "POST"])
@never_cache
@sensitive_post_parameters()
def new_password(request: HttpRequest, user_key: str, reset_token: str) -> HttpResponse:
    """The link signs in once the new password is set; all other sessions end."""
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
        del request.session[LINK]
        return enter(request, user)
    return render(request, "accounts/new_password.html", {"form": form, "person": user})
