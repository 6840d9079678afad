"""The write API: what people change on the pages, for scripts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import transaction
from django.shortcuts import get_object_or_404
from ninja import Router, Status

from advisor.comparison.job_metrics import from_document, to_document
from webapp.accounts.access import TokenRequest
from webapp.accounts.bearer import Bearer
from webapp.accounts.models import Token
from webapp.api.changes import JobIn, RunIn
from webapp.api.read import job_document, run_document
from webapp.api.schemas import JobOut, RunOut
from webapp.http.problems import Problem
from webapp.runs import locks, resource, scope, tags
from webapp.runs.editing import deletion, jobs, machines, merging, runs
from webapp.runs.models import Job, Run

_writers = Bearer(Token.WRITE)
router = Router(tags=["write"], auth=_writers)


@resource.router.patch(
    resource.ADDRESS,
    response=RunOut,
    tags=["write"],
    auth=_writers,
    summary="Change a run",
)
def patch_run(request: TokenRequest, run_id: UUID, change: RunIn) -> dict[str, Any]:
    """Changes a run, only in the fields that are sent. Answers the changed run."""
    said = change.sent_fields()
    with transaction.atomic():
        run = locks.run(scope.run_or_404(request.auth.workspace, run_id).pk)
        if "billed_usd" in said:
            runs.bill(run, request.auth, said.pop("billed_usd"))
        if (machine := said.pop("machine", None)) is not None:
            _correct(request.auth, run, machine.sent_fields())
        runs.edit(run, request.auth, _whole(said, run.tags) | _one_baseline(said))
    return run_document(scope.run_or_404(request.auth.workspace, run_id))


def _correct(by: Token, run: Run, said: dict[str, Any]) -> None:
    number = said.pop("node", None)
    if number is not None and number not in [node.number for node in machines.nodes_of(run)]:
        raise Problem(
            422,
            f"The run has no node {number}.",
            "machine.node",
            "Leave the field out for all nodes.",
        )
    is_confirmed = said.pop("is_confirmed", False)
    try:
        machines.correct_machines(run, by, said, number, is_confirmed=is_confirmed)
    except machines.UnpricedMachineError as doubt:
        similar = f"Did you mean {' or '.join(doubt.suggestions)}? " if doubt.suggestions else ""
        fix = f"{similar}To save it without a price, send is_confirmed: true."
        raise Problem(422, str(doubt), "machine.instance_type", fix) from None


@resource.router.delete(
    resource.ADDRESS,
    response={204: None},
    tags=["write"],
    auth=_writers,
    summary="Delete a run",
)
def delete_run(request: TokenRequest, run_id: UUID) -> Status[None]:
    """Deletes a run. It can be restored for 30 days."""
    run = get_object_or_404(scope.every_run_of(request.auth.workspace), pk=run_id)
    deletion.delete_run(run, request.auth)
    return Status(204, None)


@router.post("/runs/{run_id}/restore", response=RunOut, summary="Undo the deletion of a run")
def restore_run(request: TokenRequest, run_id: UUID) -> dict[str, Any]:
    """Restores a run and its job, without the job's other runs."""
    run = get_object_or_404(scope.every_run_of(request.auth.workspace), pk=run_id)
    deletion.restore_run(run, request.auth)
    return run_document(scope.run_or_404(request.auth.workspace, run_id))


@router.patch("/jobs/{job_id}", response=JobOut, summary="Change a job")
def patch_job(request: TokenRequest, job_id: UUID, change: JobIn) -> dict[str, Any]:
    """Changes a job, only in the fields that are sent. Answers 409 if another job has the name,
    else the job that then holds the runs.
    """
    said = change.sent_fields()
    with transaction.atomic():
        job = _present_job(request, job_id, said)
        into = said.pop("merged_into", None)
        try:
            job = jobs.edit(job, request.auth, _all_metrics(_whole(said, job.tags), job.metrics))
        except jobs.NameTakenError as error:
            raise Problem(409, str(error), "name", "Choose another name.") from None
        return job_document(job if into is None else _merged(request, job, into))


def _present_job(request: TokenRequest, job_id: UUID, said: Mapping[str, Any]) -> Job:
    """Return the job, locked. A merged job is missing, unless the merge is to be undone."""
    workspace = request.auth.workspace
    if said.get("merged_into", job_id) is None:
        merged = scope.merged_jobs_of(workspace).filter(uuid=job_id).first()
        if merged is not None:
            merging.unmerge(merged, request.auth)
    return locks.job(get_object_or_404(scope.jobs_of(workspace), uuid=job_id).pk)


def _merged(request: TokenRequest, job: Job, into: UUID) -> Job:
    target = scope.jobs_of(request.auth.workspace).filter(uuid=into).first()
    if target is None:
        raise Problem(422, f"There is no job {into}.", "merged_into", "Send another job's id.")
    try:
        return merging.merge(job, target, request.auth)
    except merging.MergeError as error:
        raise Problem(409, str(error), "merged_into", "Send another job's id.") from None


@router.delete("/jobs/{job_id}", response={204: None}, summary="Delete a job with its runs")
def delete_job(request: TokenRequest, job_id: UUID) -> Status[None]:
    """Deletes a job with its runs. It can be restored for 30 days."""
    job = get_object_or_404(scope.every_job_of(request.auth.workspace), uuid=job_id)
    deletion.delete_job(job, request.auth)
    return Status(204, None)


@router.post("/jobs/{job_id}/restore", response=JobOut, summary="Undo the deletion of a job")
def restore_job(request: TokenRequest, job_id: UUID) -> dict[str, Any]:
    """Restores a job with the runs that were deleted with it."""
    unmerged = scope.every_job_of(request.auth.workspace).filter(merged_into=None)
    job = get_object_or_404(unmerged, uuid=job_id)
    if job.deleted_at is not None:
        deletion.restore_job(job, request.auth, job.deleted_at)
    return job_document(job)


def _whole(said: dict[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the change with all tags, in place of those that change."""
    if "tags" not in said:
        return said
    merged = {**known, **said["tags"]}
    wanted = {key: value for key, value in merged.items() if value is not None}
    if len(wanted) > tags.MOST_TAGS:
        detail = f"Too many tags: {len(wanted)}, and at most {tags.MOST_TAGS} are allowed."
        raise Problem(422, detail, "tags", "Remove tags by sending null.")
    return said | {"tags": wanted}


def _all_metrics(said: dict[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the change with the settings of all metrics, in place of those that change."""
    if "metrics" not in said:
        return said
    sent = {name: None if m is None else m.model_dump() for name, m in said["metrics"].items()}
    wanted = {name: setting for name, setting in {**known, **sent}.items() if setting is not None}
    try:
        return said | {"metrics": to_document(from_document(wanted))}
    except ValueError as error:
        words = "A metric has neither direction nor tolerated loss, or there are too many."
        raise Problem(422, words, "metrics", "Send null to remove a metric.") from error


def _one_baseline(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes of the baseline: an excluded run is no longer pinned, and the other way
    round.
    """
    if said.get("is_excluded"):
        return {"is_pinned": False}
    return {"is_excluded": False} if said.get("is_pinned") else {}
