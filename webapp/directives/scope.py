"""What a person may see of what is asked of a run."""

from __future__ import annotations

from django.db.models import QuerySet

from webapp.directives.models import Directive
from webapp.runs.models import Run


def directives_of(run: Run) -> QuerySet[Directive]:
    """Of all attempts of a run that the person may see, with the answers."""
    found = Directive.objects.filter(attempt__run=run)
    return found.select_related("attempt").prefetch_related("answers")
