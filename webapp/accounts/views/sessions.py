"""The devices on which a person is signed in."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.contrib.auth import logout
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from webapp.accounts import sessions
from webapp.accounts.access import PersonRequest, signed_in_only


@signed_in_only
@require_safe
def list_sessions(request: PersonRequest) -> HttpResponse:
    """Shows device, address and last use of each session."""
    listed = [
        (held, sessions.device_name(held.user_agent))
        for held in sessions.active_sessions(request.user)
    ]
    context = {"listed": listed, "current": request.session.session_key}
    return render(request, "accounts/sessions.html", context)


@signed_in_only
@require_POST
def end_session(request: PersonRequest, session_uuid: UUID) -> HttpResponse:
    """Sign out on one device. A session that has ended meanwhile is no error."""
    chosen = sessions.active_sessions(request.user).filter(uuid=session_uuid)
    if chosen.filter(session=request.session.session_key).exists():
        logout(request)
        return redirect("accounts:sign_in")
    sessions.end_sessions(chosen)
    messages.success(request, "That device is signed out.")
    return redirect("accounts:sessions")


@signed_in_only
@require_POST
def end_all_sessions(request: PersonRequest) -> HttpResponse:
    """Sign out on all devices, this one included."""
    sessions.end_others(request, request.user)
    logout(request)
    messages.success(request, "You are signed out on all devices.")
    return redirect("accounts:sign_in")
