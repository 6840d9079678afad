"""Analyses one run: reads rows and samples, and returns an outcome to save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from django.conf import settings

from advisor.costing.cost import cost_of_run
from advisor.figures import figures
from advisor.store.frames import load_frame
from advisor.store.opening import open_store
from advisor.store.resolution import resolution_seconds
from rules import engine
from rules.frame import RunFrame
from rules.ledger import ledger
from webapp.analysis import hooks, queue, sharing
from webapp.analysis.outcome import Measured, Outcome
from webapp.background import claims
from webapp.prices.book import price_book
from webapp.runs import progress
from webapp.runs.history import node_history
from webapp.runs.models import Node, Run, Segment
from webapp.thresholds.values import values_of


def evaluate(held: queue.Claim) -> Outcome:
    """Analyse a run as far as it has arrived. Writes nothing but the lease."""
    run = Run.objects.select_related("job", "workspace").get(pk=held.run_id)
    outcome = priced(run)
    if run.raw_deleted_at is not None:
        return outcome
    outcome = replace(outcome, measured=_measure(held, run, outcome.nodes))
    return replace(outcome, follow_ups=hooks.follow_ups(outcome))


def priced(run: Run) -> Outcome:
    """Price a run as far as it has arrived, without reading its samples."""
    progress.derive(run)
    nodes = list(Node.objects.filter(attempt__run=run).prefetch_related("sessions"))
    book = price_book(run.workspace, {node.region for node in nodes})
    uses = sharing.uses(run, nodes)
    return Outcome(run, nodes, _is_final(run), uses, cost_of_run(uses, book), book, measured=None)


def _measure(held: queue.Claim, run: Run, nodes: Sequence[Node]) -> Measured:
    frame, unreadable = frame_of(run, nodes, run.started_at, _is_final(run))
    claims.renew(held)
    values = values_of(run.workspace, run.job)
    judgements = engine.evaluate(frame, values)
    waste = ledger(frame, values)
    claims.renew(held)
    measured = figures(frame)
    claims.renew(held)
    return Measured(judgements, waste, measured, unreadable)


def _is_final(run: Run) -> bool:
    return run.has_ended and progress.missing_segments(run) == 0


def frame_of(
    run: Run, nodes: Sequence[Node], since: datetime | None, is_final: bool
) -> tuple[RunFrame, tuple[str, ...]]:
    """The run from `since` to its latest data, and the objects that couldn't be read."""
    if since is None or run.ended_at is None:
        return RunFrame(1.0, 0.0, final=False), ()
    store = open_store(settings.OBJECTS_URL)
    histories = [node_history(node) for node in nodes]
    resolution = _resolution_seconds(run, (run.ended_at - since).total_seconds())
    return load_frame(store, histories, since, run.ended_at, resolution, is_final)


def _resolution_seconds(run: Run, length_seconds: float) -> float:
    sampled = Segment.objects.filter(session__node__attempt__run=run)
    finest = sampled.order_by("resolution_ms").values_list("resolution_ms", flat=True).first()
    return resolution_seconds(finest or 1000, length_seconds)
