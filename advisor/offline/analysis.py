"""Analyses a run of a folder as the service does: judgements, ledger, cost, recommendations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from trimtab.wire import NodeFacts

from advisor import machine
from advisor.advice.checked import CheckedLine, checked_lines, conclusion, findings_of
from advisor.advice.inputs import Input, KnownPrices, machine_inputs
from advisor.advice.instance_type import KIND as CHANGE_INSTANCE_TYPE
from advisor.advice.recommendation import Spending
from advisor.costing.billing import bill_use, notes_of
from advisor.costing.cost import NodeUse, RunCost, cost_of_run
from advisor.costing.notes import notes
from advisor.costing.recoverable import RecoverablePart, node_costs, recoverable_by_rule
from advisor.figures import Figures, figures
from advisor.money import split_usd
from advisor.offline.nodes import FAILED, FINISHED, RUNNING, STOPPED, Node, Timeline
from advisor.offline.reading import StoredRun
from advisor.pricing.book import PriceBook
from advisor.pricing.bundled import bundled_prices
from advisor.pricing.catalogue import catalogue
from advisor.recommend import AdvisedRun, Market, Recommendation, recommend
from advisor.sizing.demand import Preset, demand_of
from advisor.sizing.doubt import price_doubts
from advisor.store.frames import load_frame
from advisor.store.resolution import resolution_seconds
from advisor.store.stretches import stored_seconds
from advisor.waste_words import LedgerPart, describe_large_waste
from rules import engine
from rules.engine import Judgement
from rules.ledger import WasteLedger, ledger
from rules.lost_steps import run_steps

RECENT = timedelta(days=30)


@dataclass(frozen=True)
class OfflineLedgerLine:
    """A waste ledger label's part of the run, over all nodes and GPUs."""

    label: str
    node_seconds: float
    usd: Decimal | None
    """The amount in USD; None if a node has no price."""


@dataclass(frozen=True)
class OfflineReport:
    """All results for a run without a service."""

    run: StoredRun
    timeline: Timeline
    judgements: list[Judgement]
    recovered: dict[str, RecoverablePart]
    """The time and money that a fix of each finding gives back, by rule."""
    ledger: list[OfflineLedgerLine]
    figures: Figures
    cost: RunCost
    cost_notes: list[str]
    recommendations: list[Recommendation]
    inputs: list[Input]
    """The facts behind a statement about other machines; empty if nothing is stated."""

    @property
    def cost_is_at_least(self) -> bool:
        """The run hasn't ended, or its platform bills more than is known."""
        unknown = any(node.billing.is_at_least for node in self.timeline.nodes)
        return self.timeline.state == RUNNING or unknown

    @property
    def ledger_parts(self) -> list[LedgerPart]:
        """Return the labels' shares of the time, and their cost."""
        whole = sum(line.node_seconds for line in self.ledger)
        return [LedgerPart(e.label, e.node_seconds / whole, e.usd) for e in self.ledger]

    @property
    def checked(self) -> list[CheckedLine]:
        is_machine_advised = any(r.kind == CHANGE_INSTANCE_TYPE for r in self.recommendations)
        return (
            checked_lines(self.judgements, self.inputs, is_machine_advised) if self.inputs else []
        )

    @property
    def conclusion(self) -> str:
        """Say what may be said where nothing is recommended, and what isn't judged."""
        if not self.inputs:
            return f"Not judged: {_UNJUDGED[self.timeline.state]}."
        found = findings_of(self.judgements)
        return conclusion(self.checked, self.inputs, found, describe_large_waste(self.ledger_parts))


_UNJUDGED = {
    RUNNING: "the run hasn't ended",
    FAILED: "the run failed",
    STOPPED: "the run was stopped",
}


def analyse(run: StoredRun, stated: NodeFacts, preset: Preset, as_of: datetime) -> OfflineReport:
    """Return a run's report at bundled list prices.

    Args:
        stated: a person's values for every node; empty ones are as the agent declared them.
        as_of: the time whose prices and availability count for recommendations; aware.
    """
    return report_of(run, Timeline.from_run(run, stated), preset, as_of)


