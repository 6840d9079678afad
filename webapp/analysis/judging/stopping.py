"""Requests the stop of a running run, if a rule may stop it and its owner allows that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from rules.engine import Judgement as RuleJudgement
from rules.registry import all_rules
from webapp.analysis.models import Judgement
from webapp.directives import issue
from webapp.directives.models import Directive
from webapp.runs.models import Node, Run

NOW = timedelta(seconds=6)
"""The time before the last sample within which evidence must end to hold still: samples are at most
5 s apart."""


def ask(
    run: Run, nodes: Sequence[Node], judgements: Iterable[RuleJudgement], since: datetime
) -> None:
    """Ask the agents of a run to stop, once, for each rule that may stop it and still fires.

    Call in a transaction that has the run locked, with the judgements of the whole run.
    """
    for judged in judgements:
        if is_due(run, nodes, judged, since):
            issue.stop(run, judged.rule_id)


def is_due(run: Run, nodes: Sequence[Node], judged: RuleJudgement, since: datetime) -> bool:
    """Return whether a rule that may stop runs still fires, with certainty, and no agent was asked
    yet.

    Args:
        nodes: with their sessions as they were when the frame was read.
        since: when the judged frame began.
    """
    allows = all_rules()[judged.rule_id].may_stop and judged.verdict.may_stop
    if not allows or judged.verdict.state != Judgement.FIRED:
        return False
    attempt = run.attempts.last()
    if attempt is None:
        return False
    known_until = _known_until([node for node in nodes if node.attempt_id == attempt.pk])
    ends = [since + timedelta(seconds=w.end_seconds) for w in judged.numbers.windows]
    if known_until is None or not any(end >= known_until - NOW for end in ends):
        return False
    asked = Directive.objects.filter(attempt=attempt, rule=judged.rule_id)
    return issue.may_be_stopped(run) and not asked.exists()


def _known_until(nodes: Iterable[Node]) -> datetime | None:
    """Return the last moment that all running agents have reported; None if no agent is running."""
    going = [s for node in nodes for s in node.sessions.all() if s.ended_ms is None]
    return min((session.interval[1] for session in going), default=None)
