"""Accepts a regression: its level becomes the reference of later runs. This can be undone."""

from __future__ import annotations

from django.db import transaction

from webapp.accounts import audit
from webapp.analysis.models import AcceptedLevel, Regression
from webapp.analysis.successive import verdicts
from webapp.runs import locks
from webapp.runs.editing.changes import Actor
from webapp.runs.models import Run


@transaction.atomic
def accept(regression: Regression, by: Actor, note: str) -> AcceptedLevel:
    """Accept an open regression as of its last run. Later runs are judged by its level."""
    run = locks.run(regression.last_id)
    row, _ = AcceptedLevel.objects.update_or_create(
        run=run, defaults={"note": note, "accepted_by": audit.name_of(by)}
    )
    audit.record(run.workspace, by, "regression.accepted", str(run), {"note": ("", note)})
    verdicts.rejudge_job(run.job)
    return row


@transaction.atomic
def reopen_regression(accepted: AcceptedLevel, by: Actor) -> None:
    """Open the regression again, if it still holds."""
    run: Run = locks.run(accepted.run_id)
    accepted.delete()
    audit.record(run.workspace, by, "regression.opened_again", str(run), {})
    verdicts.rejudge_job(run.job)
