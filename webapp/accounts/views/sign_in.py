"""Sign-in by password or one-time link, the code of the second factor, and sign-out."""

from __future__ import annotations

import math
import time
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import authenticate, login, logout
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST
from django_otp import login as remember_device
from django_otp.models import Device

from webapp.accounts import links, passwords, people, second_factor, sessions
from webapp.accounts.access import open_to_everybody, signed_in_only
from webapp.accounts.forms import CodeForm, SignInForm
from webapp.accounts.models import RecoveryCodes, User

NEXT = "sign_in_next"
"""Session key: the page that asked for the sign-in."""
PENDING = "sign_in_pending"
"""Session key: the person who has yet to enter a code, as `_pending` reads it."""
PENDING_SECONDS = 600
WRONG = "Wrong email address or password."
"""The message for a wrong password, the same whether or not the account exists."""


@open_to_everybody
@require_http_methods(["GET", "POST"])
@never_cache
@sensitive_post_parameters("password")
def sign_in(request: HttpRequest) -> HttpResponse:
    """Sign in by password; shows the other ways. Remembers the page to return to."""
    if request.user.is_authenticated:
        return redirect("dashboard:home")
    remember(request, request.GET.get("next", ""))
    form = SignInForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        wait = passwords.seconds_until_sign_in(request, form.cleaned_data["email"])
        if wait:
            return _limited(request, wait)
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
    """Shows all ways to sign in. `more` may have `problem`, the reason for a refusal."""
    provider = settings.OIDC_NAME if settings.OIDC_ISSUER else ""
    context = {"form": form or SignInForm(), "provider": provider, **more}
    return render(request, "accounts/sign_in.html", context, status=status)


def locked_out(request: HttpRequest, _credentials: dict[str, Any], **_: Any) -> HttpResponse:
    """Answers after too many wrong passwords for one account from one network."""
    return _limited(request, int(settings.AXES_COOLOFF_TIME.total_seconds()))


def _limited(request: HttpRequest, wait_seconds: int) -> HttpResponse:
    """Answer the same page for each limit, whether or not the account exists."""
    minutes = math.ceil(wait_seconds / 60)
    answer = sign_in_page(request, status=429, locked_minutes=minutes)
    answer["Retry-After"] = str(wait_seconds)
    return answer


@open_to_everybody
@require_http_methods(["GET", "POST"])
@never_cache
def use_link(request: HttpRequest, secret: str) -> HttpResponse:
    """Asks by GET; signs in and uses the link up by POST: programs that preview links send only
    GET.
    """
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


@open_to_everybody
@require_http_methods(["GET", "POST"])
@never_cache
@sensitive_post_parameters("code")
def sign_in_code(request: HttpRequest) -> HttpResponse:
    """Asks for the second step: a code of the app, or a recovery code."""
    remember(request, request.GET.get("next", ""))
    user = _pending(request)
    if user is None or not second_factor.is_on(user):
        return redirect("accounts:sign_in")
    form = CodeForm(request.POST or None)
    device = _accepted(user, form) if request.method == "POST" and form.is_valid() else None
    if device is not None:
        return _enter_by_code(request, user, device)
    context = {"form": form, "person": user}
    return render(request, "accounts/sign_in_code.html", context)


def _accepted(user: User, form: CodeForm) -> Device | None:
    """Return the device that the code is valid for; None with the reason in the form."""
    try:
        device = second_factor.accept_code(user, form.cleaned_data["code"])
    except second_factor.TooManyCodesError as error:
        form.add_error("code", str(error))
        return None
    if device is None:
        form.add_error("code", "Wrong code. Each code of the app works once, for about a minute.")
    return device


def _enter_by_code(request: HttpRequest, user: User, device: Device) -> HttpResponse:
    answer = _begin(request, user)
    remember_device(request, device)
    if isinstance(device, RecoveryCodes):
        left = second_factor.recovery_codes_left(user)
        messages.warning(request, f"You used a recovery code. Recovery codes left: {left}.")
    return answer


def _pending(request: HttpRequest) -> User | None:
    """Return the person who has yet to enter a code, after the password or in a session without
    one.
    """
    held = request.session.get(PENDING)
    if held is None or time.time() - held["at"] > PENDING_SECONDS:
        is_signed_in = isinstance(request.user, User)
        return request.user if is_signed_in and not second_factor.is_satisfied(request) else None  # type: ignore[return-value]
    user = people.active(held["user"])
    # A new password ends sign-ins that were begun with the old one.
    return user if user and user.get_session_auth_hash() == held["hash"] else None


@signed_in_only
@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    logout(request)
    return redirect("accounts:sign_in")


def remember(request: HttpRequest, address: str) -> None:
    """Set the page of this service to open after the sign-in."""
    if url_has_allowed_host_and_scheme(address, allowed_hosts={request.get_host()}):
        request.session[NEXT] = address


def enter(request: HttpRequest, user: User) -> HttpResponse:
    """Sign in, or ask for a code first if the person has two-factor sign-in."""
    if not second_factor.is_on(user):
        return _begin(request, user)
    held = {"user": user.pk, "at": time.time(), "hash": user.get_session_auth_hash()}
    request.session[PENDING] = held
    return redirect("accounts:sign_in_code")


def enter_by_provider(request: HttpRequest, user: User) -> HttpResponse:
    """Sign in without a code: the provider has its own second factor, or requires none."""
    answer = _begin(request, user)
    request.session[second_factor.BY_PROVIDER] = True
    return answer


def _begin(request: HttpRequest, user: User) -> HttpResponse:
    """Begin a session under a new key, and open the page that the person wanted."""
    wanted = request.session.pop(NEXT, "")
    for key in (PENDING, second_factor.BY_PROVIDER):
        request.session.pop(key, None)
    login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    sessions.record_session(request, user)
    return redirect(wanted or "dashboard:home")
