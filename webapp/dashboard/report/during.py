"""Finds the operators that ran during what rules found: step outliers, CPU and I/O bottlenecks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
from trimtab.wire import LIMITS

from advisor.importers.activity import union
from rules.intervals import covered_parts, merge_windows
from rules.rule import Window
from webapp.dashboard.report.figures import BarPart, parts
from webapp.dashboard.report.operators import DEVICES, PASSES
from webapp.dashboard.report.rules import RuleReport
from webapp.imports.selectors import ImportLine, times_of
from webapp.runs.models import Node

RULES = ("step_outlier", "cpu_bottleneck", "io_bottleneck")
LISTED = 10
_US = 1e6
NO_TRACE = "no trace was imported, so which operators ran is unknown."
TOO_OLD = (
    "the trace was imported before operators were kept with their times. Import the folder again."
)
NO_TIMES = "the trace doesn't say at what time its operators ran."
Spent = dict[tuple[str, str], float]
"""Category and name -> seconds."""
Spans = dict[str, np.ndarray]
"""Node -> starts and ends in seconds since the run's start, in order and apart."""


@dataclass(frozen=True)
class OperatorsDuring:
    """Operators in the stretches that a rule found. `trouble` says why none are known, or is
    empty.
    """

    rows: list[DuringRow] = field(default_factory=list)
    more: int = 0
    devices: list[BarPart] = field(default_factory=list)
    passes: list[BarPart] = field(default_factory=list)
    others: list[BarPart] = field(default_factory=list)
    """The other categories, such as communication. An operator of a pass also counts in its
    device, so the three aren't parts of one whole."""
    stretches: int = 0
    seconds: float = 0.0
    """The seconds of the stretches, of all nodes."""
    traced_seconds: float = 0.0
    """The seconds of the stretches in which any operator ran."""
    cell_seconds: float = 0.0
    """The width of a cell: times within a cell are known as its sum."""
    is_part: bool = False
    """True if other traces were imported without times."""
    trouble: str = ""


@dataclass(frozen=True)
class DuringRow:
    """Operator in the stretches. `share` is that of the time of all operators of its category
    during the stretches, and `whole_share` the same in the whole run.
    """

    category: str
    name: str
    seconds: float
    share: float
    whole_share: float


@dataclass(frozen=True)
class PlacedOperator:
    """One operator of a node with the cells in which it ran, in seconds since the run's start.

    Attributes:
        nodes: the keys of its machine, one for each attempt; empty: the run has no such machine.
    """

    nodes: tuple[str, ...]
    category: str
    name: str
    starts: np.ndarray
    cell_seconds: float
    spent: np.ndarray
    """Seconds in each cell; more than it lasts if several ran at once."""

    @property
    def ends(self) -> np.ndarray:
        return self.starts + self.cell_seconds

    def seconds_within(self, spans: np.ndarray) -> float:
        """Return its seconds in these spans: a cell that lies in one in part counts in part."""
        return float(self.spent @ covered_parts(self.starts, self.ends, spans)) / self.cell_seconds


def operators_by_rule(
    traced: Sequence[ImportLine],
    rules: Iterable[RuleReport],
    nodes: Sequence[Node],
    started_at: datetime | None,
) -> dict[str, OperatorsDuring]:
    """Return the operators by rule, without rules that weren't judged or found nothing."""
    found = {each.line.row.rule: each for each in rules if each.line.row.rule in RULES}
    chosen = {name: each for name, each in found.items() if each.is_judged and each.line.windows}
    if not chosen:
        return {}
    known = [line for line in traced if line.operations]
    times = times_of(known)
    documents = [document for document in times.values() if document is not None]
    placed = list(_placed(documents, nodes, started_at))
    trouble = _trouble(known, documents, placed)
    return {
        name: OperatorsDuring(trouble=trouble)
        if trouble
        else _during(placed, _spans(rule.line.windows), len(documents) < len(known))
        for name, rule in chosen.items()
    }


def _trouble(known: Sequence[ImportLine], documents: Sequence[Any], placed: Sequence[Any]) -> str:
    if not known:
        return NO_TRACE
    if not documents:
        return TOO_OLD
    return "" if placed else NO_TIMES


