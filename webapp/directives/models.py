"""Directives to the agents of a running run, and the agents' answers."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.db import models
from django.db.models import Q
from django.utils import timezone

from webapp.runs.models import Attempt, Session


class Directive(models.Model):
    """A request to every agent of one attempt. It doesn't apply to the next attempt."""

    STOP, PROFILE, INTERVAL = "stop", "profile", "interval"
    KINDS: ClassVar = [(STOP, "Stop"), (PROFILE, "Profile"), (INTERVAL, "Interval")]
    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    """The directive's name on the wire."""
    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="directives")
    kind = models.CharField(max_length=16, choices=KINDS)
    rule = models.CharField(max_length=64, blank=True)
    """The rule that asks; empty if a person asks."""
    payload = models.JSONField(default=dict)
    """The other fields on the wire."""
    asked_by = models.CharField(max_length=300)
    """The person's name as text, kept when the account is deleted."""
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["attempt", "kind", "rule"],
                condition=~Q(rule=""),
                name="one_directive_a_rule",
            )
        ]
        ordering = ["created_at", "pk"]

    def __str__(self) -> str:
        return f"{self.kind} {self.attempt}"

    def on_the_wire(self) -> dict[str, Any]:
        """Return the directive as docs/wire.md describes it."""
        said = {"id": str(self.uuid), "kind": self.kind, **self.payload}
        return said | {"rule": self.rule} if self.rule else said


class Answer(models.Model):
    """An agent's answer to a directive. The directive is not sent to it again."""

    directive = models.ForeignKey(Directive, models.CASCADE, related_name="answers")
    session = models.ForeignKey(Session, models.CASCADE, related_name="answers")
    outcome = models.CharField(max_length=16)
    """`done`, `passed_on` or `refused`."""
    reason = models.CharField(max_length=500, blank=True)
    answered_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["directive", "session"], name="one_answer_a_session")
        ]
        ordering = ["answered_at", "pk"]

    def __str__(self) -> str:
        return f"{self.directive}: {self.outcome}"
