"""Analyses one run: reads rows and samples, and returns an outcome to save."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from django.conf import settings

from advisor.comparison.job_metrics import JobMetrics, from_document
from advisor.costing.cost import cost_of_run
from advisor.costing.electricity import DayEnergy
from advisor.costing.measured_energy import measured_energy
from advisor.figures import figures
from advisor.probing.loop_speed import ProbePlan, loop_speed
from advisor.store.columns import ColumnStore
from advisor.store.frames import load_frame
from advisor.store.index import NodeHistory
from advisor.store.opening import open_store
from advisor.store.resolution import FINEST_MS, resolution_seconds
from advisor.store.room import RoomExceededError
from advisor.store.stretches import stored_seconds
from rules import engine
from rules.checkpoints import checkpoint_files
from rules.frame import RunFrame
from rules.ledger import WasteLedger, ledger
from rules.lives import lives
from rules.lost_steps import run_steps
from rules.rule import Values
from rules.slowdown import blocks_of
from webapp.analysis import hooks, queue
from webapp.analysis.judging import window_rules
from webapp.analysis.outcome import Outcome, SampleResults
from webapp.analysis.pricing import sharing
from webapp.analysis.samples.column_chunks import ColumnChunks
from webapp.analysis.trainings import numbered_steps
from webapp.background import claims
from webapp.prices.book import price_book
from webapp.runs import progress
from webapp.runs.history import node_history, with_sessions
from webapp.runs.models import Node, Run, Segment, Session
from webapp.runs.node_names import names_of
from webapp.thresholds.values import values_of

RENEWED_EVERY_SECONDS = 5
MOST_NODE_DAYS = 50_000
"""Four months of 400 nodes."""


def evaluate(held: queue.AnalysisClaim) -> Outcome:
    """Analyse a run as far as it has arrived. Writes nothing but the lease and what the next
    analysis of a running run carries on from."""
    run = held.row.run
    outcome = price_run(run)
    if run.raw_deleted_at is None:
        outcome = _measured(held, run, outcome)
    return replace(outcome, follow_ups=hooks.follow_ups(outcome))


def price_run(run: Run) -> Outcome:
    """Return what a run costs as far as it has arrived. Its samples are not read.

    Raises TooLargeError.
    """
    nodes = with_sessions(run)
    sessions = [session for node in nodes for session in node.sessions.all()]
    progress.derive_state(run, sessions)
    _check_days(sessions)
    book = price_book(run.workspace, {node.region for node in nodes})
    uses = sharing.uses(run, nodes)
    is_final = run.has_ended and progress.count_missing_segments(sessions) == 0
    return Outcome(run, nodes, is_final, uses, cost_of_run(uses, book), book, measured=None)


def _check_days(sessions: Sequence[Session]) -> None:
    """Check the number of days, before a row is made for the cost of each."""
    held = [session.interval for session in sessions]
    if sum((end - start).days + 1 for start, end in held) > MOST_NODE_DAYS:
        raise RoomExceededError(f"more than {MOST_NODE_DAYS:,} days of all nodes together")


def _measured(held: queue.AnalysisClaim, run: Run, priced: Outcome) -> Outcome:
    """Return the outcome with the results from the samples, and with the energy in its cost."""
    values = values_of(run.workspace, run.job)
    carried, alive = ColumnChunks(run, priced.nodes), _Pulse(held)
    try:
        frame, unreadable = frame_of(
            run, priced.nodes, run.started_at, priced.is_final, alive, carried
        )
    except RoomExceededError as error:
        return replace(priced, measured=_too_large(str(error), values))
    finally:
        carried.replace_unused()
    alive()
    frame = replace(frame, other_steps=tuple(numbered_steps.steps_of_others(run)))
    energy = measured_energy(frame, run.started_at) if run.started_at else {}
    outcome = _with_energy(priced, energy)
    total = outcome.cost.total_usd
    run_usd = None if total is None else float(total)
    names = names_of(priced.nodes)
    judged = engine.evaluate(frame, values, run_usd=run_usd)
    judgements = [each.with_node_names(names) for each in judged]
    steps = run_steps(frame)
    waste = ledger(frame, values)
    alive()
    metrics = JobMetrics(from_document(run.job.metrics), {})
    found = figures(frame, metrics.less_is_better, steps, waste)
    speed = loop_speed(frame, ProbePlan(**run.probe) if run.probe else None)
    alive()
    measured = SampleResults(
        judgements,
        waste,
        found,
        unreadable,
        frame.unsampled_seconds,
        speed=speed,
        steps=steps,
        blocks=tuple(blocks_of(frame, steps.lost_seconds())),
        checkpoint_files=tuple(f for node in frame.nodes.values() for f in checkpoint_files(node)),
        lives=tuple(lives(frame)),
        energy=energy,
        quiet_until=run.started_at and window_rules.quiet_until(frame, values, run.started_at),
    )
    return replace(outcome, measured=measured)


def _with_energy(priced: Outcome, energy: Mapping[str, tuple[DayEnergy, ...]]) -> Outcome:
    """Return the outcome at the cost of what was measured now, instead of what was known before."""
    uses = [replace(use, energy=energy.get(use.node_key, ())) for use in priced.uses]
    return replace(priced, uses=uses, cost=cost_of_run(uses, priced.book))


def _too_large(reason: str, values: Mapping[str, Values]) -> SampleResults:
    """Return results in which every rule says that the run is too large; its time is unclassified,
    and its figures are unknown.
    """
    nothing = figures(RunFrame(1.0, 0.0, final=False))
    return SampleResults(
        engine.too_large(reason, values), WasteLedger(()), nothing, (), 0.0, reason
    )


class _Pulse:
    """Renews the lease now and then: reading and judging a run may take longer than the lease."""

    def __init__(self, held: queue.AnalysisClaim) -> None:
        self._held = held
        self._next = time.monotonic() + RENEWED_EVERY_SECONDS

    def __call__(self) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + RENEWED_EVERY_SECONDS
            claims.renew(self._held)


def frame_of(
    run: Run,
    nodes: Sequence[Node],
    since: datetime | None,
    is_final: bool,
    alive: Callable[[], object] = lambda: None,
    carried: ColumnStore | None = None,
) -> tuple[RunFrame, tuple[str, ...]]:
    """Return the run from `since` to where it has come, and the objects that couldn't be read.

    Raises TooLargeError.
    """
    if since is None or run.ended_at is None:
        return RunFrame(1.0, 0.0, final=False), ()
    store = open_store(settings.OBJECTS_URL)
    histories = [node_history(node) for node in nodes]
    sampled_ms, length = _sampled_ms(run, histories), stored_seconds(histories, since, run.ended_at)
    resolution = resolution_seconds(sampled_ms, length)
    return load_frame(store, histories, since, run.ended_at, resolution, is_final, alive, carried)


def _sampled_ms(run: Run, histories: Sequence[NodeHistory]) -> int:
    """Return the finest time between the run's samples. Compacted samples matter only if the others
    are coarser than any grid.
    """
    refs = (ref for each in histories for ref in each.segments if ref.resolution_ms)
    hot = min((ref.resolution_ms for ref in refs), default=None)
    if hot is not None and hot <= FINEST_MS:
        return hot
    sampled = Segment.objects.filter(session__node__attempt__run=run)
    finest = sampled.order_by("resolution_ms").values_list("resolution_ms", flat=True).first()
    return finest or FINEST_MS
