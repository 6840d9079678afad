"""The lines beside the advice: what was checked and found well, and what couldn't be checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from advisor.advice.inputs import Input, missing_words
from advisor.advice.recommendation import RuleJudgement
from rules.category import OVERVIEW
from rules.registry import all_rules
from rules.wording import sentence, write_count

MACHINE_SIZE, BUYING = "Machine size", "Ways to buy"


@dataclass(frozen=True)
class CheckedLine:
    """One line. `is_known`: False says what is missing to check it."""

    name: str
    found: str
    is_known: bool


def checked_lines(
    judgements: Sequence[RuleJudgement],
    inputs: Sequence[Input],
    is_machine_advised: bool = False,
    not_considered: Sequence[str] = (),
) -> list[CheckedLine]:
    """Return a line for every rule that passed, those that lack data, the size of the machine, and
    how it is bought.

    Args:
        inputs: what was known of the run's machine and of others.
        is_machine_advised: another machine is recommended, so that its size isn't right.
        not_considered: ways to buy that the workspace doesn't allow, in words.
    """
    shown = [j for j in judgements if all_rules()[j.rule_id].category != OVERVIEW]
    passed = [_line(j, is_known=True) for j in shown if j.verdict.state == "passed"]
    unknown = [_line(j, is_known=False) for j in shown if j.verdict.state == "insufficient_data"]
    size = _machine_size(inputs, is_machine_advised)
    return [*passed, *unknown, *size, *_buying(not_considered)]


def _line(judged: RuleJudgement, is_known: bool) -> CheckedLine:
    return CheckedLine(all_rules()[judged.rule_id].title, judged.verdict.summary, is_known)


def findings_of(judgements: Iterable[RuleJudgement]) -> list[str]:
    """Return the titles of the rules that fired."""
    return [all_rules()[j.rule_id].title for j in judgements if j.verdict.state == "fired"]


def conclusion(
    lines: Sequence[CheckedLine],
    inputs: Sequence[Input],
    findings: Sequence[str] = (),
    waste: str = "",
) -> str:
    """Say what may be said of a run for which nothing is advised, and what isn't judged.

    Args:
        findings: the titles of what was found, beside which "nothing to change" would be untrue.
        waste: a clause about large waste, beside which it would be untrue, too.
    """
    rules = [line for line in lines if line.name not in (MACHINE_SIZE, BUYING)]
    lacking = sum(not line.is_known for line in rules)
    found = "no finding of this run costs enough to act on"
    if findings:
        found = f"this run gives no advice on {_quoted(findings)} beyond what the finding says"
    if lacking:
        found += f", as far as {len(rules) - lacking} of {write_count(len(rules), 'rule')} had data"
    if waste:
        found += f", though {waste}"
    missing = missing_words(inputs).removeprefix("Not judged")
    if missing:
        return f"{sentence(found)}. Whether another machine pays is not judged{missing}"
    if waste or findings:
        return f"{sentence(found)}. No other machine pays."
    return f"Nothing to change: {found}, and no other machine pays."


def _quoted(titles: Sequence[str]) -> str:
    """Write the titles as a list: `"A"`, `"A" and "B"`, `"A", "B" and "C"`."""
    *before, last = [f'"{title}"' for title in titles]
    return f"{', '.join(before)} and {last}" if before else last


def _machine_size(inputs: Sequence[Input], is_machine_advised: bool) -> list[CheckedLine]:
    if is_machine_advised:
        return []
    if missing := missing_words(inputs):
        return [CheckedLine(MACHINE_SIZE, missing, is_known=False)]
    return [CheckedLine(MACHINE_SIZE, "No machine that fits the run costs clearly less.", True)]


def _buying(not_considered: Sequence[str]) -> list[CheckedLine]:
    if not not_considered:
        return []
    found = f"Not considered: {', '.join(not_considered)}. Owners allow them in Settings, Advice."
    return [CheckedLine(BUYING, found, is_known=False)]
