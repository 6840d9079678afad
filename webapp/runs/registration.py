"""Creates the rows that an upload refers to. Uploads may arrive in any order and repeatedly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q
from trimtab.wire import Declaration, Segment

from webapp.accounts.models import Workspace
from webapp.database.listed import listed
from webapp.runs import locks, trainings
from webapp.runs.models import Attempt, Job, MovedRun, Node, Run, Session

_DECLARED = (
    *("job", "number", "owner", "tags", "parameters", "workload", "command", "git"),
    *("agent_version", "requeue", "training", "continues", "continues_by", "probe"),
)
"""The columns of a run that `declare` sets."""
_NUMBERED = "UPDATE runs_job SET runs_made = new.runs_made FROM new WHERE runs_job.id = new.id"
_MOST_SESSIONS = 500
"""The most sessions of a node that are remembered by name."""


def moment(unix_ns: int) -> datetime:
    """Return nanoseconds since 1970 as a time in UTC. Exact to the microsecond, unlike a float."""
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=unix_ns // 1000)


def run(workspace: Workspace, run_id: UUID, job_name: str, is_new: bool = False) -> Run:
    """Return the run, locked. A new run is created with its job's next number.

    The run may belong to another workspace: the caller must check.

    Args:
        is_new: it was asked for just now and wasn't there.
    """
    own = Run.objects.select_for_update(of=("self",), no_key=True).filter(pk=run_id)
    if not is_new and (known := own.first()):
        return known
    return _made(workspace, run_id, job_name) or own.get()


def _made(workspace: Workspace, run_id: UUID, job_name: str) -> Run | None:
    """Return a new run with its job's next number; None if another upload created it meanwhile."""
    called, job = _named(workspace, job_name)
    try:
        # One transaction: who comes second uses up no number.
        with transaction.atomic():
            run = Run(pk=run_id, workspace=workspace, job=job, number=next_number(job))
            run.save(force_insert=True)
    except IntegrityError:
        return None
    _arrived(run, called)
    return run


def new_runs(named: Sequence[tuple[UUID, Workspace, str]]) -> list[Run]:
    """Return the runs with their jobs' next numbers, of ids, workspaces and jobs' names. They
    aren't saved.

    Those whose job is merged into another one or deleted are left out.
    """
    jobs = _jobs({(workspace.pk, name) for _, workspace, name in named})
    runs = []
    for run_id, workspace, name in named:
        job = jobs[workspace.pk, name]
        if job.merged_into_id is None and job.deleted_at is None:
            job.runs_made += 1
            runs.append(Run(pk=run_id, workspace=workspace, job=job, number=job.runs_made))
    if runs:
        listed(("id", "runs_made"), {run.job_id: run.number for run in runs}.items(), _NUMBERED)
    return runs


def new_session(node: Node, segment: Segment, clock_offset_ms: int) -> Session:
    """Return a new, unsaved session."""
    clock = segment.clock
    return Session(
        pk=clock.session_id,
        node=node,
        boot_id=clock.boot_id,
        started_at=moment(clock.started_at_ns),
        clock_offset_ms=clock_offset_ms,
    )


def node(run: Run, attempt_number: int, machine_id: str) -> Node:
    """Return the node, created if it is new. The run must be locked, because its nodes are
    numbered.
    """
    found = _node(run, attempt_number, machine_id)
    if found._state.adding:
        found.save()
    return found


def _node(run: Run, attempt_number: int, machine_id: str) -> Node:
    """Return the node; a new one isn't saved. Nobody else makes one: the run is locked."""
    nodes = Node.objects.filter(attempt__run=run).select_related("attempt")
    if known := nodes.filter(attempt__number=attempt_number, machine_id=machine_id).first():
        return known
    attempts = Attempt.objects.filter(run=run, number=attempt_number)
    attempt = attempts.first() or Attempt.objects.create(run=run, number=attempt_number)
    return Node(attempt=attempt, machine_id=machine_id, number=nodes.count() + 1)


def declare(run: Run, declared: Declaration) -> None:
    """Write a declaration, but not its empty fields, nor over values that a person set."""
    _declare_node(_node(run, declared.attempt, declared.node.machine_id), declared)
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
    run.save(update_fields=_DECLARED)


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
    """Return the job of this name or key, created if it is new, and, locked, the job for its runs:
    itself or the one it was merged into. A deleted job is restored without its runs.
    """
    called = _jobs({(workspace.pk, name)})[workspace.pk, name]
    job = called if called.merged_into_id is None else locked(called)
    if job.deleted_at is not None:
        job.deleted_at = None
        job.save(update_fields=["deleted_at"])
    return called, job


def job(workspace: Workspace, name: str) -> Job:
    """Return the job of this name or key, created if it is new. A deleted one is restored."""
    return _named(workspace, name)[0]


def _jobs(named: Collection[tuple[int, str]]) -> dict[tuple[int, str], Job]:
    """Return the jobs of these names or keys, each with the key of its workspace: locked in one
    order, created if they are new.
    """
    known = _by_name(named)
    new = sorted(set(named) - set(known))
    if not new:
        return known
    # Meanwhile another run may create one, or a person give a job such a name.
    made = [Job(workspace_id=workspace, key=name, name=name) for workspace, name in new]
    Job.objects.bulk_create(made, ignore_conflicts=True)
    return known | _by_name(new)


def _by_name(named: Collection[tuple[int, str]]) -> dict[tuple[int, str], Job]:
    names: dict[int, set[str]] = defaultdict(set)
    for workspace, name in named:
        names[workspace].add(name)
    of_workspaces = (
        Q(workspace=workspace) & (Q(name__in=own) | Q(key__in=own))
        for workspace, own in sorted(names.items())
    )
    rows = Job.objects.select_for_update(of=("self",), no_key=True).order_by("pk")
    found = rows.filter(reduce(or_, of_workspaces))
    return {(job.workspace_id, name): job for job in found for name in (job.name, job.key)}


def locked(job: Job) -> Job:
    """Return the job, or the one it was merged into, locked until the transaction ends."""
    held = locks.job(job.pk)
    return held if held.merged_into is None else locked(held.merged_into)


def _arrived(run: Run, called: Job) -> None:
    """Record that a run arrived under a merged job's key, so that undoing the merge moves it."""
    while called.pk != run.job_id:
        MovedRun.objects.create(run=run, came_from=called)
        called = Job.objects.get(merged_jobs=called)


def next_number(job: Job) -> int:
    """Return a new run number for the job that was never used before. The job must be locked."""
    job.runs_made += 1
    job.save(update_fields=["runs_made"])
    return job.runs_made
