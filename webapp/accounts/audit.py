"""The audit log: changes to money, access and rules. Entries are only added, in the transaction of
the change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webapp.accounts.models import AuditEntry, Token, User, Workspace

Change = Mapping[str, tuple[Any, Any]]
"""Field -> (before, after); plain JSON values."""


def record(
    workspace: Workspace,
    actor: User | Token | None,
    action: str,
    subject: str,
    change: Change | None = None,
) -> AuditEntry:
    """Add an entry to the log.

    Args:
        actor: a person, a token, or None for the service itself.
        action: `thing.verb`, as in `token.created`.
        subject: what was changed, as text, which stays readable after it is deleted.
    """
    return AuditEntry.objects.create(
        workspace=workspace,
        actor=actor if isinstance(actor, User) else None,
        actor_name=name_of(actor),
        action=action,
        subject=subject[:300],
        change={field: list(pair) for field, pair in (change or {}).items()},
    )


def name_of(actor: User | Token | None) -> str:
    """Return the actor's name for rows that are kept after the person or token is deleted."""
    if actor is None:
        return "Trimtab"
    return actor.email if isinstance(actor, User) else f"token {actor}"
