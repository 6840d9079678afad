"""The workspaces of a person, and the settings of the current one."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from webapp.accounts import audit, scope, setup
from webapp.accounts.access import PersonRequest, changed_by_owners, signed_in_only
from webapp.accounts.forms import NewWorkspaceForm, WorkspaceForm


@signed_in_only
@require_POST
def switch(request: PersonRequest) -> HttpResponse:
    """Switch to another workspace of the person, and go to the page `next` in it; 404 for any
    other."""
    own = scope.workspaces_of(request.user)
    chosen = get_object_or_404(own, uuid=_uuid(request.POST.get("workspace", "")))
    request.session["workspace"] = chosen.pk
    wanted = request.POST.get("next", "")
    if url_has_allowed_host_and_scheme(wanted, {request.get_host()}, request.is_secure()):
        return redirect(wanted)
    return redirect("dashboard:home")


@signed_in_only
@require_safe
def no_workspace(request: HttpRequest) -> HttpResponse:
    """Shows the page of a person who isn't a member of any workspace."""
    return render(request, "accounts/no_workspace.html")


@signed_in_only
@require_http_methods(["GET", "POST"])
def new_workspace(request: PersonRequest) -> HttpResponse:
    """Creates a workspace, of which the creator becomes the owner."""
    form = NewWorkspaceForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        made = setup.new_workspace(form.cleaned_data["name"], request.user)
        request.session["workspace"] = made.pk
        return redirect("dashboard:home")
    return render(request, "accounts/new_workspace.html", {"form": form})


@changed_by_owners
@require_http_methods(["GET", "POST"])
def general(request: PersonRequest) -> HttpResponse:
    """Edits name and time zone."""
    workspace = request.workspace
    before = {name: getattr(workspace, name) for name in WorkspaceForm.Meta.fields}
    form = WorkspaceForm(request.POST or None, instance=workspace)
    if request.method == "POST" and form.is_valid():
        with transaction.atomic():
            form.save()
            change = {name: (before[name], form.cleaned_data[name]) for name in form.changed_data}
            audit.record(workspace, request.user, "workspace.changed", workspace.name, change)
        messages.success(request, "Saved.")
        return redirect("accounts:general")
    if request.method == "POST":
        workspace.refresh_from_db()
    context = {"form": form, "is_read_only": not request.is_owner}
    return render(request, "accounts/general.html", context)


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Http404 from None
