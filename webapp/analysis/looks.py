"""Looks: quick checks of a running run's last minutes, for whether a whole analysis is needed.

A look costs the same for runs of any length and reads only what has arrived since the one before.
So each upload triggers one, unless the rules can tell from what they have seen that nothing can
happen before a certain time. It judges the rules that can be judged on a window; the others are
judged on the whole run, each time it has grown. A look's verdicts are not kept: only those on the
whole run count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from advisor.store.room import TooLargeError
from rules import engine
from rules.frame import RunFrame
from webapp.analysis import queue, stopping, tails, window_rules
from webapp.analysis.evaluation import frame_of
from webapp.analysis.models import Judgement
from webapp.runs import progress
from webapp.runs.models import Node, Run
from webapp.thresholds.values import values_of

SHARE = 0.1
"""The share of time that whole analyses called for by looks may take, even if they find nothing."""


@dataclass(frozen=True)
class Seen:
    """What a look saw."""

    is_news: bool
    """A window rule fires for the first time, or one that may stop the run still fires."""
    quiet_until: datetime | None = None
    """No window rule finds anything before this time; None: one may with the next upload."""


def look(held: queue.Claim) -> Seen:
    """Judge the window rules on a run's last minutes."""
    run = held.row.run
    found = Node.objects.filter(attempt__run=run).select_related("attempt")
    nodes = list(found.prefetch_related("sessions"))
    progress.derive(run, [session for node in nodes for session in node.sessions.all()])
    if run.ended_at is None or run.raw_deleted_at is not None or not _may_call(held):
        return Seen(is_news=False)
    values = values_of(run.workspace, run.job)
    lengths = window_rules.window_rules(values)
    try:
        frame, since = _frame(run, nodes, max(lengths.values(), default=timedelta()))
    except TooLargeError:
        return Seen(is_news=run.summary.too_large == "")
    judgements = engine.evaluate(frame, values, lengths)
    fired = {judged.rule_id for judged in judgements if judged.verdict.state == Judgement.FIRED}
    known = run.judgements.filter(rule__in=fired, state=Judgement.FIRED) if fired else ()
    is_new = len(fired) > len(known)
    may_stop = any(stopping.is_due(run, nodes, judged, since) for judged in judgements)
    return Seen(is_new or may_stop, window_rules.quiet_until(frame, values, since))


def _frame(run: Run, nodes: Sequence[Node], length: timedelta) -> tuple[RunFrame, datetime]:
    """The run's last minutes, and when they begin. Raises TooLargeError."""
    try:
        return tails.frame(run, nodes, length)
    except tails.NoTailError:
        since = run.began_at if run.ended_at is None else max(run.ended_at - length, run.began_at)
        return frame_of(run, nodes, since, is_final=False)[0], since


def _may_call(held: queue.Claim) -> bool:
    """Analyses that were due anyway don't count: a finding isn't late because one took long."""
    last = held.row
    pause = timedelta(seconds=last.seconds / SHARE)
    return last.called_at is None or last.called_at + pause <= timezone.now()
