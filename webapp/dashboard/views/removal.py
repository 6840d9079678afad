"""Removing a member, and leaving a workspace: what that affects, then the removal itself."""

from __future__ import annotations

from functools import reduce
from operator import or_

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods

from webapp.accounts import members, scope
from webapp.accounts.access import PersonRequest, open_to_viewers, owners_only
from webapp.accounts.models import Membership
from webapp.runs.models import Job
from webapp.runs.scope import jobs_of

MOST_JOBS = 20
"""The most jobs that the page names; it counts the others."""


@owners_only
@require_http_methods(["GET", "POST"])
def remove_member(request: PersonRequest, membership_id: int) -> HttpResponse:
    """Shows the tokens and jobs of the member; the owner chooses which tokens to keep."""
    membership = get_object_or_404(scope.memberships_of(request.workspace), pk=membership_id)
    if membership.user_id == request.user.pk:
        return redirect("dashboard:leave")
    return _removed(request, membership) if request.method == "POST" else _page(request, membership)


@open_to_viewers
@require_http_methods(["GET", "POST"])
def leave(request: PersonRequest) -> HttpResponse:
    """Shows which tokens will be revoked. Only an owner who removes a member can keep them."""
    membership = request.membership
    return _removed(request, membership) if request.method == "POST" else _page(request, membership)


def _removed(request: PersonRequest, membership: Membership) -> HttpResponse:
    kept = {int(pk) for pk in request.POST.getlist("kept") if pk.isdecimal() and len(pk) < 19}
    try:
        members.remove(membership, request.user, kept)
    except ValidationError as error:
        messages.error(request, error.message)
        return redirect("accounts:members")
    messages.success(request, f"{membership.user} is no longer a member of {membership.workspace}.")
    is_own = membership.user_id == request.user.pk
    return redirect("dashboard:home" if is_own else "accounts:members")


def _page(request: PersonRequest, membership: Membership) -> HttpResponse:
    jobs = _jobs_owned_by(membership)
    shown, count = list(jobs[:MOST_JOBS]), jobs.count()
    context = {
        "membership": membership,
        "is_own": membership.user_id == request.user.pk,
        "tokens": list(scope.tokens_held_by(membership)),
        "jobs": shown,
        "more_jobs": count - len(shown),
    }
    return render(request, "dashboard/removal.html", context)


def _jobs_owned_by(membership: Membership) -> QuerySet[Job]:
    """Return the jobs whose owner is the person's name or email address: owners of jobs are
    texts.
    """
    names = filter(None, (membership.user.name, membership.user.email))
    owned = reduce(or_, (Q(owner__iexact=name) for name in names))
    return jobs_of(membership.workspace).filter(owned).order_by("name")
