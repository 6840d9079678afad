"""Parameter values that workspaces and jobs set."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from webapp.accounts.models import Workspace
from webapp.runs.models import Job


class ParameterValue(models.Model):
    """One parameter of one rule, for a workspace or one of its jobs."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="parameter_values")
    job = models.ForeignKey(
        Job, models.CASCADE, null=True, blank=True, related_name="parameter_values"
    )
    """The job; None for all jobs of the workspace that don't override it."""
    rule = models.CharField(max_length=64)
    name = models.CharField(max_length=64)
    value = models.FloatField()
    """The value in the parameter's unit; for a choice, its position."""

    class Meta:
        db_table = "rulebook_parametervalue"  # The table keeps its old name.
        # Two, since NULLs are distinct in an SQLite index.
        constraints = [
            models.UniqueConstraint(
                fields=["job", "rule", "name"],
                condition=Q(job__isnull=False),
                name="one_value_a_job_and_parameter",
            ),
            models.UniqueConstraint(
                fields=["workspace", "rule", "name"],
                condition=Q(job=None),
                name="one_value_a_workspace_and_parameter",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.rule}.{self.name}={self.value:g}"
