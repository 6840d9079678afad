"""Says why a judged run has no finding: good news only if it finished and wasted little."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from advisor.waste_words import describe_large_waste, describe_short_run
from rules.category import OVERVIEW
from rules.registry import all_rules
from webapp.analysis.models import Judgement
from webapp.analysis.selectors.ledger import LedgerView
from webapp.dashboard.selectors.judgements import RuleLine
from webapp.runs.models import Run

_ENDED = {Run.FAILED: "failed", Run.STOPPED: "was stopped", Run.LOST: "went silent"}


@dataclass(frozen=True)
class NoFinding:
    words: str
    is_good: bool = False


def no_finding(run: Run, ledger: LedgerView | None, judged: Iterable[RuleLine]) -> NoFinding:
    """Return what to say of a judged run in which no rule fired."""
    if short := _short_words(run, ledger, judged):
        return NoFinding(short)
    found = "No rule fired on this run"
    if run.state in _ENDED:
        found = f"No rule fired on what was recorded before the run {_ENDED[run.state]}"
    if waste := describe_large_waste(ledger.parts if ledger else []):
        return NoFinding(f"{found}, though {waste}.")
    return NoFinding(f"{found}.", is_good=run.state == Run.FINISHED)


def _short_words(run: Run, ledger: LedgerView | None, judged: Iterable[RuleLine]) -> str:
    if run.duration is None:
        return ""
    states = [line.row.state for line in judged if not _is_overview(line)]
    lacking = states.count(Judgement.INSUFFICIENT)
    applicable = len(states) - states.count(Judgement.NOT_APPLICABLE)
    parts, enough = ledger.parts if ledger else [], applicable - lacking
    return describe_short_run(parts, run.duration.total_seconds(), enough, applicable)


def _is_overview(line: RuleLine) -> bool:
    rule = all_rules().get(line.row.rule)
    return rule is not None and rule.category == OVERVIEW