def _placed(
    documents: Iterable[Mapping[str, Any]], nodes: Sequence[Node], started_at: datetime | None
) -> Iterator[PlacedOperator]:
    """Yield the operators with their nodes. A trace of the only node belongs to it, however the
    trace calls it.
    """
    if started_at is None:
        return
    keys: dict[str, tuple[str, ...]] = defaultdict(tuple)
    for node in nodes:
        keys[node.hostname] += (node.key,)
    otherwise = (nodes[0].key,) if len(nodes) == 1 else ()
    since_us = round(started_at.timestamp() * _US)
    for document in documents:
        cell_us = document.get("cell_us", 0)
        for row in document.get("operators", ()):
            starts = np.array(row["cells"], dtype="float64") * cell_us
            yield PlacedOperator(
                keys.get(row["node"][: LIMITS.name_chars], otherwise),
                row["category"],
                row["name"],
                (starts + (row["start_us"] - since_us)) / _US,
                cell_us / _US,
                np.array(row["us"], dtype="float64") / _US,
            )


def _spans(windows: Iterable[Sequence[object]]) -> Spans:
    given = [Window(float(str(w[0])), float(str(w[1])), str(w[2])) for w in windows]
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for each in merge_windows(given):
        spans[each.entity].append((each.start_seconds, each.end_seconds))
    return {node: np.array(own) for node, own in spans.items()}


def _during(placed: Sequence[PlacedOperator], spans: Spans, is_part: bool) -> OperatorsDuring:
    inside: Spent = defaultdict(float)
    whole: Spent = defaultdict(float)
    for each in placed:
        key = each.category, each.name
        whole[key] += float(each.spent.sum())
        inside[key] += sum(each.seconds_within(spans[node]) for node in each.nodes if node in spans)
    seconds = sum(float(np.diff(own, axis=1).sum()) for own in spans.values())
    stretches = sum(map(len, spans.values()))
    if not sum(inside.values()) > 0:
        return OperatorsDuring(trouble=_uncovered(stretches))
    rows, spent = list(_rows(inside, whole)), _by_category(inside)
    others = sorted(spent.keys() - {*DEVICES, *PASSES}, key=lambda name: -spent[name])
    return OperatorsDuring(
        rows=rows[:LISTED],
        more=max(len(rows) - LISTED, 0),
        devices=_parts(spent, DEVICES),
        passes=_parts(spent, PASSES),
        others=_parts(spent, others),
        stretches=stretches,
        seconds=seconds,
        traced_seconds=sum(_traced(placed, node, own) for node, own in spans.items()),
        cell_seconds=max(each.cell_seconds for each in placed),
        is_part=is_part,
    )


def _traced(placed: Iterable[PlacedOperator], node: str, spans: np.ndarray) -> float:
    """Return the seconds of a node's spans in which any operator ran."""
    own = [(each.starts, each.ends) for each in placed if node in each.nodes]
    if not own:
        return 0.0
    starts, ends = union(*(np.concatenate(column) for column in zip(*own, strict=True)))
    return float(covered_parts(starts, ends, spans).sum())


def _uncovered(stretches: int) -> str:
    where = "the stretch" if stretches == 1 else f"any of the {stretches:,} stretches"
    return f"the imported traces have no operator in {where} that the rule found."


def _rows(inside: Spent, whole: Spent) -> Iterator[DuringRow]:
    """Yield the rows, those that took the most time first."""
    here, every = _by_category(inside), _by_category(whole)
    for (category, name), seconds in sorted(inside.items(), key=lambda item: -item[1]):
        if seconds > 0:
            share, whole_share = seconds / here[category], whole[category, name] / every[category]
            yield DuringRow(category, name, seconds, share, whole_share)


def _by_category(spent: Spent) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for (category, _), seconds in spent.items():
        found[category] += seconds
    return dict(found)


def _parts(seconds: Mapping[str, float], names: Iterable[str]) -> list[BarPart]:
    """Return the parts of these categories; empty unless there are two to compare."""
    known = {name: seconds[name] for name in names if seconds.get(name, 0.0) > 0}
    return parts(known, {name: name for name in known}) if len(known) > 1 else []
