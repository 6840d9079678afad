"""Chunks of many hours for charts: made of compacted hours, some hours at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db import transaction

from advisor.store.chart_plan import Buckets
from advisor.store.compaction import hours_between, span_of, summarise
from advisor.store.grid import SampleGrid
from advisor.store.index import CHART_KINDS, CHART_TIER_HOURS, HOUR_MS, to_ms
from advisor.store.opening import open_store
from webapp.analysis.models import Compaction
from webapp.analysis.samples import chunk_rows
from webapp.runs.history import chart_history
from webapp.runs.models import Chunk, Node

VERSION = 1
MOST_SPANS = 20
"""The most spans that one task makes."""
MOST_OUTDATED = 20
"""Nodes of earlier releases that are queued at once."""
NEW_HOURS = {60: 4, 600: 12, 3600: 96}
"""Tier in seconds -> how many new hours a span needs while the run continues. Until then a chart
reads them from finer chunks."""
USEFUL_HOURS = {60: 4, 600: 24, 3600: 6 * 24}
"""A shorter run has no charts that need the tier."""


@dataclass(frozen=True)
class _Span:
    """The hours of one chunk to be, in Unix milliseconds."""

    tier_seconds: int
    first_ms: int
    last_ms: int


def outdated_nodes() -> list[int]:
    """Return some nodes whose chunks an earlier release made, or didn't make."""
    rows = Compaction.objects.filter(charts_version__lt=VERSION, given_up_at=None)
    return list(rows.order_by("pk").values_list("node_id", flat=True)[:MOST_OUTDATED])


def renew(node: Node, settled_before: float) -> bool:
    """Make the missing chunks of the hours before this time (Unix ms); return True if there is more
    to make.
    """
    is_ended = settled_before == float("inf")
    due = list(_due(node, settled_before, is_ended))
    for span in due[:MOST_SPANS]:
        _make(node, span)
    if len(due) > MOST_SPANS:
        return True
    Compaction.objects.filter(node=node).update(charts_version=VERSION)
    return False


def _due(node: Node, settled_before: float, is_ended: bool) -> Iterator[_Span]:
    """Yield the spans to make. Finer tiers come first, because coarser ones are made of them."""
    live = Chunk.objects.filter(node=node, replaced_at=None)
    stored = live.filter(kind__in=("samples", "steps")).values_list("starts_at", flat=True)
    hours = sorted({ms for ms in map(to_ms, stored.distinct()) if ms < settled_before})
    for tier in CHART_TIER_HOURS:
        if len(hours) < USEFUL_HOURS[tier]:
            return
        made = live.filter(kind__in=CHART_KINDS, tier_seconds=tier)
        covered = {
            ms
            for start, end in made.values_list("starts_at", "ends_at").distinct()
            for ms in range(to_ms(start), to_ms(end), HOUR_MS)
        }
        for own in _by_span(hours, tier):
            new = sum(ms not in covered for ms in own)
            if new and (is_ended or new >= NEW_HOURS[tier] or _is_over(own, hours, tier)):
                yield _Span(tier, own[0], own[-1])


def _by_span(hours: Sequence[int], tier_seconds: int) -> list[list[int]]:
    spans: dict[int, list[int]] = defaultdict(list)
    for ms in hours:
        spans[span_of(ms, tier_seconds).start].append(ms)
    return list(spans.values())


def _is_over(own: Sequence[int], hours: Sequence[int], tier_seconds: int) -> bool:
    return hours[-1] not in span_of(own[0], tier_seconds)


def _make(node: Node, span: _Span) -> None:
    hours = hours_between(span.first_ms, span.last_ms)
    width_ms = span.tier_seconds * 1000
    cells = (span.last_ms + HOUR_MS - span.first_ms) // width_ms
    buckets = Buckets(span.tier_seconds, SampleGrid.even(span.first_ms, width_ms, cells))
    history = chart_history(node, buckets)
    store, prefix = open_store(settings.OBJECTS_URL), f"runs/{node.attempt.run_id}"
    new = summarise(store, history, hours, span.tier_seconds, prefix)
    own = span_of(span.first_ms, span.tier_seconds)
    old = [
        ref
        for ref in history.chunks
        if ref.kind in CHART_KINDS and ref.tier_seconds == span.tier_seconds and ref.hour_ms in own
    ]
    with transaction.atomic():
        Node.objects.select_for_update().get(pk=node.pk)
        if chunk_rows.are_live(node, history.chunks):
            chunk_rows.replace(node, old, new)
