"""Sends directives to agents in the answers to their uploads, and records the outcomes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

from trimtab.wire import Event, Segment

from webapp.database.listed import execute_with_rows
from webapp.directives.models import Answer, Directive
from webapp.runs.models import Session

EVENT = "directive"
"""The kind of an event that answers a directive."""
_ASKED = """
SELECT DISTINCT runs_session.id FROM new
JOIN runs_session ON runs_session.id = new.id
JOIN runs_node ON runs_node.id = runs_session.node_id
JOIN directives_directive ON directives_directive.attempt_id = runs_node.attempt_id
"""


def sessions_with_directives(session_ids: Collection[UUID]) -> set[UUID]:
    """Return the sessions whose attempts have directives at all: the others need no look-up."""
    rows = execute_with_rows(("id",), [[each] for each in session_ids], _ASKED)
    return {UUID(str(each)) for (each,) in rows}


def pending_directives(session_id: UUID) -> list[dict[str, Any]]:
    """Return the directives that this agent has not answered yet, oldest first; none once it has
    ended.
    """
    if not sessions_with_directives({session_id}):
        return []
    meant = Directive.objects.filter(
        attempt__nodes__sessions__id=session_id, attempt__nodes__sessions__ended_ms=None
    )
    return [one.on_the_wire() for one in meant.exclude(answers__session=session_id)]


def record_outcomes(session: Session, segment: Segment) -> None:
    """Save the answers in a new segment. Call in the transaction that writes its row."""
    for event in segment.events:
        if event.kind == EVENT:
            _save(session, event)


def _save(session: Session, event: Event) -> None:
    """Save an answer. Answers to a directive that this agent was never given are ignored."""
    try:
        name = UUID(str(event.data.get("id")))
    except ValueError:
        return
    directive = Directive.objects.filter(uuid=name, attempt=session.node.attempt_id).first()
    if directive is not None:
        words = {
            "outcome": str(event.data.get("outcome", ""))[:16],
            "reason": str(event.data.get("reason", ""))[:500],
        }
        Answer.objects.get_or_create(directive=directive, session=session, defaults=words)
