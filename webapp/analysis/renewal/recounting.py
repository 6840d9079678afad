"""Finds costs that no longer equal a fresh count, and counts them again.

A run on a shared machine costs less once another run is known, whichever is analysed first and
whatever arrives while one of them is read.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import takewhile

from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet

from advisor.costing.charges import as_document
from advisor.store.room import RoomExceededError
from webapp.analysis import queue
from webapp.analysis.judging.evaluation import price_run
from webapp.analysis.models import CostPart
from webapp.analysis.outcome import FollowUp, Outcome
from webapp.analysis.pricing import sharing
from webapp.runs.models import Node, Run

SWEPT_DAYS = 2
"""The age in days up to which runs are counted again automatically; older ones by `manage.py
recount`."""
SWEPT_AT_ONCE, SWEPT_SECONDS, AT_ONCE = 500, 10.0, 20
"""The sizes and seconds of a sweep, and the size of a batch. What is left is found by the next
sweep."""
MOST_READ = 1000
"""The nodes of other runs to read beside an analysis, which takes about a tenth of a second."""


@dataclass(frozen=True)
class OutdatedCost:
    """A run whose stored cost differs from a fresh count; None without a price."""

    run: Run
    stored_usd: Decimal | None
    fresh_usd: Decimal | None


def ended_runs() -> QuerySet[Run]:
    """Return the runs that have ended: only what others do changes their cost."""
    known = Run.objects.present().filter(started_at__isnull=False, ended_at__isnull=False)
    return known.exclude(state=Run.RUNNING)


def counted_runs() -> QuerySet[Run]:
    """Return the ended runs whose stored cost is that of their last analysis: none is due, or
    failed.
    """
    return ended_runs().filter(analysis__wanted=F("analysis__done"), analysis__error="")


def outdated_costs(runs: Iterable[Run]) -> Iterator[OutdatedCost]:
    """Yield the runs whose cost, its part on any day or what any second cost differs from a fresh
    count. Writes nothing.
    """
    for run in runs:
        stored_usd = run.cost_usd
        try:
            fresh = price_run(run)
        except RoomExceededError:
            continue
        nodes = {node.key: node.pk for node in fresh.nodes}
        parts = {
            (nodes[part.node_key], part.day): (
                int(part.seconds * 1_000_000),
                part.usd,
                as_document(part.day, part.charges),
            )
            for part in fresh.cost.parts
        }
        rows = CostPart.objects.filter(run=run)
        stored = {(row.node_id, row.day): (row.microseconds, row.usd, row.charges) for row in rows}
        if (stored_usd, stored) != (fresh.cost.total_usd, parts):
            yield OutdatedCost(run, stored_usd, fresh.cost.total_usd)


def queue_outdated(now: datetime) -> int:
    """Queue the recent runs on shared machines whose cost differs. Returns their number.

    In any order, so that no workspace's crowd keeps others from being swept.
    """
    recent = counted_runs().filter(ended_at__gte=now - timedelta(days=SWEPT_DAYS))
    together = recent.filter(Exists(_on_a_shared_machine())).order_by("?")
    until = time.monotonic() + SWEPT_SECONDS
    return queue_runs(
        outdated_costs(takewhile(lambda _: time.monotonic() < until, together[:SWEPT_AT_ONCE]))
    )


def prepare(outcome: Outcome) -> FollowUp:
    """Find the runs that share an overcommitted machine with the analysed one and were counted
    without it. The follow-up queues them.

    Their costs are compared, not times: one that was read before this run arrived may be written
    after it. For the same reason one that is being analysed now is analysed again.
    """
    wrong = list(_outdated_neighbours(outcome))

    def queue_them(run: Run) -> None:
        queue_runs(wrong)

    return queue_them


def _outdated_neighbours(outcome: Outcome) -> Iterator[OutdatedCost]:
    """Yield as many as `MOST_READ` nodes allow, the newest first. Each is counted with all of its
    own neighbours, so a crowd of runs would otherwise take the square of its number."""
    if not sharing.is_crowded(outcome.uses, outcome.nodes):
        return
    nodes = sharing.neighbours(outcome.run, outcome.nodes)
    at_once = min(AT_ONCE, max(MOST_READ // len(nodes), 1))
    runs = ended_runs().filter(pk__in={node.attempt.run_id for node in nodes})
    yield from outdated_costs(runs.order_by("-ended_at")[:at_once])


def queue_runs(wrong: Iterable[OutdatedCost]) -> int:
    """Queue the runs, and return their number."""
    found = list(wrong)
    if not found:
        return 0
    with transaction.atomic():
        for each in found:
            queue.queue_run(each.run, is_upload=False)
    return len(found)


def _on_a_shared_machine() -> QuerySet[Node]:
    """Return the nodes of the outer query's run that another run of its workspace held at that
    time.
    """
    others = Node.objects.filter(
        machine_id=OuterRef("machine_id"),
        attempt__run__workspace=OuterRef("attempt__run__workspace"),
        attempt__run__deleted_at=None,
        attempt__run__started_at__lt=OuterRef("attempt__run__ended_at"),
        attempt__run__ended_at__gt=OuterRef("attempt__run__started_at"),
    ).exclude(attempt__run=OuterRef("attempt__run"))
    own = Node.objects.filter(attempt__run=OuterRef("pk")).exclude(machine_id="")
    return own.filter(Exists(others))
