"""Converts a folder: finds its format, stores its samples, and says what it found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Protocol, runtime_checkable
from uuid import UUID

from trimtab.wire import LIMITS, Declaration, Gpu, NodeFacts, job_of_training

from advisor.costing.billing import AS_HELD, Billing
from advisor.importers import formats, torch_trace
from advisor.importers.machines import assign_machine_types, seen_cores, seen_gpus
from advisor.importers.recording import (
    UNKNOWN_END,
    NotImportableError,
    RecordedNode,
    Recording,
)
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts
from advisor.importers.storing import StoredNode, store_recording, store_unrecorded
from advisor.importers.tally import Operator, Tally, storable
from advisor.pricing.catalogue import catalogue
from advisor.store.index import from_ms, to_ms
from advisor.store.objects import Objects

_UNKNOWN_GPU = "unknown model"
_EARLIER = timedelta(hours=1)
"""The time by which a recording may begin before its job, as when it includes the start of the
machine."""


@runtime_checkable
class SaysMore(Protocol):
    """A recording that itself says on which machine it was."""

    facts: StatedFacts


@dataclass(frozen=True)
class ImportedNode:
    """One node: what is stored of it, and its declaration."""

    stored: StoredNode
    declaration: Declaration
    state: str
    billing: Billing = AS_HELD


@dataclass(frozen=True)
class ImportResult:
    """The result of an import."""

    format: str
    state: str
    nodes: tuple[ImportedNode, ...]
    tally: Tally
    operators: list[dict[str, Any]]
    statistics: dict[str, Any]
    operator_times: dict[str, Any]
    """See `operator_times.OperatorTimes.document`; not part of `document`, which pages read."""

    def document(self) -> dict[str, Any]:
        """Return what to keep of it beside the run, as JSON."""
        document = {
            "format": self.format,
            **self.tally.document(),
            "operators": self.operators,
            "statistics": self.statistics,
        }
        return {name: storable(value) for name, value in document.items()}

    def times_document(self) -> dict[str, Any]:
        """Return when its operators ran, as JSON."""
        return {name: storable(value) for name, value in self.operator_times.items()}


def convert(
    store: Objects,
    source: Source,
    stated: StatedFacts,
    run_id: UUID,
    *,
    tally: Tally | None = None,
    with_tiers: bool = True,
    alive: Callable[[], object] = lambda: None,
) -> ImportResult:
    """Store a folder's recording under a run.

    Args:
        tally: to go on with.
        with_tiers: see `store_recording`.
        alive: called now and then.

    Raises:
        NotImportableError: no known format, or no record of it can be used.
    """
    tally = tally or Tally()
    for note in stated.notes:
        tally.note(note)
    recording = formats.open_recording(source, stated, tally)
    if isinstance(recording, SaysMore):
        stated = stated.fill_gaps_from(recording.facts)
    if stated.state:
        tally.withdraw(UNKNOWN_END)
    state = stated.state or recording.state
    recorded = store_recording(
        store,
        recording,
        run_id,
        tally,
        held=_held(stated, recording, tally),
        state=state,
        with_tiers=with_tiers,
        alive=alive,
    )
    if not tally.taken:
        raise NotImportableError("no record of it can be used")
    machines = _machines(store, recorded, stated, run_id, tally, state)
    return ImportResult(
        format=recording.format,
        state=state,
        nodes=tuple(
            ImportedNode(
                node, _declaration(recording, node, run_id, of_node, source), state, billing
            )
            for node, of_node, billing in machines
        ),
        tally=tally,
        operators=[asdict(each) for each in recording.operators],
        statistics=recording.statistics,
        operator_times=recording.operator_times,
    )


_Machine = tuple[StoredNode, StatedFacts, Billing]


def _machines(
    store: Objects,
    recorded: Sequence[StoredNode],
    stated: StatedFacts,
    run_id: UUID,
    tally: Tally,
    state: str,
) -> list[_Machine]:
    """Return each machine of the run, what is stated of it, and which part is billed: those that
    were recorded first, then the others that their platform names.
    """
    billing = stated.billing or AS_HELD
    if not stated.groups:
        return [(node, stated, billing) for node in recorded]
    found = assign_machine_types(stated.groups, recorded)
    billing = replace(
        billing,
        is_at_least=billing.is_at_least or found.is_at_least,
        notes=(*billing.notes, *found.notes),
    )
    start = to_ms(min(node.started_at for node in recorded))
    end = to_ms(max(node.ended_at for node in recorded))
    unrecorded = [
        store_unrecorded(store, run_id, RecordedNode(name, start, end), tally, state)
        for name, _ in found.unrecorded
    ]
    types = [*found.recorded, *(name for _, name in found.unrecorded)]
    nodes = [*recorded, *unrecorded]
    return [
        (node, replace(stated, instance_type=type_), billing)
        for node, type_ in zip(nodes, types, strict=True)
    ]


def operators_of(source: Source, alive: Callable[[], object] = lambda: None) -> ImportResult:
    """Return the operators of a profile of a run that was measured otherwise. Stores nothing.

    A file that is no readable trace has none, and a note says why.
    """
    tally = Tally()
    found: list[Operator] = []
    times: dict[str, Any] = {}
    try:
        if torch_trace.recognises(source):
            recording = torch_trace.open_recording(source, StatedFacts(), tally)
            for node in recording.nodes:
                for _ in recording.parts(node):
                    alive()
            found, times = recording.operators, recording.operator_times
        else:
            tally.note("This file is no trace of PyTorch's profiler.")
    except NotImportableError as error:
        tally.note(f"This file can't be read: {error}.")
    operators = [asdict(each) for each in found]
    return ImportResult(torch_trace.FORMAT, "", (), tally, operators, {}, times)


def _held(
    stated: StatedFacts, recording: Recording, tally: Tally
) -> tuple[datetime | None, datetime | None]:
    """Return when the machines were held, as their platform says; None if it doesn't, or means
    another time than that of the recording.
    """
    start, end = stated.started_at, stated.ended_at
    if start is None or end is None or not timedelta(0) < end - start < timedelta(days=30):
        return None, None
    firsts = [from_ms(node.started_ms) for node in recording.nodes]
    if not all(start - _EARLIER <= first <= end for first in firsts):
        tally.note(
            f"The described job ran from {start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC, and "
            f"the recording begins on {min(firsts):%Y-%m-%d %H:%M} UTC. The times of the recording "
            "count. Is it the same job?"
        )
        return None, None
    return start, end


def _declaration(
    recording: Recording, node: StoredNode, run_id: UUID, stated: StatedFacts, source: Source
) -> Declaration:
    job = stated.job or recording.job or job_of_training(stated.training_job) or source.name
    workload = {"imported from": recording.format}
    return Declaration(
        run_id=run_id,
        job=job[: LIMITS.name_chars],
        attempt=0,
        session_id=node.session_id,
        node=_facts(recording, node, run_id, stated),
        tags=_tags(recording, stated),
        parameters={**recording.labels.parameters, **stated.parameters},
        workload=workload,
    )


def _training_job(recording: Recording, stated: StatedFacts) -> str:
    return recording.training_job or stated.training_job


def _tags(recording: Recording, stated: StatedFacts) -> dict[str, str]:
    name = _training_job(recording, stated)
    named = {"training job": name} if name else {}
    return {**recording.labels.tags, **named}


def _facts(recording: Recording, node: StoredNode, run_id: UUID, stated: StatedFacts) -> NodeFacts:
    known = catalogue().get(stated.instance_type)
    place = _training_job(recording, stated) or run_id
    said = node.machine
    gpus = [Gpu(model[: LIMITS.name_chars] or _UNKNOWN_GPU, size) for model, size in said.gpus]
    gpus += [Gpu(_UNKNOWN_GPU, 0)] * (max(node.gpus, seen_gpus(node)) - len(gpus))
    if known:
        gpus = [Gpu(known.gpu_model, known.gpu_memory_bytes)] * known.gpu_count
    return NodeFacts(
        # A managed job's machines are its own, and no other run's.
        machine_id=f"{place}/{node.name}"[-LIMITS.name_chars :],
        hostname=node.name[: LIMITS.name_chars],
        provider=stated.provider or recording.provider,
        service=stated.service,
        region=stated.region,
        instance_type=stated.instance_type,
        purchase_option=stated.purchase_option or "on_demand",
        owns_machine=recording.owns_machine or bool(stated.training_job),
        vcpus=seen_cores(node) or (known.vcpus if known else said.vcpus),
        memory_bytes=known.memory_bytes if known else said.memory_bytes,
        cpu_model=said.cpu_model[: LIMITS.name_chars],
        gpus=gpus,
    )
