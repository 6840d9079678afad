"""Which workspace a person looks at."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST

from webapp.accounts.models import Workspace


@require_POST
@login_required
def switch(request: HttpRequest) -> HttpResponse:
    """Look at another workspace of one's own; 404 for any other."""
    own = Workspace.objects.filter(members=request.user)  # type: ignore[misc]
    chosen = get_object_or_404(own, uuid=_uuid(request.POST.get("workspace", "")))
    request.session["workspace"] = chosen.pk
    return redirect("runs:jobs")


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Http404 from None
