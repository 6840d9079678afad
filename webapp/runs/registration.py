"""Creates the rows that uploads refer to, those of many uploads together. Uploads may arrive in any
order and repeatedly.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Count, Q
from trimtab.wire import Declaration, Segment

from webapp.accounts.models import Workspace
from webapp.database.listed import execute_with_rows
from webapp.runs import locks, trainings
from webapp.runs.models import Attempt, Job, MovedRun, Node, Run, Session

Place = tuple[UUID, int, str]
"""A node's run, the number of its attempt, and its machine."""
_DECLARED = (
    *("job", "number", "owner", "tags", "parameters", "workload", "command", "git"),
    *("agent_version", "requeue", "training", "continues", "continues_by", "probe"),
)
"""The columns of a run that `apply_declaration` sets."""
_NUMBERED = "UPDATE runs_job SET runs_made = new.runs_made FROM new WHERE runs_job.id = new.id"
_MOST_SESSIONS = 500
"""The most sessions of a node that are remembered by name."""


def to_moment(unix_ns: int) -> datetime:
    """Return nanoseconds since 1970 as a time in UTC. Exact to the microsecond, unlike a float."""
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=unix_ns // 1000)


def lock_run(workspace: Workspace, run_id: UUID, job_name: str, is_new: bool = False) -> Run:
    """Return the run, locked. A new run is created with its job's next number.

    The run may belong to another workspace: the caller must check.

    Args:
        is_new: it was asked for just now and wasn't there.
    """
    own = Run.objects.select_for_update(of=("self",), no_key=True).filter(pk=run_id)
    if not is_new and (known := own.first()):
        return known
    try:
        # One transaction: who comes second uses up no number.
        with transaction.atomic():
            made = make_runs([(run_id, workspace, job_name)])
    except IntegrityError:
        made = []
    return made[0] if made else own.get()


def make_runs(named: Iterable[tuple[UUID, Workspace, str]]) -> list[Run]:
    """Make the runs that are missing, with their jobs' next numbers, and return these.

    Args:
        named: ids, workspaces and the names of jobs.

    Raises:
        IntegrityError: another upload made one of them meanwhile.
    """
    missing = {run_id: (workspace, name) for run_id, workspace, name in named}
    for (known,) in Run.objects.filter(pk__in=missing).values_list("pk"):
        del missing[known]
    if not missing:
        return []
    jobs = _jobs({(workspace.pk, name) for workspace, name in missing.values()})
    numbered: dict[int, Job] = {}
    made = []
    for run_id, (workspace, name) in missing.items():
        job = _take_job(jobs[workspace.pk, name], numbered)
        job.runs_made += 1
        made.append(Run(pk=run_id, workspace=workspace, job=job, number=job.runs_made))
    numbers = [(job.pk, job.runs_made) for job in numbered.values()]
    execute_with_rows(("id", "runs_made"), numbers, _NUMBERED)
    Run.objects.bulk_create(sorted(made, key=lambda run: run.pk))
    for run in made:
        _record_merged(run, jobs[run.workspace_id, missing[run.pk][1]])
    return made


def _take_job(called: Job, numbered: dict[int, Job]) -> Job:
    """Return the job of this name or the one it was merged into, always the same object."""
    job = _restored(called)
    return numbered.setdefault(job.pk, job)


@dataclass(frozen=True)
class FirstSegment:
    """A segment whose session is to be made."""

    segment: Segment
    clock_offset_ms: int
    """The correction to add to the machine's clock."""

    @property
    def place(self) -> Place:
        segment = self.segment
        return segment.run_id, segment.attempt, segment.machine_id


def make_sessions(firsts: Sequence[FirstSegment]) -> list[Session]:
    """Make the sessions of these segments, and those of their attempts and nodes that are missing.
    The runs must be locked, because their nodes are numbered.

    Raises:
        IntegrityError: another upload made one of the sessions meanwhile.
    """
    nodes = make_nodes([first.place for first in firsts])
    return Session.objects.bulk_create(_new_session(nodes[each.place], each) for each in firsts)


def _new_session(node: Node, first: FirstSegment) -> Session:
    clock = first.segment.clock
    return Session(
        pk=clock.session_id,
        node=node,
        boot_id=clock.boot_id,
        started_at=to_moment(clock.started_at_ns),
        clock_offset_ms=first.clock_offset_ms,
    )


