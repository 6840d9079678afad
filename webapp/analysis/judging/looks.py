"""Looks: quick checks of a running run's last minutes, for whether a whole analysis is needed.

A look costs the same for runs of any length and reads only what has arrived since the one before.
So each upload triggers one, unless the rules can tell from what they have seen that nothing can
happen before a certain time. It judges the rules that can be judged on a window; the others are
judged on the whole run, each time it has grown. A look's verdicts are not kept: only those on the
whole run count.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from advisor.store.room import RoomExceededError
from rules import engine
from rules.frame import RunFrame
from webapp.analysis import queue
from webapp.analysis.judging import stopping, tails, window_rules
from webapp.analysis.judging.evaluation import frame_of
from webapp.analysis.models import Judgement
from webapp.runs import progress
from webapp.runs.history import with_sessions
from webapp.runs.models import Node, Run
from webapp.thresholds.values import values_of

SHARE = 0.1
"""The share of time that whole analyses may take if looks call for them for the same reason
again."""
TOO_LARGE = "too_large"
"""The name that replaces a rule's: the run has become too large to judge."""


@dataclass(frozen=True)
class LookResult:
    """Result of a look."""

    calls_for: frozenset[str] = frozenset()
    """The rules for which the look calls for a whole analysis; empty if it doesn't."""
    quiet_until: datetime | None = None
    """The time before which no window rule finds anything; None if one may with the next upload."""


def look(held: queue.AnalysisClaim) -> LookResult:
    """Judge the window rules on a run's last minutes."""
    run = held.row.run
    nodes = with_sessions(run)
    progress.derive_state(run, [session for node in nodes for session in node.sessions.all()])
    if run.ended_at is None or run.raw_deleted_at is not None:
        return LookResult()
    values = values_of(run.workspace, run.job)
    lengths = window_rules.window_rules(values)
    try:
        frame, since = _frame(run, nodes, max(lengths.values(), default=timedelta()))
    except RoomExceededError:
        return LookResult() if run.summary.too_large else LookResult(_calls_for(held, {TOO_LARGE}))
    judgements = engine.evaluate(frame, values, lengths)
    fired = {judged.rule_id for judged in judgements if judged.verdict.state == Judgement.FIRED}
    stops = {each.rule_id for each in judgements if stopping.is_due(run, nodes, each, since)}
    news = _new(run, fired) | stops
    calls_for = _calls_for(held, news)
    if news and not calls_for:
        return LookResult()
    return LookResult(calls_for, window_rules.quiet_until(frame, values, since))


def _new(run: Run, fired: Set[str]) -> Set[str]:
    """Return the rules that fire for the first time."""
    if not fired:
        return fired
    known = run.judgements.filter(rule__in=fired, state=Judgement.FIRED)
    return fired - set(known.values_list("rule", flat=True))


def _frame(run: Run, nodes: Sequence[Node], length: timedelta) -> tuple[RunFrame, datetime]:
    """Return the run's last minutes, and when they begin. Raises TooLargeError."""
    try:
        return tails.frame(run, nodes, length)
    except tails.NoTailError:
        since = run.began_at if run.ended_at is None else max(run.ended_at - length, run.began_at)
        return frame_of(run, nodes, since, is_final=False)[0], since


def _calls_for(held: queue.AnalysisClaim, news: Set[str]) -> frozenset[str]:
    """Return the rules for which to analyse the whole run now. Rules for which the last analyses
    were called wait for their share of the time: those analyses didn't find anything, or couldn't
    end it. Any other rule is analysed at once, however long those took.
    """
    last = held.row
    pause = timedelta(seconds=last.seconds / SHARE)
    if last.called_at is None or last.called_at + pause <= timezone.now():
        return frozenset(news)
    before = frozenset(last.called_for)
    return frozenset() if news <= before else before | news
