"""Takes what agents declare about a run and its node, and further parameters and tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import transaction
from trimtab.wire import Declaration

from webapp.accounts.models import Token, Workspace
from webapp.analysis import queue
from webapp.http.problems import Problem
from webapp.ingest import own_runs, uploaders
from webapp.quotas import admission
from webapp.quotas.amounts import UploadAmounts
from webapp.runs import models as rows
from webapp.runs import registration

MOST_LABELS = 500
"""The most labels of each kind on one run, however many declarations brought them."""


def store_declaration(
    workspace: Workspace, declared: Declaration, body_bytes: int = 0, token: Token | None = None
) -> None:
    """Make or update the run and its node as declared.

    Raises:
        Problem: 404 if the run belongs to another workspace; 400 if it would have too many tags,
            parameters or parts of its workload; 429 beyond a quota.
    """
    is_new = own_runs.is_new_run(workspace, declared.run_id)
    taken = UploadAmounts(declared.run_id, is_new, body_bytes)
    with admission.count_while_written(workspace, token, taken), transaction.atomic():
        run = own_runs.lock_own_run(workspace, declared.run_id, declared.job, is_new)
        _bound_labels(run, declared)
        registration.apply_declaration(run, declared)
        if token:
            uploaders.remember_uploader(token, run.pk)
        queue.queue_run(run)
    queue.enqueue_on_commit(run)


def add_labels(
    workspace: Workspace, run_id: UUID, parameters: Mapping[str, Any], tags: Mapping[str, str]
) -> None:
    """Add parameters and tags to a run that exists. Beyond `MOST_LABELS` new ones are left out.

    Raises:
        Problem: 404 if the run belongs to another workspace.
    """
    with transaction.atomic():
        run = own_runs.lock_own_run(workspace, run_id, "")
        registration.add_labels(run, _fitting(run.parameters, parameters), _fitting(run.tags, tags))
        run.save(update_fields=["parameters", "tags"])
        queue.queue_run(run)
    queue.enqueue_on_commit(run)


def _fitting(known: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    room = max(0, MOST_LABELS - len(known))
    unknown = set([key for key in new if key not in known][:room])
    return {key: value for key, value in new.items() if key in known or key in unknown}


def _bound_labels(run: rows.Run, declared: Declaration) -> None:
    for field in ("tags", "parameters", "workload"):
        if len({*getattr(run, field), *getattr(declared, field)}) > MOST_LABELS:
            detail = f"Over {MOST_LABELS} {field}, those that the run already has included."
            fix = "Send fewer, and don't change their names."
            raise Problem(400, detail, field, fix, kind="too-many-labels")
