"""Imports a recording and analyses it, without a service and without writing anything."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import NAMESPACE_URL, UUID, uuid5

from advisor import machine
from advisor.importers import s3
from advisor.importers.conversion import ImportResult, convert
from advisor.importers.described_by_aws import describe_job
from advisor.importers.described_job import from_describe
from advisor.importers.recording import NotImportableError
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts
from advisor.importers.tally import Tally
from advisor.offline.nodes import ImportedSession, Node, Timeline
from advisor.offline.reading import StoredRun
from advisor.store.memory import MemoryStore

_MOST_DESCRIPTION_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class ImportedRun:
    """A recording as a run that can be analysed."""

    run: StoredRun
    timeline: Timeline
    imported: ImportResult


def import_path(path: Path, stated: StatedFacts) -> ImportedRun:
    """Import a folder or file.

    Raises:
        NotImportableError: no such path, no known format, or nothing that can be used.
    """
    if not path.exists():
        raise NotImportableError(f"{path} does not exist")
    return _imported(Source.from_path(path), _dated(stated, path), Tally())


def import_address(address: s3.Address, stated: StatedFacts, folder: Path) -> ImportedRun:
    """Import what is in S3, with the caller's own AWS credentials.

    Args:
        folder: where the objects are copied to; what it has already isn't copied again.

    Raises:
        NotImportableError: it can't be read, no known format, or nothing that can be used.
        SourceAwayError: try again later.
    """
    tally = Tally()
    source = s3.fetch(address, folder, tally)
    known = (
        stated
        if stated.training_job
        else stated.fill_gaps_from(describe_job(address, source, tally))
    )
    return _imported(source, replace(known, imported_at=datetime.now(UTC)), tally)


def _imported(source: Source, stated: StatedFacts, tally: Tally) -> ImportedRun:
    store, run_id = MemoryStore(), _run_id(source)
    imported = convert(store, source, stated, run_id, tally=tally, with_tiers=False)
    run = StoredRun(run_id, [node.declaration for node in imported.nodes])
    return ImportedRun(run, _timeline(imported, store), imported)


def read_description(path: Path) -> StatedFacts:
    """Read what `aws sagemaker describe-training-job` printed into a file.

    Raises:
        NotImportableError: it can't be read, or is something else.
    """
    try:
        with path.open("rb") as file:
            document = json.loads(file.read(_MOST_DESCRIPTION_BYTES))
    except OSError as error:
        raise NotImportableError(f"{path} can't be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        document = None
    return from_describe(document)


def _dated(stated: StatedFacts, path: Path) -> StatedFacts:
    """Date a recording without a time of day: it counts as begun when its file was last changed."""
    return replace(stated, imported_at=datetime.fromtimestamp(path.stat().st_mtime, UTC))


def _run_id(source: Source) -> UUID:
    """Return the run's id: the same for the same names and sizes of files."""
    names = json.dumps(sorted(source.sizes.items()))
    digest = hashlib.sha256(names.encode("utf-8", "surrogateescape")).hexdigest()
    return uuid5(NAMESPACE_URL, f"import/{source.name}/{digest}")


def _timeline(imported: ImportResult, store: MemoryStore) -> Timeline:
    nodes = []
    for number, node in enumerate(imported.nodes, start=1):
        facts, stored = node.declaration.node, node.stored
        history = stored.history(f"node-{number}", machine.hardware(facts))
        session = ImportedSession((stored.started_at, stored.ended_at), imported.state)
        nodes.append(Node(facts, history, 0, (session,), node.billing))
    finest_ms = min(node.stored.finest_ms for node in imported.nodes)
    return Timeline(tuple(nodes), store, finest_ms)
