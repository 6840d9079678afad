"""Makes the rows that an upload speaks of. In any order, any number of times."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import F, Q
from trimtab.wire import Declaration

from webapp.accounts.models import Workspace
from webapp.runs import locks
from webapp.runs.models import Attempt, Job, MovedRun, Node, Run


def moment(unix_ns: int) -> datetime:
    """Nanoseconds since 1970 as a time in UTC, exact to the microsecond, which a float isn't."""
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=unix_ns // 1000)


def run(workspace: Workspace, run_id: UUID, job_name: str) -> Run:
    """The run, locked; made with the next number of its job if it is new.

    The run may be another workspace's: the caller must look.
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
    """The node, made if it is new; the run must be locked, since its nodes are numbered."""
    attempt, _ = Attempt.objects.get_or_create(run=run, number=attempt_number)
    number = Node.objects.filter(attempt__run=run).count() + 1
    return Node.objects.get_or_create(
        attempt=attempt, machine_id=machine_id, defaults={"number": number}
    )[0]


def declare(run: Run, declared: Declaration) -> None:
    """Write what was declared; empty fields leave what is known; what a person has set stays."""
    _declare_node(node(run, declared.attempt, declared.node.machine_id), declared)
    _place(run, declared.job)
    if not run.owner_is_edited:
        run.owner = declared.owner or run.owner
    free = {key: value for key, value in declared.tags.items() if key not in run.edited_tags}
    run.tags = {**run.tags, **free}
    run.parameters = {**run.parameters, **declared.parameters}
    run.workload = {**run.workload, **declared.workload}
    run.command = declared.command or run.command
    run.agent_version = declared.agent_version or run.agent_version
    if declared.git_commit:
        run.git = {
            "commit": declared.git_commit,
            "branch": declared.git_branch,
            "dirty": declared.git_dirty,
        }
    run.save()


def _declare_node(node: Node, declared: Declaration) -> None:
    node.allows_stop = declared.allow_stop
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
    """A declaration knows the job better than a segment that came first. A deleted run stays where
    it is: nothing that is late brings a job back."""
    if run.deleted_at is not None or job_name in (run.job.name, run.job.key):
        return
    called, job = _named(run.workspace, job_name)
    if job.pk != run.job_id:
        run.job, run.number = job, next_number(job)
        MovedRun.objects.filter(run=run).delete()
        _arrived(run, called)


def _named(workspace: Workspace, name: str) -> tuple[Job, Job]:
    """The job of this name or key, made if there is none, and, locked, the one that it was merged
    into, if it was: where runs of that name go. A deleted one is back, without its runs."""
    called = _called(workspace, name)
    job = locked(called)
    if job.deleted_at is not None:
        job.deleted_at = None
        job.save(update_fields=["deleted_at"])
    return called, job


def _called(workspace: Workspace, name: str) -> Job:
    named = Job.objects.filter(Q(name=name) | Q(key=name), workspace=workspace)
    if job := named.first():
        return job
    try:
        with transaction.atomic():
            return Job.objects.create(workspace=workspace, key=name, name=name)
    except IntegrityError:
        # Meanwhile another run made it, or a person gave a job this name.
        return named.get()


def locked(job: Job) -> Job:
    """The job, or what it was merged into, locked until the transaction ends."""
    held = locks.job(job.pk)
    return held if held.merged_into is None else locked(held.merged_into)


def _arrived(run: Run, called: Job) -> None:
    """A run under the key of a merged job goes with it, should the merge be undone."""
    while called.pk != run.job_id:
        MovedRun.objects.create(run=run, came_from=called)
        called = Job.objects.get(merged_jobs=called)


def next_number(job: Job) -> int:
    """A number for a run of the job that no run of it ever had."""
    Job.objects.filter(pk=job.pk).update(runs_made=F("runs_made") + 1)
    job.refresh_from_db(fields=["runs_made"])
    return job.runs_made
