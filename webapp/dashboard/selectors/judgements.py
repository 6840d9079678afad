"""Rule judgements, as the pages list them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from uuid import UUID

from django.db.models import Count

from rules.node_names import nodes_named_in
from rules.registry import title_of
from webapp.analysis.models import Judgement
from webapp.runs.models import Node, Run
from webapp.runs.node_names import names_of

STATES = (
    Judgement.FIRED,
    Judgement.INSUFFICIENT,
    Judgement.PASSED,
    Judgement.NOT_APPLICABLE,
)
SEVERITIES = ("high", "medium", "low")


@dataclass(frozen=True)
class RuleLine:
    """One rule's judgement with the rule's title."""

    row: Judgement
    title: str
    explained: list[RuleLine] = field(default_factory=list)
    """The findings that this one explains; shown folded."""

    @property
    def state_words(self) -> str:
        return str(self.row.state).replace("_", " ").capitalize()

    @property
    def windows(self) -> list[list[object]]:
        """Start and end in seconds since the run's start, and the node."""
        return list(self.row.numbers.get("windows", []))


def in_state(lines: Iterable[RuleLine], state: str) -> list[RuleLine]:
    return [line for line in lines if line.row.state == state]


def rule_lines(run: Run) -> list[RuleLine]:
    """Return the rules, fired ones first, the most expensive of them first, each with what it
    explains.
    """
    every = [RuleLine(row, title_of(row.rule)) for row in Judgement.objects.filter(run=run)]
    every.sort(key=_weight)
    by_rule = {line.row.rule: line for line in every}
    for line in every:
        if line.row.explained_by in by_rule:
            by_rule[line.row.explained_by].explained.append(line)
    return [line for line in every if line.row.explained_by not in by_rule]


def nodes_named_by(lines: Iterable[RuleLine], nodes: Sequence[Node]) -> dict[str, list[str]]:
    """Return the titles of the findings that name some of the nodes in their sentences, by the
    node's key. A finding that names all of them tells none apart.
    """
    names, found = names_of(nodes), defaultdict(list)
    for line in lines:
        named = nodes_named_in((line.row.summary, line.row.advice), names)
        for key in named if len(named) < len(names) else ():
            found[key].append(line.title)
    return dict(found)


def windows_of_node(line: RuleLine, key: str) -> list[list[object]]:
    """Return the finding's windows on the node with this key, and on all nodes."""
    return [each for each in line.windows if str(each[2]).partition("/")[0] in (key, "")]


def fired_lines(run: Run) -> list[RuleLine]:
    """Return all findings of a run, in no order."""
    rows = Judgement.objects.filter(run=run, state=Judgement.FIRED)
    return [RuleLine(row, title_of(row.rule)) for row in rows]


def finding_counts(runs: Iterable[Run]) -> Counter[UUID]:
    """Return the number of causes that rules found, per run."""
    fired = Judgement.objects.filter(
        run__in=[run.pk for run in runs], state=Judgement.FIRED, explained_by=""
    )
    return Counter(dict(fired.order_by().values_list("run").annotate(Count("pk"))))


def _weight(line: RuleLine) -> tuple[int, Decimal, float, int, str]:
    state, severity = line.row.state, line.row.severity
    usd, seconds = line.row.weight
    return (
        STATES.index(state) if state in STATES else len(STATES),
        -usd,
        -seconds,
        SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES),
        line.row.rule,
    )