def make_nodes(places: Iterable[Place]) -> dict[Place, Node]:
    """Return the nodes of these runs, attempts and machines, created if they are new. The runs must
    be locked.
    """
    wanted = dict.fromkeys(places)
    runs, machines = {run for run, _, _ in wanted}, {machine for _, _, machine in wanted}
    rows = Node.objects.filter(attempt__run__in=runs)
    found = rows.filter(machine_id__in=machines).select_related("attempt")
    known = {(each.attempt.run_id, each.attempt.number, each.machine_id): each for each in found}
    new = [place for place in wanted if place not in known]
    if new:
        attempts = _make_attempts({(run, number) for run, number, _ in new})
        counts = Counter(dict(rows.values_list("attempt__run").annotate(Count("pk")).order_by()))
        for run, number, machine in new:
            counts[run] += 1
            made = Node(attempt=attempts[run, number], machine_id=machine, number=counts[run])
            known[run, number, machine] = made
        Node.objects.bulk_create(known[place] for place in new)
    return known


def _make_attempts(numbered: Collection[tuple[UUID, int]]) -> dict[tuple[UUID, int], Attempt]:
    """Return the attempts of these runs and numbers, created if they are new."""
    runs, numbers = {run for run, _ in numbered}, {number for _, number in numbered}
    rows = Attempt.objects.filter(run__in=runs, number__in=numbers)
    known = {(each.run_id, each.number): each for each in rows}
    new = [Attempt(run_id=run, number=n) for run, n in numbered if (run, n) not in known]
    made = Attempt.objects.bulk_create(new)
    return known | {(each.run_id, each.number): each for each in made}


def apply_declaration(run: Run, declared: Declaration) -> None:
    """Write a declaration, but not its empty fields, nor over values that a person set."""
    place = run.pk, declared.attempt, declared.node.machine_id
    _declare_node(make_nodes([place])[place], declared)
    _place(run, declared.job)
    if not run.owner_is_edited:
        run.owner = declared.owner or run.owner
    add_labels(run, declared.parameters, declared.tags)
    run.workload = {**run.workload, **declared.workload}
    run.command = declared.command or run.command
    run.agent_version = declared.agent_version or run.agent_version
    run.requeue = declared.requeue or run.requeue
    if declared.training and not run.training_is_edited:
        run.training = trainings.training_of_key(run.workspace, declared.training)
        run.continues, run.continues_by = None, ""
    run.probe = asdict(declared.probe) if declared.probe else run.probe
    if declared.git_commit:
        run.git = {
            "commit": declared.git_commit,
            "branch": declared.git_branch,
            "dirty": declared.git_dirty,
        }
    run.save(update_fields=_DECLARED)


def add_labels(run: Run, parameters: Mapping[str, Any], tags: Mapping[str, str]) -> None:
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
        node.instance_started_at = to_moment(started_ns)
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
        _record_merged(run, called)


def _named(workspace: Workspace, name: str) -> tuple[Job, Job]:
    """Return the job of this name or key, created if it is new, and, locked, the job for its runs:
    itself or the one it was merged into. A deleted job is restored without its runs.
    """
    called = _jobs({(workspace.pk, name)})[workspace.pk, name]
    return called, _restored(called)


def _restored(called: Job) -> Job:
    """Return the locked job for the runs of one of this name, restored if it was deleted."""
    job = called if called.merged_into_id is None else lock_job(called)
    if job.deleted_at is not None:
        job.deleted_at = None
        job.save(update_fields=["deleted_at"])
    return job


def make_job(workspace: Workspace, name: str) -> Job:
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


def lock_job(job: Job) -> Job:
    """Return the job, or the one it was merged into, locked until the transaction ends."""
    held = locks.job(job.pk)
    return held if held.merged_into is None else lock_job(held.merged_into)


def _record_merged(run: Run, called: Job) -> None:
    """Record that a run arrived under a merged job's key, so that undoing the merge moves it."""
    while called.pk != run.job_id:
        MovedRun.objects.create(run=run, came_from=called)
        called = Job.objects.get(merged_jobs=called)


def next_number(job: Job) -> int:
    """Return a new run number for the job that was never used before. The job must be locked."""
    job.runs_made += 1
    job.save(update_fields=["runs_made"])
    return job.runs_made
