"""Converts a folder: finds its format, stores its samples, and says what it found."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol, runtime_checkable
from uuid import UUID

from trimtab.wire import LIMITS, Declaration, Gpu, NodeFacts

from advisor.importers import formats, torch_trace
from advisor.importers.recording import NotImportableError, Recording
from advisor.importers.source import Source
from advisor.importers.stated import Stated
from advisor.importers.storing import StoredNode, store_recording
from advisor.importers.tally import Operator, Tally
from advisor.pricing.catalogue import catalogue
from advisor.store.objects import Objects

_UNKNOWN_GPU = "unknown model"
_GPU = re.compile(r"gpu\d+\.busy_pct")
_CORE = re.compile(r"cpu\d+\.busy_pct")


@runtime_checkable
class SaysMore(Protocol):
    """A recording that itself says on which machine it was."""

    facts: Stated


@dataclass(frozen=True)
class ImportedNode:
    """One node: what is stored of it, and its declaration."""

    stored: StoredNode
    declaration: Declaration
    state: str


@dataclass(frozen=True)
class Imported:
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
        """What to keep of it beside the run, as JSON."""
        document = {
            "format": self.format,
            **self.tally.document(),
            "operators": self.operators,
            "statistics": self.statistics,
        }
        return {name: _storable(value) for name, value in document.items()}

    def times_document(self) -> dict[str, Any]:
        """When its operators ran, as JSON."""
        return {name: _storable(value) for name, value in self.operator_times.items()}


def _storable(value: Any) -> Any:
    """Without the characters that PostgreSQL refuses in texts: files may have any."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode().replace("\0", "?")
    if isinstance(value, dict):
        return {_storable(name): _storable(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_storable(each) for each in value]
    return value


def convert(
    store: Objects,
    source: Source,
    stated: Stated,
    run_id: UUID,
    *,
    tally: Tally | None = None,
    with_tiers: bool = True,
    alive: Callable[[], object] = lambda: None,
) -> Imported:
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
    recording = formats.opened(source, stated, tally)
    if isinstance(recording, SaysMore):
        stated = stated.over(recording.facts)
    nodes = store_recording(
        store, recording, run_id, tally, held=_held(stated), with_tiers=with_tiers, alive=alive
    )
    if not tally.taken:
        raise NotImportableError("no record of it can be used")
    if stated.nodes and len(nodes) != stated.nodes:
        tally.note(f"The job had {stated.nodes} machines; the files are of {len(nodes)}.")
    return Imported(
        format=recording.format,
        state=recording.state,
        nodes=tuple(
            ImportedNode(
                each, _declaration(recording, each, run_id, stated, source), recording.state
            )
            for each in nodes
        ),
        tally=tally,
        operators=[asdict(each) for each in recording.operators],
        statistics=recording.statistics,
        operator_times=recording.operator_times,
    )


def operators_of(source: Source, alive: Callable[[], object] = lambda: None) -> Imported:
    """The operators of a profile of a run that was measured otherwise. Stores nothing.

    What is no readable trace has none, and a note says why.
    """
    tally = Tally()
    found: list[Operator] = []
    times: dict[str, Any] = {}
    try:
        if torch_trace.recognises(source):
            recording = torch_trace.opened(source, Stated(), tally)
            for node in recording.nodes:
                for _ in recording.parts(node):
                    alive()
            found, times = recording.operators, recording.operator_times
        else:
            tally.note("This file is no trace of PyTorch's profiler.")
    except NotImportableError as error:
        tally.note(f"This file can't be read: {error}.")
    operators = [asdict(each) for each in found]
    return Imported(torch_trace.FORMAT, "", (), tally, operators, {}, times)


def _held(stated: Stated) -> tuple[datetime | None, datetime | None]:
    start, end = stated.started_at, stated.ended_at
    if start is None or end is None or not timedelta(0) < end - start < timedelta(days=30):
        return None, None
    return start, end


def _declaration(
    recording: Recording, node: StoredNode, run_id: UUID, stated: Stated, source: Source
) -> Declaration:
    job = stated.job or recording.job or source.name
    workload = {"imported from": recording.format}
    return Declaration(
        run_id=run_id,
        job=job[: LIMITS.name_chars],
        attempt=0,
        session_id=node.session_id,
        node=_facts(recording, node, run_id, stated),
        tags=_tags(recording),
        parameters={**recording.labels.parameters, **stated.parameters},
        workload=workload,
    )


def _tags(recording: Recording) -> dict[str, str]:
    named = {"training job": recording.training_job} if recording.training_job else {}
    return {**recording.labels.tags, **named}


def _facts(recording: Recording, node: StoredNode, run_id: UUID, stated: Stated) -> NodeFacts:
    known = catalogue().get(stated.instance_type)
    seen = sum(_GPU.fullmatch(name) is not None for name in node.series)
    said = node.machine
    gpus = [Gpu(model[: LIMITS.name_chars] or _UNKNOWN_GPU, size) for model, size in said.gpus]
    gpus += [Gpu(_UNKNOWN_GPU, 0)] * (max(node.gpus, seen) - len(gpus))
    if known:
        gpus = [Gpu(known.gpu_model, known.gpu_memory_bytes)] * known.gpu_count
    return NodeFacts(
        # A managed job's machines are its own, and no other run's.
        machine_id=f"{recording.training_job or run_id}/{node.name}"[-LIMITS.name_chars :],
        hostname=node.name[: LIMITS.name_chars],
        provider=stated.provider or recording.provider,
        service=stated.service,
        region=stated.region,
        instance_type=stated.instance_type,
        purchase_option=stated.purchase_option or "on_demand",
        owns_machine=recording.owns_machine,
        vcpus=sum(_CORE.fullmatch(name) is not None for name in node.series)
        or (known.vcpus if known else said.vcpus),
        memory_bytes=known.memory_bytes if known else said.memory_bytes,
        cpu_model=said.cpu_model[: LIMITS.name_chars],
        gpus=gpus,
    )