def report_of(run: StoredRun, timeline: Timeline, preset: Preset, as_of: datetime) -> OfflineReport:
    """Return the report of `analyse` for a run whose nodes are known already."""
    histories = [node.history for node in timeline.nodes]
    length = stored_seconds(histories, timeline.started_at, timeline.ended_at)
    frame, _ = load_frame(
        timeline.bodies,
        histories,
        timeline.started_at,
        timeline.ended_at,
        resolution_seconds(timeline.finest_ms, length),
        timeline.is_final,
    )
    uses = [_use(node) for node in timeline.nodes]
    book = PriceBook(bundled_prices())
    steps = run_steps(frame)
    cost, labelled = cost_of_run(uses, book), ledger(frame)
    measured = figures(frame, steps=steps, ledger=labelled)
    run_usd = None if cost.total_usd is None else float(cost.total_usd)
    judged = engine.evaluate(frame, {}, run_usd=run_usd)
    judgements = [each.with_node_names(timeline.node_names) for each in judged]
    seconds = timeline.duration_seconds
    recovered = recoverable_by_rule(judgements, labelled, seconds, node_costs(cost))
    return OfflineReport(
        run=run,
        timeline=timeline,
        judgements=judgements,
        recovered=recovered,
        ledger=_ledger_lines(labelled, cost),
        figures=measured,
        cost=cost,
        cost_notes=[
            *notes_of(node.billing for node in timeline.nodes),
            *notes(uses, {use.node_key: use.share for use in uses}, cost.parts),
            *price_doubts([node.facts for node in timeline.nodes]),
        ],
        recommendations=_recommendations(
            timeline, judgements, recovered, measured, cost, book, as_of, preset
        ),
        inputs=_inputs(timeline, judgements, measured, cost, book),
    )


def _use(node: Node) -> NodeUse:
    use = NodeUse(
        node_key=node.history.key,
        price_key=machine.price_key(node.facts),
        intervals=node.history.intervals,
        share=machine.share(node.facts),
        owns_machine=node.facts.owns_machine,
        units=machine.units(node.facts),
        machine_start=node.facts.machine_id,
    )
    return bill_use(use, node.billing)


def _ledger_lines(entries: WasteLedger, cost: RunCost) -> list[OfflineLedgerLine]:
    """Return the lines, the most expensive first. All GPUs of a node are held equally long, so time
    is the weight.
    """
    usd: dict[str, Decimal] = defaultdict(Decimal)
    for node in entries.nodes:
        whole = sum((part.usd for part in cost.parts if part.node_key == node), Decimal(0))
        mine = [entry for entry in entries.entries if entry.node == node]
        parts = split_usd(whole, {place: entry.microseconds for place, entry in enumerate(mine)})
        for place, part in parts.items():
            usd[mine[place].label] += part
    lines = [
        OfflineLedgerLine(label, seconds, None if cost.total_usd is None else usd[label])
        for label, seconds in entries.node_seconds().items()
    ]
    return sorted(lines, key=lambda line: (-(line.usd or 0), -line.node_seconds))


def _recommendations(
    timeline: Timeline,
    judgements: list[Judgement],
    recovered: dict[str, RecoverablePart],
    measured: Figures,
    cost: RunCost,
    book: PriceBook,
    as_of: datetime,
    preset: Preset,
) -> list[Recommendation]:
    """Return the recommendations; none for a run that failed or was stopped."""
    if timeline.state in (FAILED, STOPPED):
        return []
    is_recent = timeline.started_at >= as_of - RECENT
    nodes: Sequence[NodeFacts] = [node.facts for node in timeline.nodes]
    recent = (cost.total_usd,) if is_recent and cost.total_usd is not None else ()
    run = AdvisedRun(
        judgements,
        demand_of(nodes, measured, timeline.duration_seconds, timeline.started_at.date()),
        Spending(cost.total_usd, timeline.duration_seconds, recent),
        recovered=recovered,
    )
    return recommend(run, Market(book, catalogue(), as_of), preset=preset)


def _inputs(
    timeline: Timeline,
    judgements: list[Judgement],
    measured: Figures,
    cost: RunCost,
    book: PriceBook,
) -> list[Input]:
    if timeline.state != FINISHED:
        return []
    nodes = [node.facts for node in timeline.nodes]
    has_price = cost.total_usd is not None
    others = set(book.instance_types(machine.price_key(nodes[0]))) if nodes else set()
    has_others = has_price and bool(others - {nodes[0].instance_type})
    priced = KnownPrices(has_price, has_others)
    return machine_inputs(
        nodes, measured, timeline.duration_seconds, judgements, priced, catalogue()
    )
