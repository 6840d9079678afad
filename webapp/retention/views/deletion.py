"""Deletes and restores workspaces."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from webapp.accounts import audit, scope
from webapp.accounts.access import PersonRequest, owners_only, signed_in_only
from webapp.accounts.models import Workspace
from webapp.retention.due import UNDO_WORKSPACE


@owners_only
@require_http_methods(["GET", "POST"])
def delete_workspace(request: PersonRequest) -> HttpResponse:
    """Asks for the workspace's name, because everything in it is deleted."""
    named = request.POST.get("name", "").strip()
    if request.method == "POST" and named == request.workspace.name:
        return _delete(request)
    wrong = f"{named} is not the workspace's name." if request.method == "POST" else ""
    context = {"wrong": wrong, "undo_days": UNDO_WORKSPACE.days}
    return render(request, "retention/delete_workspace.html", context)


@transaction.atomic
def _delete(request: PersonRequest) -> HttpResponse:
    workspace = request.workspace
    workspace.deleted_at = timezone.now()
    workspace.save(update_fields=["deleted_at"])
    audit.record(workspace, request.user, "workspace.deleted", workspace.name)
    return redirect("retention:deleted_workspaces")


@signed_in_only
@require_safe
def deleted_workspaces(request: PersonRequest) -> HttpResponse:
    """Shows the person's deleted workspaces that can still be restored."""
    workspaces = [(w, _goes_at(w)) for w in scope.deleted_workspaces_of(request.user)]
    return render(request, "retention/deleted_workspaces.html", {"workspaces": workspaces})


@signed_in_only
@require_POST
@transaction.atomic
def restore_workspace(request: PersonRequest, deleted_uuid: UUID) -> HttpResponse:
    """Restore a workspace with everything in it. Its tokens work again."""
    own = scope.deleted_workspaces_of(request.user)
    workspace = get_object_or_404(own, uuid=deleted_uuid)
    workspace.deleted_at = None
    workspace.save(update_fields=["deleted_at"])
    audit.record(workspace, request.user, "workspace.restored", workspace.name)
    request.session["workspace"] = workspace.pk
    messages.success(request, f"{workspace} is restored, with its tokens.")
    return redirect("dashboard:home")


def _goes_at(workspace: Workspace):  # type: ignore[no-untyped-def]
    assert workspace.deleted_at is not None  # noqa: S101 - the scope looked
    return workspace.deleted_at + UNDO_WORKSPACE
