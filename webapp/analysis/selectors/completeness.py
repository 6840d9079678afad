"""Decides whether a run is known completely: every node has reported its end, and the analysis is
final.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from webapp.analysis.models import Analysis
from webapp.runs.models import Node, Run, Session
from webapp.runs.node_names import names_of


@dataclass(frozen=True)
class Completeness:
    """Completeness of a run. `because` are the missing things, one reason each; empty if the run is
    complete.
    """

    because: tuple[str, ...] = ()
    may_complete: bool = False
    """True if more is expected soon. False if the run is complete, or only a person can change
    it."""

    @property
    def is_complete(self) -> bool:
        return not self.because


def completeness_of(runs: Collection[Run]) -> dict[UUID, Completeness]:
    """Return the completeness of each run, in three queries for any number of runs."""
    analyses = {each.run_id: each for each in Analysis.objects.filter(run__in=runs)}
    nodes: dict[UUID, list[Node]] = defaultdict(list)
    found = Node.objects.filter(attempt__run__in=runs).select_related("attempt")
    for node in found.prefetch_related("sessions").order_by("number"):
        nodes[node.attempt.run_id].append(node)
    return {run.pk: _completeness(run, nodes[run.pk], analyses.get(run.pk)) for run in runs}


def _completeness(run: Run, nodes: list[Node], analysis: Analysis | None) -> Completeness:
    silent = timezone.now() - run.last_received_at
    is_heard = silent <= timedelta(seconds=settings.LOST_AFTER_SECONDS)
    if run.state == Run.LOST:
        since = f"{run.last_received_at:%Y-%m-%d %H:%M} UTC"
        return Completeness(tuple(f"{name} sent nothing since {since}" for name in _open(nodes)))
    if run.state == Run.RUNNING:
        because = tuple(f"{name} hasn't reported its end" for name in _open(nodes))
        return Completeness(because, may_complete=True)
    missing = _missing(run, nodes)
    if missing:
        return Completeness(missing, may_complete=is_heard)
    return _analysed(analysis)


def _analysed(analysis: Analysis | None) -> Completeness:
    if analysis is not None and analysis.given_up_at is not None:
        return Completeness((f"its analysis failed: {analysis.error.rstrip('.')}",))
    if analysis is None or not analysis.is_final or analysis.done < analysis.wanted:
        return Completeness(("its analysis isn't final yet",), may_complete=True)
    return Completeness()


def _missing(run: Run, nodes: list[Node]) -> tuple[str, ...]:
    """Return what is missing of a run whose known nodes have ended."""
    uploads = run.summary.missing_segments or 0
    late = (
        (f"{uploads} upload{'s' if uploads != 1 else ''} of it didn't arrive",) if uploads else ()
    )
    if not any(node.sessions.all() for node in nodes):
        return late
    names = names_of(nodes)
    unheard = [names[node.key] for node in _deciding(nodes) if not node.sessions.all()]
    return *(f"{name} was declared and has sent nothing" for name in unheard), *late


def _open(nodes: list[Node]) -> list[str]:
    """Return the nodes that have not reported their end; never empty."""
    names, each = names_of(nodes), [(node, _last(node)) for node in _deciding(nodes)]
    named = [names[node.key] for node, last in each if last is None or last.ended_ms is None]
    return named or ["its agent"]


def _deciding(nodes: list[Node]) -> list[Node]:
    """Return the nodes of the last attempt that has sent anything, and of attempts after it."""
    sent = [node.attempt.number for node in nodes if node.sessions.all()]
    return [node for node in nodes if node.attempt.number >= max(sent, default=0)]


def _last(node: Node) -> Session | None:
    return max(node.sessions.all(), key=lambda session: session.started_at, default=None)
