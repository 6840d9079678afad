"""Model fields of runs."""

from __future__ import annotations

from typing import Any

from django.db import models

from advisor.run_summary import RunSummary, from_document, to_document


class RunSummaryField(models.JSONField):
    """A `RunSummary` in a JSON column."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> RunSummary:
        return from_document(super().from_db_value(value, expression, connection) or {})

    def get_prep_value(self, value: Any) -> Any:
        return to_document(value) if isinstance(value, RunSummary) else value
