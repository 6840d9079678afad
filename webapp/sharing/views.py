"""Creates, lists and revokes links for people outside the workspace."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from webapp.accounts.access import PersonRequest, members_only, owners_only
from webapp.http.addresses import own_url
from webapp.runs import scope as runs_scope
from webapp.runs.models import Run
from webapp.sharing import links, scope
from webapp.sharing.forms import ShareForm


@members_only
@require_http_methods(["GET", "POST"])
@never_cache
def share_run(request: PersonRequest, run_id: UUID) -> HttpResponse:
    """Creates a link to a run or its report, shown once."""
    return _share(request, runs_scope.run_or_404(request.workspace, run_id))


@members_only
@require_http_methods(["GET", "POST"])
@never_cache
def share_comparison(request: PersonRequest) -> HttpResponse:
    """Creates a link to the comparison of `?a=RUN&b=RUN`, shown once."""
    a, b = (
        runs_scope.run_or_404(request.workspace, request.GET.get(name, "")) for name in ("a", "b")
    )
    if a == b:
        raise Http404("A comparison needs two runs.")
    return _share(request, b, a)


@require_safe
def list_links(request: PersonRequest) -> HttpResponse:
    """Lists the workspace's links."""
    listed = scope.links_of(request.workspace).order_by("revoked_at", "-created_at")
    shown = [(link, links.may_revoke(request.membership, link)) for link in listed]
    return render(request, "sharing/links.html", {"links": shown[: links.MOST_LISTED]})


@require_POST
def revoke_link(request: PersonRequest, link_uuid: UUID) -> HttpResponse:
    link = get_object_or_404(scope.links_of(request.workspace), uuid=link_uuid)
    if not links.may_revoke(request.membership, link):
        raise PermissionDenied("Owners revoke the links of others.")
    links.revoke_link(link, request.user)
    messages.success(request, "The link is revoked: it no longer opens.")
    return redirect("sharing:links")


@owners_only
@require_POST
def allow_sharing(request: PersonRequest) -> HttpResponse:
    """Switches all links of the workspace on or off."""
    is_allowed = "allows_sharing" in request.POST
    links.allow_sharing(request.workspace, request.user, is_allowed=is_allowed)
    messages.success(request, "Saved.")
    return redirect("sharing:links")


def _share(request: PersonRequest, run: Run, earlier: Run | None = None) -> HttpResponse:
    workspace = request.workspace
    form = ShareForm(request.POST or None, is_comparison=earlier is not None)
    address = ""
    if request.method == "POST" and workspace.allows_sharing and form.is_valid():
        kind, days = form.cleaned_data["kind"], int(form.cleaned_data["days"])
        secret = links.create_link(request.user, kind, run, days, earlier)[1]
        address = own_url(request) + reverse("dashboard:shared", args=[secret])
    context = {"form": form, "run": run, "earlier": earlier, "address": address}
    return render(request, "sharing/share.html", context)
