"""The lists that people keep."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils import timezone

from webapp.accounts.models import User, Workspace

MOST_NAME_CHARS, MOST_QUERY_CHARS = 80, 4000


class SavedView(models.Model):
    """A name for one address of the list of runs: of a person, or of everybody in the workspace."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="saved_views")
    user = models.ForeignKey(User, models.CASCADE, null=True, blank=True, related_name="+")
    """The only person who sees it; null for a view of the workspace."""
    name = models.CharField(max_length=MOST_NAME_CHARS)
    query = models.CharField(max_length=MOST_QUERY_CHARS, blank=True)
    """The address after the question mark."""
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "user", "name"], name="one_view_a_name_of_a_person"
            ),
            models.UniqueConstraint(
                fields=["workspace", "name"],
                name="one_view_a_name_of_a_workspace",
                condition=Q(user=None),
            ),
        ]
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
