"""The advisor's checks of a run, beside what it recommends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

from advisor.advice.buying import not_considered
from advisor.advice.checked import CheckedLine, checked_lines, conclusion, findings_of
from advisor.advice.inputs import Input, KnownPrices, machine_inputs
from advisor.advice.instance_type import KIND as CHANGE_INSTANCE_TYPE
from advisor.pricing.catalogue import catalogue
from advisor.waste_words import describe_large_waste
from rules.engine import Judgement as RuleJudgement
from rules.registry import all_rules
from rules.rule import Numbers, State, Verdict
from webapp.advice.models import Recommendation
from webapp.analysis.models import Judgement
from webapp.analysis.pricing.machine_uses import price_key
from webapp.analysis.selectors.ledger import LedgerView
from webapp.prices import scope as prices
from webapp.prices.machines import catalogue_in
from webapp.runs.history import facts
from webapp.runs.models import Node, Run


@dataclass(frozen=True)
class ChecksOfRun:
    """The checks of a run, what they rest on, and what they come to."""

    lines: list[CheckedLine] = field(default_factory=list)
    inputs: list[Input] = field(default_factory=list)
    """The inputs behind a statement about other machines; empty if nothing is stated."""

    findings: list[str] = field(default_factory=list)
    """The titles of the rules that fired."""

    waste: str = ""
    """A clause about large waste; empty: there is none."""

    @property
    def conclusion(self) -> str:
        return conclusion(self.lines, self.inputs, self.findings, self.waste)


def checked_of(
    run: Run,
    nodes: Sequence[Node],
    judged: Iterable[Judgement],
    advised: Iterable[Recommendation],
    ledger: LedgerView | None,
) -> ChecksOfRun:
    """Return the checks; none before a run that finished is analysed as a whole, and for a
    probe.
    """
    known = [
        judgement_from_row(row)
        for row in judged
        if row.rule in all_rules() and not row.is_provisional
    ]
    if run.state != Run.FINISHED or run.is_probe or not known:
        return ChecksOfRun()
    inputs = _inputs(run, nodes, known)
    is_machine_advised = any(row.kind == CHANGE_INSTANCE_TYPE for row in advised)
    lines = checked_lines(known, inputs, is_machine_advised, _not_considered(run, nodes))
    waste = describe_large_waste(ledger.parts) if ledger else ""
    return ChecksOfRun(lines, inputs, findings_of(known), waste)


def _inputs(run: Run, nodes: Sequence[Node], judged: Sequence[RuleJudgement]) -> list[Input]:
    machines = [facts(node) for node in nodes]
    has_price = run.cost_usd is not None
    seconds = run.duration.total_seconds() if run.duration else 0.0
    if not nodes:
        return machine_inputs([], run.summary, seconds, judged, KnownPrices(has_price, False), {})
    key = price_key(nodes[0])
    priced = KnownPrices(has_price, has_price and prices.has_others(run.workspace, key))
    is_bundled = key.instance_type in catalogue()
    types = catalogue() if is_bundled else catalogue_in(key.region, key.provider)
    return machine_inputs(machines, run.summary, seconds, judged, priced, types)


def _not_considered(run: Run, nodes: Sequence[Node]) -> list[str]:
    if not nodes:
        return []
    allowed = run.workspace
    return not_considered(price_key(nodes[0]), allowed.may_buy, bool(allowed.other_regions))


def judgement_from_row(row: Judgement) -> RuleJudgement:
    verdict = Verdict(cast("State", row.state), row.summary)
    numbers = Numbers.from_document(row.numbers)
    return RuleJudgement(row.rule, row.rule_version, row.values, numbers, verdict)
