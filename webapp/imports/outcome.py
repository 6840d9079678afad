"""Records why an import failed: on its row, and as the state of its run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webapp.background import claims
from webapp.imports import run_states
from webapp.imports.models import Import
from webapp.runs.models import Run


def mark_import_failed(
    held: claims.WorkClaim[Import], why: str, left_out: Mapping[str, Any] | None = None
) -> None:
    """Record that the upload can't be converted, and what was left out."""
    result = {**held.row.result, **(left_out or {})}
    if claims.renew(held, stage="", result=result):
        claims.mark_failed(held, why)
    _settle(held)


def retry_or_fail_import(held: claims.WorkClaim[Import], error: BaseException | str) -> None:
    """Record the error; the import is tried again, unless this was the last attempt."""
    claims.fail(held, error)
    _settle(held)


def _settle(held: claims.WorkClaim[Import]) -> None:
    run_states.settle(Run.objects.filter(pk=held.row.artefact.run_id))
