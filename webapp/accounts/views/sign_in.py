"""Signing in by a one-time link, and out."""

from __future__ import annotations

from django.contrib.auth import login, logout
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from webapp.accounts.models import SignInLink, User, digest

NEXT = "sign_in_next"
"""Session key: the page that asked for the sign-in."""


@require_safe
@never_cache
def sign_in(request: HttpRequest) -> HttpResponse:
    """Says how to get in; remembers the page to go back to."""
    if request.user.is_authenticated:
        return redirect("runs:jobs")
    wanted = request.GET.get("next", "")
    if _is_ours(request, wanted):
        request.session[NEXT] = wanted
    return render(request, "accounts/sign_in.html")


@require_http_methods(["GET", "POST"])
@never_cache
def use_link(request: HttpRequest, secret: str) -> HttpResponse:
    """GET asks, POST signs in and burns the link: programs that preview links must not use it."""
    link = SignInLink.objects.filter(digest=digest(secret)).first()
    problem = _problem(link)
    if request.method == "GET" or problem:
        context = {"problem": problem, "user_name": link.user if link else ""}
        return render(request, "accounts/use_link.html", context, status=410 if problem else 200)
    user = _burn(secret)
    if user is None:
        context = {"problem": "used"}
        return render(request, "accounts/use_link.html", context, status=410)
    wanted = request.session.pop(NEXT, "")
    login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    return redirect(wanted or "runs:jobs")


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    logout(request)
    return redirect("accounts:sign_in")


def _problem(link: SignInLink | None) -> str:
    """Why this link doesn't sign in; empty: it does."""
    if link is None or not link.user.is_active:
        return "unknown"
    if link.used_at is not None:
        return "used"
    return "expired" if link.expires_at <= timezone.now() else ""


@transaction.atomic
def _burn(secret: str) -> User | None:
    """The person, exactly once: of two clicks at the same moment one finds the link used."""
    now = timezone.now()
    unused = SignInLink.objects.filter(digest=digest(secret), used_at=None, expires_at__gt=now)
    if unused.update(used_at=now) != 1:
        return None
    return SignInLink.objects.select_related("user").get(digest=digest(secret)).user


def _is_ours(request: HttpRequest, address: str) -> bool:
    return url_has_allowed_host_and_scheme(address, allowed_hosts={request.get_host()})
