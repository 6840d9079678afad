"""Looks: quick checks of a running run's last minutes, for whether a whole analysis is needed.

A look costs the same for runs of any length, so each upload triggers one. Its verdicts are not
kept: only those on the whole run count, and they may differ (a step may take an hour).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from django.utils import timezone

from advisor.store.room import TooLargeError
from rules import engine
from rules.registry import all_rules
from rules.rule import Values
from webapp.analysis import queue, stopping
from webapp.analysis.evaluation import frame_of
from webapp.analysis.models import Analysis, Judgement
from webapp.runs import progress
from webapp.runs.models import Node, Run
from webapp.thresholds.values import values_of

SHORTEST = timedelta(minutes=20)
SHARE = 0.1
"""The share of time that whole analyses requested by looks may take, even if they find nothing."""


def shows_news(held: queue.Claim) -> bool:
    """Whether a rule fires for the first time, or one that may stop the run still fires."""
    run = Run.objects.select_related("job", "workspace").get(pk=held.run_id)
    progress.derive(run)
    if run.ended_at is None or run.raw_deleted_at is not None or not _may_be_analysed(run):
        return False
    values = values_of(run.workspace, run.job)
    nodes = list(Node.objects.filter(attempt__run=run).prefetch_related("sessions"))
    since = max(run.ended_at - _length(values), run.started_at or run.ended_at)
    try:
        frame, _ = frame_of(run, nodes, since, is_final=False)
    except TooLargeError:
        return run.summary.too_large == ""
    judgements = engine.evaluate(frame, values)
    fired = {judged.rule_id for judged in judgements if judged.verdict.state == Judgement.FIRED}
    known = run.judgements.filter(rule__in=fired, state=Judgement.FIRED)
    is_new = fired - set(known.values_list("rule", flat=True))
    return bool(is_new) or any(stopping.is_due(run, nodes, judged, since) for judged in judgements)


def _may_be_analysed(run: Run) -> bool:
    last = Analysis.objects.get(run=run)
    pause = timedelta(seconds=last.seconds / SHARE)
    return last.finished_at is None or last.finished_at + pause <= timezone.now()


def _length(values: Mapping[str, Values]) -> timedelta:
    """Twice the longest duration that rules need to stop a run, so that the work before it is
    seen."""
    lasting = [
        values[rule.id][parameter.name]
        for rule in all_rules().values()
        if rule.may_stop
        for parameter in rule.parameters
        if parameter.unit == "s"
    ]
    return max(SHORTEST, timedelta(seconds=2 * max(lasting, default=0)))
