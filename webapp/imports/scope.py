"""The imports that members of a workspace may see."""

from __future__ import annotations

from django.db.models import QuerySet

from webapp.accounts.models import Workspace
from webapp.background import conditions
from webapp.imports.models import Import
from webapp.imports.queue import KIND
from webapp.runs.models import Run


def imports_of(run: Run) -> QuerySet[Import]:
    """Return the imports of a run that a person may see, the oldest first."""
    return Import.objects.filter(artefact__run=run).select_related("artefact").order_by("pk")


def open_imports_of(workspace: Workspace) -> QuerySet[Import]:
    """Return the waiting and running imports, without those of deleted runs."""
    rows = KIND.rows_of(workspace).filter(conditions.is_open(), conditions.due_or_later())
    return rows.select_related("artefact__run__job")
