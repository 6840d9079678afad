"""The home page."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from webapp.accounts.access import PersonRequest
from webapp.dashboard.selectors.home import home_page
from webapp.runs import scope
from webapp.service import agent_wheel


@require_safe
def home(request: PersonRequest) -> HttpResponse:
    """What needs somebody; in a workspace without jobs, how to connect the agent. With a query,
    which only the list of jobs has, it was bookmarked when that list was here."""
    if request.GET:
        return redirect(f"{reverse('dashboard:jobs')}?{request.GET.urlencode()}")
    if not scope.jobs_of(request.workspace).exists():
        known = {"base_url": settings.BASE_URL, "agent_wheel": agent_wheel.address()}
        return render(request, "dashboard/no_jobs.html", known)
    page = home_page(request.workspace, timezone.now())
    return render(request, "dashboard/home.html", {"page": page})
