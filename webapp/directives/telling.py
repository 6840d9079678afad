"""Says directives to agents with the answers to their uploads, and hears what they made of them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from trimtab.wire import Event, Segment

from webapp.directives.models import Answer, Directive
from webapp.runs.models import Session


def for_session(session_id: UUID) -> list[dict[str, Any]]:
    """What this agent has not answered yet, oldest first; nothing once it has ended."""
    meant = Directive.objects.filter(
        attempt__nodes__sessions__id=session_id, attempt__nodes__sessions__ended_ms=None
    )
    return [one.on_the_wire() for one in meant.exclude(answers__session=session_id)]


def hear(session: Session, segment: Segment) -> None:
    """Keep the answers that a new segment carries. Call in the transaction that writes its row."""
    for event in segment.events:
        if event.kind == "directive":
            _keep(session, event)


def _keep(session: Session, event: Event) -> None:
    """Words about a directive that this agent was never given are left alone."""
    try:
        name = UUID(str(event.data.get("id")))
    except ValueError:
        return
    said = Directive.objects.filter(uuid=name, attempt=session.node.attempt_id).first()
    if said is not None:
        words = {
            "outcome": str(event.data.get("outcome", ""))[:16],
            "reason": str(event.data.get("reason", ""))[:500],
        }
        Answer.objects.get_or_create(directive=said, session=session, defaults=words)
