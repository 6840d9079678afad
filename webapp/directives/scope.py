"""The directives that a person may see."""

from __future__ import annotations

from django.db.models import QuerySet
from trimtab.wire import FIRST_ADDED

from webapp.directives.models import Directive
from webapp.runs.models import Run, Segment, Session


def directives_of(run: Run) -> QuerySet[Directive]:
    """The directives of all attempts of a run that the person may see, with the answers."""
    directives = Directive.objects.filter(attempt__run=run)
    return directives.select_related("attempt").prefetch_related("answers")


def sampled_seconds(run: Run) -> float | None:
    """Between two samples of the newest segment of the session that began last; None: no segment.

    By session and number, of which there is an index: a run may have a hundred thousand segments.
    """
    session = Session.objects.filter(node__attempt__run=run).order_by("started_at").last()
    own = Segment.objects.filter(session=session, seq__lt=FIRST_ADDED)
    newest = own.order_by("seq").last() if session else None
    return newest.resolution_ms / 1000 if newest else None
