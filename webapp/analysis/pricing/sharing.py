"""Machines that several runs of a workspace share: no machine is counted more than once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from django.db.models import (
    CharField,
    DateTimeField,
    Exists,
    OuterRef,
    QuerySet,
    prefetch_related_objects,
)

from advisor.costing.cost import NodeUse, shares_on_machine
from webapp.accounts.models import Workspace
from webapp.analysis import queue
from webapp.analysis.pricing import machine_uses
from webapp.database.prepared import Models, Slot
from webapp.runs.models import Node, Run


def uses(run: Run, nodes: Sequence[Node]) -> list[NodeUse]:
    """Return the machine uses of a run. Its share is scaled down while the shares of all runs on a
    machine add up to more than 1.
    """
    on_machine: dict[str, list[Node]] = defaultdict(list)
    for node in [*nodes, *neighbours(run, nodes)]:
        on_machine[node.machine_id].append(node)
    own = {str(node.pk): node.key for node in nodes}
    starts = _machine_starts(nodes)
    held_by_run: list[NodeUse] = []
    for together in on_machine.values():
        held = [replace(machine_uses.node_use(node), node_key=str(node.pk)) for node in together]
        scaled = shares_on_machine(held, own) if len(held) > 1 else held
        held_by_run += [
            replace(use, node_key=own[use.node_key], machine_start=starts[use.node_key])
            for use in scaled
            if use.node_key in own
        ]
    return held_by_run


def _machine_starts(nodes: Sequence[Node]) -> dict[str, str]:
    """Return one start of its machine for each node, by the node's id. Attempts of a run use the
    same start of a machine, unless its cloud reports another. A node whose start is unknown used
    the machine's first.
    """
    first: dict[str, datetime] = {}
    for node in nodes:
        if started_at := node.instance_started_at:
            first[node.machine_id] = min(first.get(node.machine_id, started_at), started_at)
    return {
        str(node.pk): f"{node.machine_id} {node.instance_started_at or first.get(node.machine_id)}"
        for node in nodes
    }


def reprice_sharing_runs(runs: QuerySet[Run], **_: Any) -> None:
    """Reprice the runs that shared a machine with deleted or restored `runs`, and these runs
    themselves. Call in a transaction."""
    machines = Node.objects.filter(attempt__run__in=runs).values("machine_id")
    held = Node.objects.filter(machine_id__in=machines)
    inside, outside = held.filter(attempt__run__in=runs), held.exclude(attempt__run__in=runs)
    together = [_at_once(inside, outside), _at_once(outside, inside)]
    for run in Run.objects.filter(pk__in=[pk for side in together for pk in side]).order_by("pk"):
        queue.queue_run(run, is_upload=False)
        queue.enqueue_on_commit(run)


def _at_once(these: QuerySet[Node], those: QuerySet[Node]) -> Iterable[UUID]:
    """Return the runs of `these` nodes that are on the same machine as one of `those` at the same
    time.
    """
    other = those.filter(
        machine_id=OuterRef("machine_id"),
        attempt__run__workspace=OuterRef("attempt__run__workspace"),
        attempt__run__started_at__lt=OuterRef("attempt__run__ended_at"),
        attempt__run__ended_at__gt=OuterRef("attempt__run__started_at"),
    )
    return these.filter(Exists(other)).values_list("attempt__run", flat=True).distinct()


def is_crowded(held: Iterable[NodeUse], nodes: Iterable[Node]) -> bool:
    """Return whether the share of any of a run's `nodes` was scaled down."""
    whole = {node.key: machine_uses.share(node) for node in nodes}
    return any(use.share < whole[use.node_key] for use in held)


def neighbours(run: Run, nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes of the workspace's other runs on the same machines at that time. Deleted
    runs are ignored: the remaining runs pay for the machine.
    """
    if run.started_at is None or run.ended_at is None:
        return []
    machines = sorted({node.machine_id for node in nodes} - {""})
    if not machines:
        return []
    times = {"started_at": run.started_at, "ended_at": run.ended_at}
    slots = {f"machine{place}": name for place, name in enumerate(machines)}
    others = _others_on(len(machines))(run=run.pk, workspace=run.workspace_id, **times, **slots)
    # There are seldom any: joined columns would cost more than the few queries.
    prefetch_related_objects(others, "attempt__run", "sessions")
    return others


@cache
def _others_on(machines: int) -> Models[Node]:
    """Return the nodes of a workspace's other runs on these machines."""
    started_at, ended_at = (Slot(name, DateTimeField()) for name in ("started_at", "ended_at"))
    others = Node.objects.filter(
        attempt__run__started_at__lt=ended_at,
        attempt__run__ended_at__gt=started_at,
        attempt__run__workspace=Slot("workspace", Workspace._meta.pk),
        attempt__run__deleted_at=None,
        machine_id__in=[Slot(f"machine{place}", CharField()) for place in range(machines)],
    )
    return Models(lambda: others.exclude(attempt__run=Slot("run", Run._meta.pk)))
