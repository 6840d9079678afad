"""The month that a request of the API names."""

from __future__ import annotations

from django.utils import timezone

from webapp.accounts.models import Workspace
from webapp.http.problems import Problem
from webapp.spend import months


def month_of(text: str, workspace: Workspace) -> months.Month:
    """Return the month; the current one if the text is empty. Raises Problem 422."""
    try:
        return months.parse_month(text, workspace, timezone.now())
    except ValueError as error:
        fix = "Write the month as YYYY-MM, for example 2026-11."
        raise Problem(422, str(error), "month", fix) from None
