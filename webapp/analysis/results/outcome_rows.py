"""Writes the outcome of an analysis. Writing the same outcome twice leaves the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache
from typing import Any

from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone

from advisor.costing.charges import as_document
from advisor.costing.cost import CostPart as CostOfDay
from advisor.costing.electricity import as_document as as_energy_document
from advisor.costing.recoverable import RecoverablePart
from rules.engine import Judgement as RuleJudgement
from webapp.analysis.judging import stopping
from webapp.analysis.models import CostPart, Judgement, LedgerEntry
from webapp.analysis.outcome import Outcome, SampleResults
from webapp.analysis.pricing import machine_uses
from webapp.analysis.results import dividing, ledger_rows, lives, summaries
from webapp.analysis.results.judgement_rows import columns_of, columns_of_run, judged_by
from webapp.analysis.successive import verdicts
from webapp.analysis.trainings import checkpoint_rows, numbered_steps
from webapp.database import documents, prepared
from webapp.database.prepared import Models, PreparedStatement, Slot
from webapp.runs import progress, run_values
from webapp.runs.models import Node, Run

ROWS_AT_ONCE = 500
_COST_FIELDS = ["microseconds", "usd", "charges", "is_later_price", "is_estimated"]
_FIGURES = (
    "cost_usd",
    "work",
    "metrics",
    "metric_progress",
    "summary",
    "configuration",
    *progress.OF_SESSIONS,
)
"""The columns of a run that an analysis writes. The other columns, of which some are long, aren't
written again."""


def save(outcome: Outcome, run: Run) -> None:
    """Write judgements, cost, the run's figures and follow-ups. Call in a transaction.

    Args:
        run: what was analysed, locked with its job: verdicts on the job's other runs follow.
    """
    _save_cost(run, outcome)
    _save_figures(run, outcome)
    entries = ledger_rows.save(run, outcome)
    lives.save(run, outcome, entries)
    numbered_steps.save(run, outcome)
    checkpoint_rows.save(run, outcome)
    if outcome.is_final and run.state == Run.FINISHED:
        verdicts.judge_run(run)
    if outcome.measured is None:
        _judge_numbers_again(run)
    else:
        _save_judgements(run, outcome.measured.judgements, outcome, entries)
    for follow_up in outcome.follow_ups:
        follow_up(run)
    if outcome.measured is not None and outcome.run.started_at is not None:
        since = outcome.run.started_at
        stopping.ask(run, outcome.nodes, outcome.measured.judgements, since)


def _judge_numbers_again(run: Run) -> None:
    """Judge the run again at its new cost, by the numbers from when there were samples. Rules with
    another version since then keep their verdict; their claims are divided and priced again.
    """
    for row in run.judgements.all():
        judged = judged_by(row, {row.rule: row.values})
        if judged is not None:
            since = (row.first_fired_at or timezone.now()) if _fired(judged) else None
            columns = {**columns_of_run(judged, run.pk), "first_fired_at": since}
            Judgement.objects.filter(pk=row.pk).update(**columns)
    dividing.redivide_ledger(run)


def _save_judgements(
    run: Run,
    judged: Sequence[RuleJudgement],
    outcome: Outcome,
    entries: Sequence[LedgerEntry],
) -> None:
    """Write one row per rule. A rule that fires again fires since the first time."""
    since = {row.rule: row.first_fired_at for row in _fired_before(run=run.pk)}
    now = timezone.now()
    claims = {each.rule_id: each.verdict.claims for each in judged if _fired(each)}
    found = dividing.divide_claims(claims, entries, outcome.run)
    nothing = dividing.columns_of(RecoverablePart())
    rows = [
        Judgement(
            run=run,
            rule=each.rule_id,
            **columns_of(each),
            **found.get(each.rule_id, nothing),
            is_provisional=not outcome.is_final,
            first_fired_at=since.get(each.rule_id, now) if _fired(each) else None,
            judged_at=now,
        )
        for each in judged
    ]
    documents.save(rows, unique=("run", "rule"))


@Models
def _fired_before() -> QuerySet[Judgement]:
    own = Judgement.objects.filter(run=Slot("run", Run._meta.pk)).exclude(first_fired_at=None)
    return own.order_by().only("rule", "first_fired_at")


def _fired(judged: RuleJudgement) -> bool:
    return judged.verdict.state == Judgement.FIRED


def _save_cost(run: Run, outcome: Outcome) -> None:
    """Write one row per node and UTC day. Rows of days that are no longer part of the run are
    deleted.

    A long run has thousands of them, of which a new look at it changes few.
    """
    nodes = {node.key: node for node in outcome.nodes}
    parts = {(nodes[part.node_key].pk, part.day): part for part in outcome.cost.parts}
    known = {(row.node_id, row.day): row for row in _known_cost(run=run.pk)}
    gone = [row.pk for place, row in known.items() if place not in parts]
    for start in range(0, len(gone), ROWS_AT_ONCE):
        CostPart.objects.filter(pk__in=gone[start : start + ROWS_AT_ONCE]).delete()
    rows = [_cost_row(run, node_id, part) for (node_id, _), part in parts.items()]
    changed = [row for row in rows if _differs(row, known.get((row.node_id, row.day)))]
    CostPart.objects.bulk_create(
        changed,
        batch_size=ROWS_AT_ONCE,
        update_conflicts=True,
        unique_fields=["node", "day"],
        update_fields=_COST_FIELDS,
    )
    ids = {place: row.pk for place, row in known.items()}
    ids |= {(row.node_id, row.day): row.pk for row in changed}
    _save_prices(run, parts, ids, has_known=bool(known))
    run.cost_usd = outcome.cost.total_usd


@Models
def _known_cost() -> QuerySet[CostPart]:
    return CostPart.objects.filter(run=Slot("run", Run._meta.pk)).order_by()


def _cost_row(run: Run, node_id: int, part: CostOfDay) -> CostPart:
    return CostPart(
        run=run,
        node_id=node_id,
        day=part.day,
        microseconds=int(part.seconds * 1_000_000),
        usd=part.usd,
        charges=as_document(part.day, part.charges),
        is_later_price=part.later_price,
        is_estimated=part.estimated,
    )


def _differs(row: CostPart, known: CostPart | None) -> bool:
    return known is None or any(getattr(row, n) != getattr(known, n) for n in _COST_FIELDS)


def _save_prices(
    run: Run,
    parts: Mapping[tuple[int, date], CostOfDay],
    ids: Mapping[tuple[int, date], int],
    has_known: bool,
) -> None:
    """Write which price rows each part used.

    Args:
        ids: the rows of the parts.
        has_known: some part had a row before. Otherwise there is nothing that it used.
    """
    through: Any = CostPart.prices.through
    wanted = {
        (ids[place], price.id)
        for place, part in parts.items()
        for price in part.price_rows
        if price.id is not None
    }
    used = through.objects.filter(costpart__run=run) if has_known else through.objects.none()
    rows = used.values_list("costpart_id", "price_id", "pk")
    known = {(part_id, price_id): pk for part_id, price_id, pk in rows}
    gone = [pk for place, pk in known.items() if place not in wanted]
    for start in range(0, len(gone), ROWS_AT_ONCE):
        through.objects.filter(pk__in=gone[start : start + ROWS_AT_ONCE]).delete()
    new = [through(costpart_id=p, price_id=q) for p, q in sorted(wanted - known.keys())]
    through.objects.bulk_create(new, batch_size=ROWS_AT_ONCE)


def _save_figures(run: Run, outcome: Outcome) -> None:
    if outcome.measured is not None:
        run.work = outcome.measured.figures.work
        run.metrics = outcome.measured.figures.metrics
        run.metric_progress = outcome.measured.figures.metric_progress
        run.summary = summaries.with_figures(run.summary, outcome.measured)
        _save_energy(outcome.nodes, outcome.measured)
    run.configuration = _configuration(outcome)
    sessions = progress.read_sessions(run)
    run.summary = summaries.with_prices(run, outcome, progress.count_missing_segments(sessions))
    progress.derive_state(run, sessions)
    _writing(connection.vendor).execute(pk=run.pk, **{n: getattr(run, n) for n in _FIGURES})
    run_values.write_values([run])


@cache
def _writing(_vendor: str) -> PreparedStatement:
    """Return the statement that writes a run's figures."""
    columns = {field.name: field for field in Run._meta.concrete_fields}
    slots = {name: Slot(name, columns[name]) for name in _FIGURES}
    return prepared.update(Run.objects.filter(pk=Slot("pk", Run._meta.pk)), **slots)


def _save_energy(nodes: Sequence[Node], measured: SampleResults) -> None:
    """Write what changed of the energy of the nodes, which outlives the samples."""
    if measured.energy is None:
        return
    for node in nodes:
        energy = as_energy_document(measured.energy.get(node.key, ()))
        if energy != node.energy:
            Node.objects.filter(pk=node.pk).update(energy=energy)


def _configuration(outcome: Outcome) -> dict[str, Any]:
    """Return the configuration: machines and parameters, which can be tuned without changing the
    work.
    """
    nodes = outcome.nodes
    return {
        "instance_type": machine_uses.instance_types(nodes),
        "node_count": len(nodes),
        "purchase_option": ", ".join(sorted({node.purchase_option for node in nodes})),
        **outcome.run.parameters,
    }
