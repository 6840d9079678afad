"""Imports that wait: for parts of the upload, or until the workspace may import again."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from webapp.background import claims
from webapp.imports import allowance, outcome
from webapp.imports.models import Import

LOOKED_AGAIN_AFTER = timedelta(hours=1)
"""The time after which a waiting import is looked at again. A part that arrives makes it due at
once."""
LONGEST = timedelta(days=7)


class PartsMissingError(RuntimeError):
    """Some parts haven't arrived."""

    def __init__(self, missing: int, of: int) -> None:
        super().__init__(f"{missing} of {of} parts haven't arrived. Run `trimtab sync`.")


def wait_for_parts(held: claims.WorkClaim[Import], error: PartsMissingError) -> None:
    """Wait for the parts; give up after a week."""
    if timezone.now() - held.row.artefact.created_at > LONGEST:
        outcome.mark_import_failed(held, str(error))
    else:
        claims.release(held, timezone.now() + LOOKED_AGAIN_AFTER, stage=str(error)[:120])


def wait_for_quota(held: claims.WorkClaim[Import]) -> bool:
    """Release an import that may not begin, since a quota of its workspace is used up. Return
    whether it was.

    It is looked at again within the hour, in case the operator raised the limit.
    """
    pause = allowance.pause(held.row.artefact.run.workspace)
    if pause is None:
        return False
    claims.release(held, min(pause.until, timezone.now() + LOOKED_AGAIN_AFTER), stage="")
    return True
