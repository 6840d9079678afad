"""What was checked and found well, and what couldn't be checked: the rest beside the advice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from advisor.advice.recommendation import RuleJudgement
from rules.category import OVERVIEW
from rules.registry import all_rules

MACHINE_SIZE, BUYING = "Machine size", "Ways to buy"


@dataclass(frozen=True)
class Checked:
    """One line. `is_known`: False says what is missing to check it."""

    name: str
    found: str
    is_known: bool


def checked(
    judgements: Sequence[RuleJudgement],
    missing_for_demand: Sequence[str],
    is_machine_advised: bool = False,
    not_considered: Sequence[str] = (),
) -> list[Checked]:
    """Every rule that passed, those that lack data, the size of the machine, and how it is bought.

    Args:
        missing_for_demand: see `sizing.demand.missing_for_demand`.
        is_machine_advised: another machine is recommended, so that its size isn't right.
        not_considered: ways to buy that the workspace doesn't allow, in words.
    """
    shown = [j for j in judgements if all_rules()[j.rule_id].category != OVERVIEW]
    passed = [_line(j, is_known=True) for j in shown if j.verdict.state == "passed"]
    unknown = [_line(j, is_known=False) for j in shown if j.verdict.state == "insufficient_data"]
    size = _machine_size(missing_for_demand, is_machine_advised)
    return [*passed, *unknown, *size, *_buying(not_considered)]


def _line(judged: RuleJudgement, is_known: bool) -> Checked:
    return Checked(all_rules()[judged.rule_id].title, judged.verdict.summary, is_known)


def _machine_size(missing: Sequence[str], is_machine_advised: bool) -> list[Checked]:
    if missing:
        return [Checked(MACHINE_SIZE, f"Missing: {' '.join(missing)}", is_known=False)]
    if is_machine_advised:
        return []
    return [Checked(MACHINE_SIZE, "No machine that fits the run costs clearly less.", True)]


def _buying(not_considered: Sequence[str]) -> list[Checked]:
    if not not_considered:
        return []
    found = f"Not considered: {', '.join(not_considered)}. Owners allow them in Settings, Advice."
    return [Checked(BUYING, found, is_known=False)]
