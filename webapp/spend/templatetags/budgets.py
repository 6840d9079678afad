"""A job's budget on the job's own page, which knows nothing of budgets."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils import timezone

from webapp.runs.models import Job
from webapp.spend import scope
from webapp.spend.standing import standings

register = template.Library()


@register.inclusion_tag("spend/job_budget.html")
def job_budget(job: Job) -> dict[str, Any]:
    """Nothing where the job has no budget of its own."""
    own = scope.budgets_of(job.workspace).filter(job=job)
    lines = standings(job.workspace, own, timezone.now())
    return {"line": lines[0] if lines else None}
