"""The summary of an analysed run, for lists and headlines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from advisor.comparison.startup import growing_seconds
from advisor.costing.billing import notes_of
from advisor.costing.cost import cost_of_run, merge_intervals
from advisor.costing.notes import notes
from advisor.costing.phases import usd_by_phase
from advisor.costing.projection import Projection, projection
from advisor.probing.loop_speed import VERSION as SPEED_VERSION
from advisor.run_summary import RunSummary
from advisor.sizing.doubt import price_doubts
from rules.ledger import VERSION as LEDGER_VERSION
from webapp.analysis.outcome import Outcome, SampleResults
from webapp.analysis.pricing import machine_uses
from webapp.runs.history import facts
from webapp.runs.models import Node, Run


def with_figures(summary: RunSummary, measured: SampleResults) -> RunSummary:
    """Return the summary with the figures from the samples."""
    figures = measured.figures
    return replace(
        summary,
        steps=figures.steps,
        step_seconds_p50=figures.step_seconds_p50,
        data_wait_share=figures.data_wait_share,
        cpu_busy_p95_pct=figures.cpu_busy_p95_pct,
        cores_busy_p95=figures.cores_busy_p95,
        starved_share=figures.starved_share,
        memory_p99_bytes=figures.memory_p99_bytes,
        disk_bytes_per_second_p95=figures.disk_bytes_per_second_p95,
        network_bytes_per_second_p95=figures.network_bytes_per_second_p95,
        gpu_busy_p95_pct=figures.gpu_busy_p95_pct,
        phase_seconds=figures.phase_seconds,
        troubles=figures.troubles,
        model_flops=figures.model_flops,
        unreadable=len(measured.unreadable),
        unsampled_seconds=measured.unsampled_seconds,
        too_large=measured.too_large,
        lost_steps=measured.steps.lost_count if measured.steps else None,
        is_lost_unknown=measured.steps is not None and measured.steps.is_lost_unknown,
        ledger_version=LEDGER_VERSION,
        speed_version=SPEED_VERSION,
    )


def with_prices(run: Run, outcome: Outcome, missing_segments: int) -> RunSummary:
    """Return the run's summary with its machines and prices, and how many of its segments are
    missing.
    """
    parts = outcome.cost.parts
    rows = [row for part in parts for row in part.price_rows]
    return replace(
        run.summary,
        usd_per_hour=_usd_per_hour(outcome),
        basis="list" if all(row.is_list for row in rows) else "your rate",
        list_usd=_list_usd(outcome),
        phase_usd=_phase_usd(run.summary.phase_seconds, outcome),
        electricity=outcome.cost.electricity,
        projected=_projected(run, outcome),
        is_at_least=any(machine_uses.billing_of(node).is_at_least for node in outcome.nodes),
        cost_notes=[
            *notes_of(machine_uses.billing_of(node) for node in outcome.nodes),
            *notes(outcome.uses, _own_shares(outcome), parts),
            *price_doubts([facts(node) for node in outcome.nodes]),
        ],
        price_source=", ".join(sorted({row.source for row in rows})),
        is_later_price=any(part.later_price for part in parts),
        is_estimated=any(part.estimated for part in parts),
        missing=_missing(outcome),
        node_count=len(outcome.nodes),
        machine_seconds=_machine_seconds(outcome),
        instance_types=sorted({node.instance_type for node in outcome.nodes} - {""}),
        missing_segments=missing_segments,
    )


def _phase_usd(phase_seconds: Mapping[str, float], outcome: Outcome) -> dict[str, Decimal]:
    """Return the cost of each phase; empty without a price, or phases."""
    total, length = outcome.cost.total_usd, outcome.run.duration
    if total is None or length is None or not phase_seconds:
        return {}
    return usd_by_phase(total, phase_seconds, length.total_seconds())


def _own_shares(outcome: Outcome) -> dict[str, Fraction]:
    return {node.key: machine_uses.share(node) for node in outcome.nodes}


def _projected(run: Run, outcome: Outcome) -> Projection | None:
    """Return the projected cost of a running run, if its total amount of work is known."""
    total, length = outcome.cost.total_usd, outcome.run.duration
    if outcome.run.has_ended or total is None or length is None:
        return None
    seconds = length.total_seconds()
    growing = growing_seconds(run.summary.phase_seconds, seconds) or 0.0
    return projection(total, seconds, growing, run.work, run.parameters)


def _missing(outcome: Outcome) -> list[str]:
    """Return why there is no price, node by node."""
    unpriced = [node for node in outcome.nodes if node.key in outcome.cost.missing]
    return [f"{node}: {_why_unpriced(node)}" for node in unpriced]


def _why_unpriced(node: Node) -> str:
    if not node.instance_type:
        return "its machine type is unknown, and none of your own rates fits it"
    option = node.purchase_option.replace("_", "-")
    where = node.region or "a region that was not declared"
    return f"no {option} price of {node.instance_type} in {where}"


def _machine_seconds(outcome: Outcome) -> float:
    """Return the machines' seconds by the clock: neither the share of a machine nor a provider's
    minimum changes them.
    """
    held = (
        merge_intervals(session.interval for session in node.sessions.all())
        for node in outcome.nodes
    )
    return sum((end - start).total_seconds() for spans in held for start, end in spans)


def _usd_per_hour(outcome: Outcome) -> Decimal | None:
    """Return the price of one node at the start of the run, if all nodes are alike."""
    kinds = {(machine_uses.price_key(node), machine_uses.units(node)) for node in outcome.nodes}
    if len(kinds) != 1 or outcome.run.started_at is None:
        return None
    key, units = kinds.pop()
    priced = outcome.book.price_at(key, outcome.run.started_at)
    return None if priced is None else priced.row.usd_per_hour * units


def _list_usd(outcome: Outcome) -> Decimal | None:
    """Return the run's cost before discounts and own rates; None without a list price."""
    if outcome.book.has_own_rates:
        return cost_of_run(outcome.uses, outcome.book.at_list()).total_usd
    return outcome.cost.total_usd
