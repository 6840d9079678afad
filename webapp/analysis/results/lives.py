"""The rows of a run's lives: times from the rules, and dollars from the ledger's rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from advisor.costing.training import added_usd
from advisor.money import split_usd
from rules.ledger import OF_LIVES, LifeTime
from webapp.analysis.models import LedgerEntry, Life
from webapp.analysis.outcome import Outcome, SampleResults
from webapp.database import documents
from webapp.runs.models import Run

LOST = "lost"


@dataclass(frozen=True)
class _Priced:
    time: LifeTime
    usd: Decimal | None


def save(run: Run, outcome: Outcome, entries: Iterable[LedgerEntry]) -> None:
    """Replace the lives. Without samples the known ones are priced again. Call in a transaction
    that has the run locked.

    Args:
        entries: all of the run's ledger.
    """
    if outcome.measured is None:
        rows = list(Life.objects.filter(run=run))
        times = [LifeTime(node, of, row.number, us) for row in rows for node, of, us in row.times]
    else:
        rows = _rows(run, outcome, outcome.measured)
        times = list(outcome.measured.ledger.of_lives)
    of_life: dict[int, list[_Priced]] = defaultdict(list)
    for priced in _priced(entries, times):
        of_life[priced.time.life].append(priced)
    for row in rows:
        _set_amounts(row, of_life[row.number])
    Life.objects.filter(run=run).delete()
    documents.save(rows)


def _rows(run: Run, outcome: Outcome, measured: SampleResults) -> list[Life]:
    since = outcome.run.started_at
    if since is None or not outcome.nodes:
        return []
    nodes = {node.key: node for node in outcome.nodes}
    steps = measured.steps
    is_known = steps is not None and bool(steps.ranges) and not steps.is_lost_unknown
    return [
        Life(
            run=run,
            number=number,
            began_at=since + timedelta(seconds=life.began_seconds),
            ended_at=since + timedelta(seconds=life.ended_seconds),
            ending=life.ending,
            node=nodes.get(life.node) or outcome.nodes[-1],
            is_lost_known=is_known,
        )
        for number, life in enumerate(measured.lives)
    ]


def _set_amounts(row: Life, parts: Iterable[_Priced]) -> None:
    every = list(parts)
    lost = [each for each in every if each.time.label == LOST]
    start = [each for each in every if each.time.label != LOST]
    row.times = [[p.time.node, p.time.label, p.time.microseconds] for p in every]
    row.lost_us, row.start_us = (sum(p.time.microseconds for p in group) for group in (lost, start))
    row.lost_usd, row.start_usd = (added_usd(p.usd for p in group) for group in (lost, start))


def _priced(entries: Iterable[LedgerEntry], times: Iterable[LifeTime]) -> Iterable[_Priced]:
    """Yield each label's dollars on a node, split by time."""
    whole = _label_usd(entries)
    groups: dict[tuple[str, str], list[LifeTime]] = defaultdict(list)
    for time in times:
        groups[time.node, time.label].append(time)
    for key, group in groups.items():
        usd = whole.get(key)
        weights = {place: time.microseconds for place, time in enumerate(group)}
        parts = {} if usd is None else split_usd(usd, weights)
        for place, time in enumerate(group):
            yield _Priced(time, parts.get(place))


def _label_usd(entries: Iterable[LedgerEntry]) -> Mapping[tuple[str, str], Decimal | None]:
    """Return the dollars by node and label."""
    parts: dict[tuple[str, str], list[Decimal | None]] = defaultdict(list)
    for entry in entries:
        if entry.label in OF_LIVES:
            parts[entry.node.key, entry.label].append(entry.usd)
    return {place: added_usd(of_one) for place, of_one in parts.items()}
