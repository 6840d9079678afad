"""The facts that a conversion hands over: of its nodes and of the chunks that were written.

It was made by a process that read hostile files, so it is checked when it is read.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from trimtab.wire import Declaration, decode_declaration, encode_declaration

from advisor.costing import billing
from advisor.costing.billing import Billing
from advisor.store.index import HOUR_KINDS, ChunkRef
from advisor.store.objects import is_key

if TYPE_CHECKING:
    from advisor.importers.conversion import ImportedNode, ImportResult

MOST_BYTES = 64 * 1024 * 1024
STATES = ("finished", "failed", "stopped")


@dataclass(frozen=True)
class ConvertedNode:
    """One node: its session, the chunks of its samples, and its declaration."""

    session_id: UUID
    started_at: datetime
    ended_at: datetime
    state: str
    prefix: str
    """The prefix of the keys of its chunks, and of those that an earlier import of it made."""
    chunks: tuple[ChunkRef, ...]
    declaration: Declaration
    billing: Billing


@dataclass(frozen=True)
class ConversionResult:
    """The result of a conversion.

    Attributes:
        document: see `conversion.ImportResult.document`.
        operator_times: see `conversion.ImportResult.times_document`.
    """

    document: dict[str, Any]
    operator_times: dict[str, Any]
    nodes: tuple[ConvertedNode, ...]


def write(imported: ImportResult, path: Path) -> None:
    """Write what a conversion made."""
    document = {
        "document": imported.document(),
        "operator_times": imported.times_document(),
        "nodes": [_node_document(node) for node in imported.nodes],
    }
    path.write_text(json.dumps(document), encoding="utf-8")


def read(path: Path, run_id: UUID) -> ConversionResult:
    """Read what a conversion of this run made.

    Raises:
        ValueError: it is too large, has another shape, or names another run's objects.
    """
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"the converted facts are larger than {MOST_BYTES // 2**20} MiB")
    try:
        said = json.loads(path.read_bytes())
        nodes = tuple(_node(each, run_id) for each in said["nodes"])
        return ConversionResult(dict(said["document"]), dict(said["operator_times"]), nodes)
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"the converted facts have another shape: {error!r}") from None


def _node_document(node: ImportedNode) -> dict[str, Any]:
    stored = node.stored
    return {
        "session_id": str(stored.session_id),
        "started_at": stored.started_at.isoformat(),
        "ended_at": stored.ended_at.isoformat(),
        "state": node.state,
        "prefix": stored.prefix,
        "chunks": [
            [ref.key, ref.kind, ref.tier_seconds, *_times(ref), ref.size_bytes]
            for ref in stored.chunks
        ],
        "billing": billing.as_document(node.billing),
        "declaration": base64.b64encode(encode_declaration(node.declaration)).decode(),
    }


def _times(ref: ChunkRef) -> tuple[str, str]:
    return ref.starts_at.isoformat(), ref.ends_at.isoformat()


def _node(said: Mapping[str, Any], run_id: UUID) -> ConvertedNode:
    session_id, state = UUID(said["session_id"]), said["state"]
    declaration = decode_declaration(base64.b64decode(said["declaration"]))
    prefix = f"runs/{run_id}/imports/{session_id}"
    if state not in STATES or said["prefix"] != prefix or declaration.run_id != run_id:
        raise ValueError("a converted node is of another run")
    return ConvertedNode(
        session_id=session_id,
        started_at=datetime.fromisoformat(said["started_at"]),
        ended_at=datetime.fromisoformat(said["ended_at"]),
        state=state,
        prefix=prefix,
        chunks=tuple(_chunk(each, prefix) for each in said["chunks"]),
        declaration=declaration,
        billing=billing.from_document(said["billing"]),
    )


def _chunk(said: list[Any], prefix: str) -> ChunkRef:
    key, kind, tier, starts, ends, size_bytes = said
    if kind not in HOUR_KINDS or not is_key(key) or not key.startswith(f"{prefix}/"):
        raise ValueError("a converted chunk isn't the run's")
    start, end = datetime.fromisoformat(starts), datetime.fromisoformat(ends)
    return ChunkRef(key, kind, int(tier), start, end, int(size_bytes))
