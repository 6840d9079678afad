"""Objects without a row: the remains of interrupted uploads and deletions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from django.db.models import QuerySet

from advisor.store.objects import ObjectStore, StoredObject
from webapp.retention.plan import PlannedDeletion, run_of
from webapp.runs.models import Artefact, Chunk, Segment

YOUNG = timedelta(days=1)
"""The age below which an object is left alone: it is written before its row, so it may belong to a
running upload."""
PAGE = 500


def orphans(store: ObjectStore, now: datetime) -> Iterator[PlannedDeletion]:
    """Yield every object older than `YOUNG` without a row, of all workspaces, page by page."""
    listing = iter(store.list("runs/"))
    while page := list(islice(listing, PAGE)):
        old = [stored for stored in page if stored.changed_at < now - YOUNG]
        known = _known([stored.key for stored in old])
        yield from (_doomed(stored) for stored in old if stored.key not in known)


def _known(keys: list[str]) -> set[str]:
    """Return the keys with a row: nearly all are among the rows of their keys' runs, so only the
    rest is looked for among all rows.
    """
    runs = {run_id for key in keys if (run_id := run_of(key))}
    segments, artefacts = Segment.objects.with_object(), Artefact.objects.all()
    known = _among(
        keys,
        segments.filter(session__node__attempt__run__in=runs),
        artefacts.filter(run__in=runs),
        Chunk.objects.all(),
    )
    left = [key for key in keys if key not in known]
    return known | _among(left, segments, artefacts)


def _among(keys: list[str], *kinds: QuerySet[Any]) -> set[str]:
    return {
        key
        for rows in kinds
        for key in rows.filter(object_key__in=keys).values_list("object_key", flat=True)
    }


def _doomed(stored: StoredObject) -> PlannedDeletion:
    return PlannedDeletion("orphan", stored.key, stored.size_bytes)
