"""The directives that a person may see."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Exists, OuterRef, QuerySet
from trimtab.wire import FIRST_ADDED

from webapp.directives.models import Directive
from webapp.runs.models import Attempt, Node, Run, Segment, Session


def directives_of(run: Run) -> QuerySet[Directive]:
    """Return the directives of all attempts of a run that the person may see, with the answers."""
    directives = Directive.objects.filter(attempt__run=run)
    return directives.select_related("attempt").prefetch_related("answers")


def newest_nodes_of(runs: Iterable[Run]) -> QuerySet[Node]:
    """Return the nodes of the last attempt of each of these runs, with the attempt, and whether a
    `stop` and a `profile` wait for an agent to hear them.
    """
    waiting = Directive.objects.filter(attempt=OuterRef("attempt"), answers=None).order_by()
    own = OuterRef("attempt__run"), OuterRef("attempt__number")
    later = Attempt.objects.filter(run=own[0], number__gt=own[1])
    nodes = Node.objects.filter(~Exists(later), attempt__run__in=runs)
    nodes = nodes.annotate(
        stop_is_waiting=Exists(waiting.filter(kind=Directive.STOP)),
        profile_is_waiting=Exists(waiting.filter(kind=Directive.PROFILE)),
    )
    return nodes.select_related("attempt").only("allows_stop", "attempt", "attempt__run")


def sampled_seconds(run: Run) -> float | None:
    """Return the seconds between two samples of the newest segment of the session that began last;
    None without a segment.

    By session and number, of which there is an index: a run may have a hundred thousand segments.
    """
    session = Session.objects.filter(node__attempt__run=run).order_by("started_at").last()
    own = Segment.objects.filter(session=session, seq__lt=FIRST_ADDED)
    newest = own.order_by("seq").last() if session else None
    return newest.resolution_ms / 1000 if newest else None
