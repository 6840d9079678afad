"""Counts, from stored numbers, how often other thresholds would have fired recently."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import cast

from django.db.models import QuerySet
from django.utils import timezone

from advisor.money import rounded_usd
from rules.parameter import Preset, Values
from rules.registry import all_rules
from rules.rule import Rule, Verdict
from webapp.accounts.models import Workspace
from webapp.analysis.models import Judgement
from webapp.analysis.results.judgement_rows import judged_by
from webapp.runs.models import Job, Run, RunQuerySet, began
from webapp.thresholds.values import Overrides, resolve_values, set_by, values_of

DAYS = 30
MOST_RUNS = 1_000
"""The newest runs; reading more would make the page slow."""


@dataclass
class Effect:
    """Effect of other thresholds on one rule, for the runs of the last DAYS days."""

    rule: Rule
    fired: int = 0
    """The number of runs in which it fired with the thresholds in use."""
    would_fire: int = 0
    unknown: int = 0
    """Runs that must be measured again from their samples."""
    new: list[Run] = field(default_factory=list)
    """Runs in which it would fire and didn't, the newest first."""
    gone: list[Run] = field(default_factory=list)
    usd: Decimal | None = Decimal(0)
    """The most that its findings cost; None if one of them has no price."""
    would_usd: Decimal | None = Decimal(0)
    """The same by the new thresholds."""


def effects(workspace: Workspace, job: Job | None, preset: str, own: Overrides) -> list[Effect]:
    """Return, for each rule that the new values change, how often it fired and would have fired.

    Args:
        own: the new values of the job, or of the workspace if `job` is None.
    """

    @cache
    def changed(of: Job) -> dict[str, Values]:
        before = values_of(workspace, of)
        after = _after(workspace, of, preset, own, is_of_job=job is not None)
        return {rule: values for rule, values in after.items() if values != before[rule]}

    by_rule: dict[str, Effect] = {}
    for row in _judged(workspace, job):
        values = changed(row.run.job)
        if row.rule in values:
            effect = by_rule.setdefault(row.rule, Effect(all_rules()[row.rule]))
            _count(effect, row, values)
    return [by_rule[rule] for rule in sorted(by_rule)]


def _count(effect: Effect, row: Judgement, values: Mapping[str, Values]) -> None:
    judged = judged_by(row, values)
    fired = row.state == Judgement.FIRED
    effect.fired += fired
    effect.unknown += judged is None
    would_fire = fired if judged is None else judged.verdict.state == Judgement.FIRED
    effect.would_fire += would_fire
    if would_fire != fired:
        (effect.new if would_fire else effect.gone).append(row.run)
    if fired:
        effect.usd = _sum(effect.usd, row.waste_usd_high)
    if would_fire:
        usd = row.waste_usd_high if judged is None else _usd(row, judged.verdict)
        effect.would_usd = _sum(effect.would_usd, usd)


def _usd(row: Judgement, verdict: Verdict) -> Decimal | None:
    """Return what another verdict would cost, in proportion to what the stored one claims; if that
    claims nothing, all that it claims itself. None without a price.
    """
    before = sum(claim.high * claim.seconds for claim in row.own_claims)
    seconds = verdict.claimed_seconds_high
    if before and row.waste_usd_high is not None:
        return rounded_usd(Fraction(row.waste_usd_high) * Fraction(seconds) / Fraction(before))
    run, length = row.run, row.run.duration
    if run.cost_usd is None or not length:
        return None
    share = min(Fraction(seconds) / Fraction(length.total_seconds()), Fraction(1))
    return rounded_usd(Fraction(run.cost_usd) * share)


def _sum(usd: Decimal | None, more: Decimal | None) -> Decimal | None:
    return None if usd is None or more is None else usd + more


def recent_runs(workspace: Workspace, job: Job | None = None) -> RunQuerySet:
    """Return runs, without probes, that began in the last DAYS days."""
    since = timezone.now() - timedelta(days=DAYS)
    runs = Run.objects.filter(workspace=workspace).present().ordinary().alias(began=began())
    runs = runs.filter(began__gte=since)
    return runs if job is None else runs.filter(job=job)


def _judged(workspace: Workspace, job: Job | None) -> QuerySet[Judgement]:
    newest = recent_runs(workspace, job).newest_first().values_list("pk", flat=True)[:MOST_RUNS]
    judged = Judgement.objects.filter(run__in=list(newest)).select_related("run__job")
    return judged.order_by("rule", "-run__created_at")


def _after(
    workspace: Workspace, job: Job, preset: str, own: Overrides, *, is_of_job: bool
) -> dict[str, Values]:
    """Return the values of a job after `own` is saved."""
    of_workspace = set_by(workspace) if is_of_job else own
    of_job = own if is_of_job else set_by(workspace, job)
    return resolve_values(cast(Preset, preset), [of_workspace, of_job])


def runs_that_fired(workspace: Workspace, rule_id: str, most: int = 10) -> list[Judgement]:
    """Return the rule's newest findings in runs of the last DAYS days."""
    fired = Judgement.objects.filter(rule=rule_id, state=Judgement.FIRED)
    recent = fired.filter(run__in=recent_runs(workspace)).order_by("-run__created_at")
    # Only these are read whole: they are wide, and all are sorted.
    newest = list(recent.values_list("pk", flat=True)[:most])
    read = fired.select_related("run__job").in_bulk(newest)
    return [read[pk] for pk in newest if pk in read]
