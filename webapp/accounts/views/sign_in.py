"""Signing in, by password or by a one-time link, and out."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth import authenticate, login, logout
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from webapp.accounts import links
from webapp.accounts.access import open_to_everybody, signed_in_only
from webapp.accounts.forms import SignInForm
from webapp.accounts.models import User

NEXT = "sign_in_next"
"""Session key: the page that asked for the sign-in."""
WRONG = "Wrong email address or password."
"""Says the same whether or not there is such an account."""


@open_to_everybody
@require_http_methods(["GET", "POST"])
@never_cache
@sensitive_post_parameters("password")
def sign_in(request: HttpRequest) -> HttpResponse:
    """By password; says how else to get in. Remembers the page to go back to."""
    if request.user.is_authenticated:
        return redirect("dashboard:jobs")
    remember(request, request.GET.get("next", ""))
    form = SignInForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        user = authenticate(
            request, username=form.cleaned_data["email"], password=form.cleaned_data["password"]
        )
        if isinstance(user, User):
            return enter(request, user)
        form.add_error(None, WRONG)
    return sign_in_page(request, form)


def sign_in_page(
    request: HttpRequest, form: SignInForm | None = None, status: int = 200, **more: object
) -> HttpResponse:
    """All the ways in. `more` has `problem`, what went wrong elsewhere, or `locked_minutes`."""
    provider = settings.OIDC_NAME if settings.OIDC_ISSUER else ""
    context = {"form": form or SignInForm(), "provider": provider, **more}
    return render(request, "accounts/sign_in.html", context, status=status)


def locked_out(request: HttpRequest, _credentials: dict[str, Any], **_: Any) -> HttpResponse:
    """After too many wrong passwords for one account from one address."""
    minutes = int(settings.AXES_COOLOFF_TIME.total_seconds() // 60)
    answer = sign_in_page(request, status=429, locked_minutes=minutes)
    answer["Retry-After"] = str(minutes * 60)
    return answer


@open_to_everybody
@require_http_methods(["GET", "POST"])
@never_cache
def use_link(request: HttpRequest, secret: str) -> HttpResponse:
    """GET asks, POST signs in and burns the link: programs that preview links must not use it."""
    link = links.find(secret)
    problem = links.problem(link)
    if request.method == "GET" or problem:
        context = {"problem": problem, "user_name": link.user if link else ""}
        return render(request, "accounts/use_link.html", context, status=410 if problem else 200)
    user = links.burn(secret)
    if user is None:
        context = {"problem": "used"}
        return render(request, "accounts/use_link.html", context, status=410)
    return enter(request, user)


@signed_in_only
@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    logout(request)
    return redirect("accounts:sign_in")


def remember(request: HttpRequest, address: str) -> None:
    """The page of ours to go to after the sign-in."""
    if url_has_allowed_host_and_scheme(address, allowed_hosts={request.get_host()}):
        request.session[NEXT] = address


def enter(request: HttpRequest, user: User) -> HttpResponse:
    """Begin a session under a new key, and go where the person wanted to."""
    wanted = request.session.pop(NEXT, "")
    login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    return redirect(wanted or "dashboard:jobs")
