"""Makes the rows that an upload speaks of. In any order, any number of times."""

from __future__ import annotations

from dataclasses import asdict
from uuid import UUID

from django.db.models import F
from trimtab.wire import Declaration, NodeFacts

from webapp.accounts.models import Workspace
from webapp.runs.models import Attempt, Job, Node, Run


def run(workspace: Workspace, run_id: UUID, job_name: str) -> Run:
    """The run, locked; made with the next number of its job if it is new.

    The run may be another workspace's: the caller must look.
    """
    found = Run.objects.select_for_update(of=("self",)).filter(pk=run_id).first()
    if found is not None:
        return found
    job = _locked_job(workspace, job_name)
    made, _ = Run.objects.get_or_create(
        pk=run_id, defaults={"workspace": workspace, "job": job, "number": _next_number(job)}
    )
    return made


def node(run: Run, attempt_number: int, machine_id: str) -> Node:
    """The node, made if it is new; the run must be locked, since its nodes are numbered."""
    attempt, _ = Attempt.objects.get_or_create(run=run, number=attempt_number)
    number = Node.objects.filter(attempt__run=run).count() + 1
    return Node.objects.get_or_create(
        attempt=attempt, machine_id=machine_id, defaults={"number": number}
    )[0]


def declare(run: Run, declared: Declaration) -> None:
    """Write what was declared; empty fields leave what is known."""
    _declare_node(node(run, declared.attempt, declared.node.machine_id), declared.node)
    if run.job.name != declared.job:
        _move(run, declared.job)
    run.owner = declared.owner or run.owner
    run.tags = {**run.tags, **declared.tags}
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


def _declare_node(node: Node, facts: NodeFacts) -> None:
    known = {name: value for name, value in asdict(facts).items() if value}
    for name, value in known.items():
        setattr(node, name, value)
    node.save()


def _locked_job(workspace: Workspace, name: str) -> Job:
    job, _ = Job.objects.get_or_create(workspace=workspace, name=name)
    return Job.objects.select_for_update().get(pk=job.pk)


def _next_number(job: Job) -> int:
    Job.objects.filter(pk=job.pk).update(runs_made=F("runs_made") + 1)
    job.refresh_from_db(fields=["runs_made"])
    return job.runs_made


def _move(run: Run, job_name: str) -> None:
    """The declaration knows the job better than a segment that came first."""
    job = _locked_job(run.workspace, job_name)
    run.job, run.number = job, _next_number(job)
