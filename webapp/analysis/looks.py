"""Looks: quick checks of a running run's last minutes, for whether a whole analysis is needed.

A look costs the same for runs of any length and reads only what has arrived since the one before,
so each upload triggers one. It judges the rules that can be judged on a window; the others are
judged on the whole run, each time it has grown. A look's verdicts are not kept: only those on the
whole run count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from django.utils import timezone

from advisor.store.room import TooLargeError
from rules import engine
from rules.frame import RunFrame
from rules.registry import all_rules
from rules.rule import Values
from webapp.analysis import queue, stopping, tails
from webapp.analysis.evaluation import frame_of
from webapp.analysis.models import Judgement
from webapp.runs import progress
from webapp.runs.models import Node, Run
from webapp.thresholds.values import values_of

SHARE = 0.1
"""The share of time that whole analyses requested by looks may take, even if they find nothing."""


def shows_news(held: queue.Claim) -> bool:
    """Whether a window rule fires for the first time, or one that may stop the run still fires."""
    run = held.row.run
    found = Node.objects.filter(attempt__run=run).select_related("attempt")
    nodes = list(found.prefetch_related("sessions"))
    progress.derive(run, [session for node in nodes for session in node.sessions.all()])
    if run.ended_at is None or run.raw_deleted_at is not None or not _may_be_analysed(held):
        return False
    values = values_of(run.workspace, run.job)
    lengths = window_rules(values)
    try:
        frame, since = _frame(run, nodes, max(lengths.values(), default=timedelta()))
    except TooLargeError:
        return run.summary.too_large == ""
    judgements = engine.evaluate(frame, values, [all_rules()[rule] for rule in lengths])
    fired = {judged.rule_id for judged in judgements if judged.verdict.state == Judgement.FIRED}
    known = run.judgements.filter(rule__in=fired, state=Judgement.FIRED) if fired else ()
    is_new = len(fired) > len(known)
    return is_new or any(stopping.is_due(run, nodes, judged, since) for judged in judgements)


def window_rules(values: Mapping[str, Values]) -> dict[str, timedelta]:
    """The rules that looks judge by their ids, and how much of a run each needs."""
    windows = {
        rule.id: timedelta(seconds=rule.window_seconds(values[rule.id]))
        for rule in all_rules().values()
        if rule.window_seconds is not None
    }
    return {rule: length for rule, length in windows.items() if length <= tails.LONGEST}


def _frame(run: Run, nodes: Sequence[Node], length: timedelta) -> tuple[RunFrame, datetime]:
    """The run's last minutes, and when they begin. Raises TooLargeError."""
    try:
        return tails.frame(run, nodes, length)
    except tails.NoTailError:
        since = run.began_at if run.ended_at is None else max(run.ended_at - length, run.began_at)
        return frame_of(run, nodes, since, is_final=False)[0], since


def _may_be_analysed(held: queue.Claim) -> bool:
    last = held.row
    pause = timedelta(seconds=last.seconds / SHARE)
    return last.finished_at is None or last.finished_at + pause <= timezone.now()
