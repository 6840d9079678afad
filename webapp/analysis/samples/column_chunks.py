"""Chunks of columns: what a run's compacted hours add to its frame, kept while it runs.

An analysis of a running run reads from objects only what was not compacted at the one before. The
chunks are copies, so nothing is lost with them: one that is missing or damaged is made again. They
go with the first analysis after the run's end.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from advisor.store.index import ChunkKind, ChunkRef, from_ms
from advisor.store.objects import ObjectMissingError
from advisor.store.opening import open_store
from webapp.analysis.samples import chunk_rows
from webapp.database.prepared import Models, Slot
from webapp.runs.models import Chunk, Node, Run

KIND: ChunkKind = "columns"
AT_ONCE = 500
HOUR = timedelta(hours=1)


class ColumnChunks:
    """Column chunks of one run; keys are in the run's own folder, and only its own rows are looked
    up.
    """

    def __init__(self, run: Run, nodes: Sequence[Node]) -> None:
        self._run = run
        self._nodes = {node.key: node for node in nodes}
        self._store = open_store(settings.OBJECTS_URL)
        self._known = {_name(row.object_key): row.object_key for row in _known(run=run.pk)}
        self._used: set[str] = set()

    def find(self, node_key: str, name: str) -> bytes | None:
        """Return a kept body; see `advisor.store.columns.ColumnStore`."""
        key = self._known.get((node_key, name))
        if key is None:
            return None
        self._used.add(key)
        try:
            return self._store.get(key)
        except (ObjectMissingError, OSError):
            return None

    def keep(self, node_key: str, name: str, hour_ms: int, body: bytes) -> None:
        """Keep a body; see `advisor.store.columns.ColumnStore`. Nothing is kept of a run that has
        ended.

        The object is written first: if this is killed in between, it is left for the sweep of
        orphans.
        """
        if self._run.state != Run.RUNNING:
            return
        hour = from_ms(hour_ms)
        key = f"runs/{self._run.pk}/{node_key}/{hour:%Y%m%dT%H}-{KIND}-{name}.columns"
        self._store.put(key, body)
        ref = ChunkRef(key, KIND, 0, hour, hour + HOUR, size_bytes=len(body))
        chunk_rows.save(self._nodes[node_key], ref)
        self._used.add(key)

    def replace_unused(self) -> None:
        """Replace the chunks that this analysis didn't use: those of earlier grids, of hours that
        were compacted again, or after a late segment; all if the run has ended.
        """
        used = self._used if self._run.state == Run.RUNNING else set()
        unused = sorted(set(self._known.values()) - used)
        for start in range(0, len(unused), AT_ONCE):
            old = _live(self._run).filter(object_key__in=unused[start : start + AT_ONCE])
            old.update(replaced_at=timezone.now())


def _live(run: Run | Slot) -> QuerySet[Chunk]:
    return Chunk.objects.filter(node__attempt__run=run, kind=KIND, replaced_at=None)


@Models
def _known() -> QuerySet[Chunk]:
    return _live(Slot("run", Run._meta.pk)).only("object_key")


def _name(key: str) -> tuple[str, str]:
    """Return the node's key and the name of the part, from an object's key."""
    *_, node_key, file = key.split("/")
    return node_key, file.rpartition("-")[2].removesuffix(".columns")
