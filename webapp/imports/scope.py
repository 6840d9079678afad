"""The imports that members of a workspace may see."""

from __future__ import annotations

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from webapp.accounts.models import Workspace
from webapp.background import conditions
from webapp.imports.models import WHOLE, Import
from webapp.imports.queue import KIND
from webapp.runs.models import Run


def imports_of(run: Run) -> QuerySet[Import]:
    """Return the imports of a run that a person may see, the oldest first, without those that a
    later upload of the same name replaced, for instance with other options.
    """
    later = Import.objects.filter(
        artefact__run=OuterRef("artefact__run"),
        artefact__name=OuterRef("artefact__name"),
        artefact__kind=WHOLE,
        pk__gt=OuterRef("pk"),
    )
    is_done = Q(wanted__lte=F("done"))
    replaced = (has_failed() & Exists(later)) | (is_done & Exists(later.filter(is_done)))
    rows = Import.objects.filter(artefact__run=run).exclude(replaced)
    return rows.select_related("artefact").order_by("pk")


def has_failed() -> Q:
    """Select imports that were given up."""
    return conditions.has_news() & Q(given_up_at__isnull=False)


def open_imports_of(workspace: Workspace) -> QuerySet[Import]:
    """Return the waiting and running imports, without those of deleted runs."""
    rows = KIND.rows_of(workspace).filter(conditions.is_open(), conditions.due_or_later())
    return rows.select_related("artefact__run__job")
