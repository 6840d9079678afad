"""The imports that members of a workspace may see."""

from __future__ import annotations

from django.db.models import QuerySet

from webapp.imports.models import Import
from webapp.runs.models import Run


def imports_of(run: Run) -> QuerySet[Import]:
    """Of a run that a person may see, the oldest first."""
    return Import.objects.filter(artefact__run=run).select_related("artefact").order_by("pk")
