"""The values by which runs are found: each parameter, metric, tag and figure of a run as a row."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from webapp.accounts.models import Workspace
from webapp.runs.models.jobs import Run

MOST_KEY_CHARS, MOST_TEXT_CHARS = 250, 200
"""The longest key and the longest text that are found. A longer text is known by its beginning."""


class RunField(models.Model):
    """A parameter, metric, tag or figure that at least one run of the workspace had."""

    PARAMETER, METRIC, TAG, FIGURE = "param", "metric", "tag", "figure"
    KINDS: ClassVar = [
        (PARAMETER, "Parameter"),
        (METRIC, "Metric"),
        (TAG, "Tag"),
        (FIGURE, "Figure"),
    ]
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="run_fields")
    kind = models.CharField(max_length=16, choices=KINDS)
    key = models.CharField(max_length=MOST_KEY_CHARS)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "kind", "key"], name="one_field_a_key")
        ]

    def __str__(self) -> str:
        return f"{self.kind}.{self.key}"


class RunValue(models.Model):
    """The value of one field of one run. The run's own columns hold the same in full."""

    # Neither column has an index of its own: those below begin with them.
    field = models.ForeignKey(RunField, models.CASCADE, related_name="+", db_index=False)
    run = models.ForeignKey(Run, models.CASCADE, related_name="values", db_index=False)
    number = models.FloatField(null=True)
    """The value as a number; null if it is none."""
    text = models.CharField(max_length=MOST_TEXT_CHARS)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "field"], name="one_value_a_field_of_a_run")
        ]
        indexes = [
            models.Index(fields=["field", "number", "text", "run"], name="values_of_a_field"),
        ]

    def __str__(self) -> str:
        return self.text
