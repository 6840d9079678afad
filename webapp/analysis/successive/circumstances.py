"""A run's machines, work and price, as the judgement of successive runs needs them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from uuid import UUID

from advisor.successive.beside import Circumstances
from advisor.successive.machine_time import MachineWork
from advisor.successive.machines import tells
from webapp.runs.models import Node, Run

SECONDS_PER_HOUR = 3600


def machine_work_of(run: Run) -> MachineWork:
    return MachineWork(
        machine_seconds=_machine_seconds(run),
        duration_seconds=run.duration.total_seconds() if run.duration else None,
        work=run.work,
        phase_seconds=run.summary.phase_seconds,
    )


def circumstances_of(run: Run) -> Circumstances:
    return Circumstances(machine_work_of(run), run.summary.usd_per_hour, _charged_share(run))


def machines(runs: Sequence[Run]) -> dict[UUID, str]:
    """Return, for each run, the machine or processor by which its time may differ; empty if neither
    comes back.
    """
    nodes: dict[UUID, list[Node]] = defaultdict(list)
    known = Node.objects.filter(attempt__run__in=runs).select_related("attempt").order_by("number")
    for node in known.only("hostname", "machine_id", "cpu_model", "attempt__run_id"):
        nodes[node.attempt.run_id].append(node)
    for name in (_host, _processor):
        names = {pk: " + ".join(sorted({*map(name, own)} - {""})) for pk, own in nodes.items()}
        if tells([names[run.pk] for run in runs if run.pk in names]):
            return names
    return {}


def _host(node: Node) -> str:
    return node.hostname or node.machine_id


def _processor(node: Node) -> str:
    return node.cpu_model


def _machine_seconds(run: Run) -> float | None:
    """Return the machines' seconds. Runs that were analysed by an earlier version have no exact
    figure.
    """
    if run.summary.machine_seconds is not None:
        return run.summary.machine_seconds or None
    if run.duration is None or not run.summary.node_count:
        return None
    return run.duration.total_seconds() * run.summary.node_count


def _charged_share(run: Run) -> float | None:
    """Return the charged share of the machines' price; None without a price, or if machines are
    unequal.
    """
    seconds, usd_per_hour = _machine_seconds(run), run.summary.usd_per_hour
    if not seconds or not usd_per_hour or run.cost_usd is None:
        return None
    whole = usd_per_hour * Decimal(seconds) / SECONDS_PER_HOUR
    return float(run.cost_usd / whole)
