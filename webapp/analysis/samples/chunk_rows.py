"""Writes the rows of chunks. Readers see the old chunks or the new ones, never both."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from django.db.models import Q
from django.utils import timezone

from advisor.store.index import CHART_KINDS, ChunkRef
from webapp.runs.models import Chunk, Node

HOUR = timedelta(hours=1)


def replace(node: Node, old: Sequence[ChunkRef], new: Sequence[ChunkRef]) -> bool:
    """Swap rows; False, and nothing is done, if one of `old` has been replaced meanwhile.

    Chunks of many hours that had a copy of a replaced hour are replaced, too. Call in a transaction
    that holds the node.
    """
    if not are_live(node, old):
        return False
    live = Chunk.objects.filter(node=node, replaced_at=None)
    kept = [ref.key for ref in new]
    hours = {ref.starts_at for ref in new if ref.kind not in (*CHART_KINDS, "tail")}
    if hours:
        copies = Q(pk__in=())
        for hour in hours:
            copies |= Q(starts_at__lt=hour + HOUR, ends_at__gt=hour)
        live.filter(copies, kind__in=CHART_KINDS).update(replaced_at=timezone.now())
    used = live.filter(object_key__in=[ref.key for ref in old])
    used.exclude(object_key__in=kept).update(replaced_at=timezone.now())
    for ref in new:
        save(node, ref)
    return True


def are_live(node: Node, refs: Sequence[ChunkRef]) -> bool:
    """Return whether none of these chunks has been replaced."""
    live = Chunk.objects.filter(node=node, replaced_at=None)
    return live.filter(object_key__in=[ref.key for ref in refs]).count() == len(refs)


def save(node: Node, ref: ChunkRef) -> None:
    """Write the row of a chunk whose object is written. Saving it again makes it live again."""
    Chunk.objects.update_or_create(
        object_key=ref.key,
        defaults={
            "node": node,
            "kind": ref.kind,
            "tier_seconds": ref.tier_seconds,
            "starts_at": ref.starts_at,
            "ends_at": ref.ends_at,
            "size_bytes": ref.size_bytes,
            "replaced_at": None,
        },
    )
