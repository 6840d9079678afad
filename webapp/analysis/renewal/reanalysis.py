"""Analyses finished runs again that an earlier release analysed, as far as samples remain."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from advisor.probing.loop_speed import VERSION as SPEED_VERSION
from rules.ledger import VERSION as LEDGER_VERSION
from rules.registry import all_rules
from webapp.analysis import queue
from webapp.analysis.models import CostPart, Judgement, Life
from webapp.runs.models import Run, began

DAYS = 30
"""The age in days up to which changed thresholds measure runs again."""
AT_ONCE = 50
"""The runs of one sweep: a few minutes of one worker, so that new runs don't wait for old ones."""
_OUTDATED_FIGURES = (
    Q(summary__ledger_version__isnull=True)
    | Q(summary__ledger_version__lt=LEDGER_VERSION)
    | Q(summary__speed_version__isnull=True)
    | Q(summary__speed_version__lt=SPEED_VERSION)
)

_MEASURED = Q(summary__too_large__isnull=True) | Q(summary__too_large="")


def queue_outdated(now: datetime) -> int:
    """Queue the newest runs whose ledger, verdicts or measured speed have an earlier version, whose
    costs were written without what each second cost, or whose lives aren't known. Returns their
    number."""
    since = now - timedelta(days=DAYS)
    finished = Run.objects.present().filter(
        raw_deleted_at=None, analysis__is_final=True, analysis__error=""
    )
    recent = finished.alias(began=began()).filter(began__gte=since)
    outdated = recent.filter(
        Exists(_outdated_judgements())
        | Exists(_without_charges())
        | _OUTDATED_FIGURES
        | (_MEASURED & ~Exists(Life.objects.filter(run=OuterRef("pk"))))
    )
    with transaction.atomic():
        runs = list(outdated.newest_first()[:AT_ONCE])
        for run in runs:
            queue.queue_run(run, is_upload=False)
    return len(runs)


def _outdated_judgements() -> QuerySet[Judgement]:
    """Return the outdated judgements of the outer query's run."""
    earlier = Q()
    for rule in all_rules().values():
        earlier |= Q(rule=rule.id, rule_version__lt=rule.version)
    return Judgement.objects.filter(earlier, run=OuterRef("pk"))


def _without_charges() -> QuerySet[CostPart]:
    """Return the cost parts without charges of the outer query's run."""
    return CostPart.objects.filter(run=OuterRef("pk"), charges__isnull=True)
