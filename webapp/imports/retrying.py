"""Converts again what failed to import, because a person asked for it."""

from __future__ import annotations

from webapp.imports import queue, scope
from webapp.imports.models import Import
from webapp.runs.models import Run


def retry(run: Run) -> int:
    """Queue the run's failed imports again, and return how many they are.

    Raises:
        Problem: 429 beyond a quota of imports.
    """
    failed = list(scope.imports_of(run).filter(scope.has_failed()))
    for row in failed:
        queue.queue_again(Import.objects.filter(pk=row.pk), row.artefact)
    return len(failed)
