"""What the advisor checked about a run, beside what it recommends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from advisor.advice.buying import not_considered
from advisor.advice.checked import Checked, checked
from advisor.advice.instance_type import KIND as CHANGE_INSTANCE_TYPE
from advisor.sizing.demand import missing_for_demand
from rules.engine import Judgement as RuleJudgement
from rules.registry import all_rules
from rules.rule import Numbers, State, Verdict
from webapp.advice.models import Recommendation
from webapp.analysis.models import Judgement
from webapp.analysis.pricing import price_key
from webapp.runs.history import facts
from webapp.runs.models import Node, Run


def checked_of(
    run: Run,
    nodes: Sequence[Node],
    judged: Iterable[Judgement],
    advised: Iterable[Recommendation],
) -> list[Checked]:
    """Nothing before a run that finished is analysed as a whole, and for a probe."""
    known = [plain(row) for row in judged if row.rule in all_rules() and not row.is_provisional]
    if run.state != Run.FINISHED or run.is_probe or not known:
        return []
    missing = missing_for_demand([facts(node) for node in nodes], run.summary)
    is_machine_advised = any(row.kind == CHANGE_INSTANCE_TYPE for row in advised)
    return checked(known, missing, is_machine_advised, _not_considered(run, nodes))


def _not_considered(run: Run, nodes: Sequence[Node]) -> list[str]:
    if not nodes:
        return []
    allowed = run.workspace
    return not_considered(price_key(nodes[0]), allowed.may_buy, bool(allowed.other_regions))


def plain(row: Judgement) -> RuleJudgement:
    verdict = Verdict(cast("State", row.state), row.summary)
    numbers = Numbers.from_document(row.numbers)
    return RuleJudgement(row.rule, row.rule_version, row.values, numbers, verdict)
