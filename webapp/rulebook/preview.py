"""What other values would have found in the last days, from stored numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import cast

from django.db.models import Count, QuerySet
from django.utils import timezone

from rules.parameter import Preset, Values
from rules.registry import all_rules
from rules.rule import Rule
from webapp.accounts.models import Workspace
from webapp.analysis.models import Judgement
from webapp.rulebook.judging import judged_by
from webapp.runs.models import Job, Run, RunQuerySet, began
from webapp.thresholds.values import Overrides, resolved, set_by, values_of

DAYS = 30
MOST_RUNS = 1_000
"""The newest ones; a page that reads more would keep its reader waiting."""


@dataclass
class Effect:
    """Of one rule, in runs of the last DAYS days."""

    rule: Rule
    fired: int = 0
    """As they were judged."""
    would_fire: int = 0
    untold: int = 0
    """To tell takes their samples: they are judged when these are read again."""


def effects(workspace: Workspace, job: Job | None, preset: str, own: Overrides) -> list[Effect]:
    """Of each rule that the new values change, what it found and what it would have found.

    Args:
        own: what the job would set itself, or without a job the workspace.
    """

    @cache
    def changed(of: Job) -> dict[str, Values]:
        before = values_of(workspace, of)
        after = _after(workspace, of, preset, own, is_of_job=job is not None)
        return {rule: values for rule, values in after.items() if values != before[rule]}

    found: dict[str, Effect] = {}
    for row in _judged(workspace, job):
        values = changed(row.run.job)
        if row.rule in values:
            effect = found.setdefault(row.rule, Effect(all_rules()[row.rule]))
            _count(effect, row, values)
    return [found[rule] for rule in sorted(found)]


def _count(effect: Effect, row: Judgement, values: Mapping[str, Values]) -> None:
    judged = judged_by(row, values)
    fired = row.state == Judgement.FIRED
    effect.fired += fired
    effect.untold += judged is None
    effect.would_fire += fired if judged is None else judged.verdict.state == Judgement.FIRED


def recent_runs(workspace: Workspace, job: Job | None = None) -> RunQuerySet:
    """Those of the last DAYS days."""
    since = timezone.now() - timedelta(days=DAYS)
    runs = Run.objects.filter(workspace=workspace).present().alias(began=began())
    runs = runs.filter(began__gte=since)
    return runs if job is None else runs.filter(job=job)


def _judged(workspace: Workspace, job: Job | None) -> QuerySet[Judgement]:
    newest = recent_runs(workspace, job).newest_first().values_list("pk", flat=True)[:MOST_RUNS]
    return Judgement.objects.filter(run__in=list(newest)).select_related("run__job")


def _after(
    workspace: Workspace, job: Job, preset: str, own: Overrides, *, is_of_job: bool
) -> dict[str, Values]:
    """The values of a job once `own` is set."""
    of_workspace = set_by(workspace) if is_of_job else own
    of_job = own if is_of_job else set_by(workspace, job)
    return resolved(cast(Preset, preset), [of_workspace, of_job])


def fired_counts(workspace: Workspace) -> dict[str, int]:
    """Rule id -> in how many runs of the last DAYS days it fired; a rule that never did is not
    named."""
    fired = Judgement.objects.filter(run__in=recent_runs(workspace), state=Judgement.FIRED)
    return dict(fired.values_list("rule").annotate(Count("pk")).order_by())


def runs_that_fired(workspace: Workspace, rule_id: str, most: int = 10) -> list[Judgement]:
    """The newest runs of the last DAYS days in which a rule fired, as it judged them."""
    fired = Judgement.objects.filter(rule=rule_id, state=Judgement.FIRED)
    found = fired.filter(run__in=recent_runs(workspace)).select_related("run__job")
    return list(found.order_by("-run__created_at")[:most])
