"""The daily round of each workspace: background work like any other."""

from __future__ import annotations

import logging
from datetime import timedelta

from django.urls import reverse
from django.utils import timezone

from webapp.accounts.models import Workspace
from webapp.background import claims
from webapp.background.kinds import WorkKind, WorkLimits
from webapp.database.object_hold import BackupRunningError
from webapp.retention import deletion
from webapp.retention.models import RetentionRound

MOST_SECONDS = 3600
"""The time after which the worker ends a round. The next attempt continues it."""
AFTER_BACKUP = timedelta(minutes=10)
"""A round that a backup stopped is tried again after this time."""
KIND = WorkKind(
    id="retention",
    title="Retention",
    model=RetentionRound,
    work="webapp.retention.rounds.run_round",
    key="workspace_id",
    limits=WorkLimits(
        lease=timedelta(seconds=MOST_SECONDS),
        max_attempts=5,
        first_pause=timedelta(minutes=10),
        longest_pause=timedelta(hours=3),
        # A round reads a whole workspace, so only one runs at a time, and uploads are analysed
        # meanwhile.
        at_once=1,
        longest=timedelta(seconds=MOST_SECONDS - 100),
    ),
    workspace="workspace",
    subject=lambda _: "Samples and runs past their retention",
    address=lambda _: reverse("retention:retention"),
    related=("workspace",),
)

logger = logging.getLogger(__name__)


def queue_rounds() -> None:
    """Queue a round for every workspace, including deleted ones."""
    rounds = [RetentionRound(workspace=workspace) for workspace in Workspace.objects.all()]
    RetentionRound.objects.bulk_create(rounds, ignore_conflicts=True, batch_size=500)
    claims.mark_due(RetentionRound.objects.all())


def run_round(workspace_id: int, **which: object) -> bool:
    """Run a workspace's round if it is due. The next round continues an interrupted one."""
    held = claims.claim(KIND, workspace_id, **which)
    if held is None:
        return False
    try:
        gone = deletion.delete_expired_of(held.row.workspace, timezone.now())
        claims.finish_work(held)
    except BackupRunningError:
        claims.release(held, timezone.now() + AFTER_BACKUP)
    except Exception as error:
        logger.exception("retention failed", extra={"workspace": workspace_id})
        claims.fail(held, error)
    else:
        logger.info("retention", extra={"workspace": workspace_id, "deleted": len(gone)})
    return True
