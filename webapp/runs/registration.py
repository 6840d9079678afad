"""Creates the rows that an upload refers to. Uploads may arrive in any order and repeatedly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import F, Q
from trimtab.wire import Declaration

from webapp.accounts.models import Workspace
from webapp.runs import locks, trainings
from webapp.runs.models import Attempt, Job, MovedRun, Node, Run

_MOST_SESSIONS = 500
"""Of a node, that are remembered by name."""


def moment(unix_ns: int) -> datetime:
    """Nanoseconds since 1970 as a time in UTC. Exact to the microsecond, unlike a float."""
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=unix_ns // 1000)


def run(workspace: Workspace, run_id: UUID, job_name: str) -> Run:
    """The run, locked. A new run is created with its job's next number.

    The run may belong to another workspace: the caller must check.
    """
    known = Run.objects.select_for_update(of=("self",), no_key=True).filter(pk=run_id).first()
    if known is not None:
        return known
    called, job = _named(workspace, job_name)
    made, is_new = Run.objects.get_or_create(
        pk=run_id, defaults={"workspace": workspace, "job": job, "number": next_number(job)}
    )
    if is_new:
        _arrived(made, called)
    return made


def node(run: Run, attempt_number: int, machine_id: str) -> Node:
    """The node, created if it is new. The run must be locked, because its nodes are numbered."""
    attempt, _ = Attempt.objects.get_or_create(run=run, number=attempt_number)
    number = Node.objects.filter(attempt__run=run).count() + 1
    return Node.objects.get_or_create(
        attempt=attempt, machine_id=machine_id, defaults={"number": number}
    )[0]


def declare(run: Run, declared: Declaration) -> None:
    """Write a declaration, but not its empty fields, nor over values that a person set."""
    _declare_node(node(run, declared.attempt, declared.node.machine_id), declared)
    _place(run, declared.job)
    if not run.owner_is_edited:
        run.owner = declared.owner or run.owner
    label(run, declared.parameters, declared.tags)
    run.workload = {**run.workload, **declared.workload}
    run.command = declared.command or run.command
    run.agent_version = declared.agent_version or run.agent_version
    run.requeue = declared.requeue or run.requeue
    if declared.training and not run.training_is_edited:
        run.training = trainings.called(run.workspace, declared.training)
        run.continues, run.continues_by = None, ""
    run.probe = asdict(declared.probe) if declared.probe else run.probe
    if declared.git_commit:
        run.git = {
            "commit": declared.git_commit,
            "branch": declared.git_branch,
            "dirty": declared.git_dirty,
        }
    run.save()


def label(run: Run, parameters: Mapping[str, Any], tags: Mapping[str, str]) -> None:
    """Add parameters and tags, but not over tags that a person set. Doesn't save."""
    free = {key: value for key, value in tags.items() if key not in run.edited_tags}
    run.tags = {**run.tags, **free}
    run.parameters = {**run.parameters, **parameters}


def _declare_node(node: Node, declared: Declaration) -> None:
    node.allows_stop = declared.allow_stop
    if declared.expired_uploads and len(node.expired_uploads) < _MOST_SESSIONS:
        node.expired_uploads[str(declared.session_id)] = declared.expired_uploads
    known = {name: value for name, value in asdict(declared.node).items() if value}
    if started_ns := known.pop("instance_started_at_ns", 0):
        node.instance_started_at = moment(started_ns)
    for name, value in known.items():
        if name in node.declared:
            node.declared[name] = value
        else:
            setattr(node, name, value)
    node.save()


def _place(run: Run, job_name: str) -> None:
    """Move the run to the declared job, which may differ from that of a segment that came first. A
    deleted run isn't moved, so a late declaration restores no job."""
    if run.deleted_at is not None or job_name in (run.job.name, run.job.key):
        return
    called, job = _named(run.workspace, job_name)
    if job.pk != run.job_id:
        run.job, run.number = job, next_number(job)
        MovedRun.objects.filter(run=run).delete()
        _arrived(run, called)


def _named(workspace: Workspace, name: str) -> tuple[Job, Job]:
    """The job of this name or key, created if it is new, and, locked, the job for its runs: itself
    or the one it was merged into. A deleted job is restored without its runs."""
    called = _called(workspace, name)
    job = locked(called)
    if job.deleted_at is not None:
        job.deleted_at = None
        job.save(update_fields=["deleted_at"])
    return called, job


def job(workspace: Workspace, name: str) -> Job:
    """The job of this name or key, created if it is new. A deleted one is restored."""
    return _named(workspace, name)[0]


def _called(workspace: Workspace, name: str) -> Job:
    named = Job.objects.filter(Q(name=name) | Q(key=name), workspace=workspace)
    if job := named.first():
        return job
    try:
        with transaction.atomic():
            return Job.objects.create(workspace=workspace, key=name, name=name)
    except IntegrityError:
        # Meanwhile another run created it, or a person gave a job this name.
        return named.get()


def locked(job: Job) -> Job:
    """The job, or the one it was merged into, locked until the transaction ends."""
    held = locks.job(job.pk)
    return held if held.merged_into is None else locked(held.merged_into)


def _arrived(run: Run, called: Job) -> None:
    """Record that a run arrived under a merged job's key, so that undoing the merge moves it."""
    while called.pk != run.job_id:
        MovedRun.objects.create(run=run, came_from=called)
        called = Job.objects.get(merged_jobs=called)


def next_number(job: Job) -> int:
    """A new run number for the job that was never used before."""
    Job.objects.filter(pk=job.pk).update(runs_made=F("runs_made") + 1)
    job.refresh_from_db(fields=["runs_made"])
    return job.runs_made
