"""Lists what needs somebody now, over all jobs: the most urgent first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Count, Exists, F, OuterRef, QuerySet, Sum, Window
from django.db.models.functions import RowNumber
from django.urls import reverse

from advisor.costing.budget import OK
from webapp.accounts.models import Workspace
from webapp.advice import looking
from webapp.advice.models import Recommendation
from webapp.advice.scope import recommendations_of
from webapp.advice.selectors.savings import saving_of
from webapp.analysis.models import Judgement
from webapp.analysis.scope import every_open_regression_of
from webapp.dashboard.selectors.unpriced import DAYS, UnpricedRuns
from webapp.runs.models import Run
from webapp.runs.scope import runs_of
from webapp.spend.budget_status import BudgetLine
from webapp.templatetags import shown

FAILED_WITHIN = timedelta(days=7)
"""The longest time since the last failure in a row."""
NEW_WITHIN = timedelta(days=7)
MOST_OF_A_KIND = 5
_OF_FAILED = ("number", "started_at", "ended_at", "job__name")
"""The columns that are read of a failed run: its row is wide."""
HANGS, FAILED, REGRESSION, BUDGET, UNPRICED, RECOMMENDATION = (
    "Hangs now",
    "Failed",
    "Regression",
    "Budget",
    "No price",
    "Recommendation",
)


@dataclass(frozen=True)
class AttentionItem:
    """Thing that needs somebody. `usd` is what it has cost, or could save a month; None without a
    price.
    """

    kind: str
    title: str
    note: str
    at: datetime | None
    """The time since when; None if it has no such time."""
    usd: Decimal | None
    of_usd: str
    """The meaning of `usd`, in words."""
    address: str
    run: Run | None = None
    """The run that has the price; None if `usd` is that of the runs of `job`."""
    job: str = ""
    is_at_least: bool = False
    """True if some of the runs have no price."""


def attention(
    workspace: Workspace, budgets: list[BudgetLine], unpriced: UnpricedRuns, now: datetime
) -> list[AttentionItem]:
    """Return at most MOST_OF_A_KIND of each kind."""
    return [
        *_hanging(workspace),
        *_failed(workspace, now),
        *_regressions(workspace),
        *_budgets(budgets),
        *_without_price(unpriced),
        *_recommendations(workspace, now),
    ]


def _hanging(workspace: Workspace) -> Iterator[AttentionItem]:
    fired = Judgement.objects.filter(
        run__in=runs_of(workspace).filter(state=Run.RUNNING).select_related(None),
        rule="hung",
        state=Judgement.FIRED,
    )
    for row in fired.select_related("run__job").order_by("-judged_at")[:MOST_OF_A_KIND]:
        address = reverse("dashboard:run", args=[row.run_id]) + "#rules"
        usd, since = row.waste_usd_high, row.first_fired_at
        yield AttentionItem(
            HANGS, str(row.run), row.summary, since, usd, "wasted so far", address, row.run
        )


def _failed(workspace: Workspace, now: datetime) -> Iterator[AttentionItem]:
    """Yield the jobs whose last ended run failed, with the failed runs in a row up to it."""
    runs = runs_of(workspace)
    failed, others = (
        runs.filter(state=Run.FAILED),
        runs.exclude(state__in=(Run.FAILED, Run.RUNNING)),
    )
    recent = failed.filter(ended_at__gte=now - FAILED_WITHIN)
    later = others.select_related(None).filter(
        job=OuterRef("job"), ended_at__gt=OuterRef("ended_at")
    )
    in_a_row = failed.filter(~Exists(later), job__in=recent.select_related(None).values("job"))
    for newest in _newest_of_each(in_a_row)[:MOST_OF_A_KIND]:
        yield _failing(newest)


def _newest_of_each(failed: QuerySet[Run]) -> QuerySet[Any]:
    """Return the last failed run of each job, the latest first, with the count and the cost of
    all.
    """
    of_job = F("job_id")
    newest_first = [F("ended_at").desc(), F("number").desc()]
    counted = failed.only(*_OF_FAILED).annotate(
        place=Window(RowNumber(), partition_by=of_job, order_by=newest_first),
        row_count=Window(Count("pk"), partition_by=of_job),
        priced_count=Window(Count("cost_usd"), partition_by=of_job),
        row_usd=Window(Sum("cost_usd"), partition_by=of_job),
    )
    return counted.filter(place=1).order_by("-ended_at")


def _failing(newest: Any) -> AttentionItem:
    """Return the item of a job. `newest` is the last run of a row of failed ones, with the row's
    sums.
    """
    note = f"after {shown.length_words(newest.duration)}"
    if newest.row_count > 1:
        note = f"{newest.row_count:,} runs in a row, the last {note}"
    return AttentionItem(
        FAILED,
        str(newest),
        note,
        newest.ended_at,
        newest.row_usd,
        "spent",
        address=reverse("dashboard:run", args=[newest.pk]),
        run=newest,
        is_at_least=newest.priced_count < newest.row_count,
    )


def _regressions(workspace: Workspace) -> Iterator[AttentionItem]:
    for row in every_open_regression_of(workspace)[:MOST_OF_A_KIND]:
        runs = f"{row.run_count} run{'' if row.run_count == 1 else 's'}"
        note = f"{shown.signed_share(row.change)} machine time since #{row.since.number}, {runs}"
        address = reverse("dashboard:job", args=[row.job.uuid]) + f"#regression-{row.since.number}"
        name, since = row.job.name, row.opened_at
        of_usd = "more so far"
        yield AttentionItem(REGRESSION, name, note, since, row.extra_usd, of_usd, address, job=name)


def _budgets(lines: list[BudgetLine]) -> Iterator[AttentionItem]:
    at_risk = [line for line in lines if line.state != OK]
    for line in at_risk[:MOST_OF_A_KIND]:
        address = reverse("spend:budgets") + f"#budget-{line.budget.uuid}"
        note = f"{line.words}: {shown.usd(line.budget.amount_usd)} in {line.month.title}"
        yield AttentionItem(
            BUDGET, str(line.budget), note, None, line.standing.spent_usd, "spent", address
        )


def _without_price(unpriced: UnpricedRuns) -> Iterator[AttentionItem]:
    """Yield one item for all runs without a price, with what the newest one lacks."""
    newest = unpriced.newest
    if newest is None:
        return
    reasons = (missing.partition(": ")[2] for missing in newest.summary.missing)
    title, note = str(newest), next(reasons, "") or "what it cost is unknown"
    address = reverse("dashboard:run", args=[newest.pk])
    if unpriced.recent_count > 1:
        title, note = f"{unpriced.recent_count:,} runs", f"the newest, {newest}: {note}"
        address = shown.unpriced(days=DAYS)
    yield AttentionItem(UNPRICED, title, note, newest.started_at, None, "", address, newest)


def _recommendations(workspace: Workspace, now: datetime) -> Iterator[AttentionItem]:
    """Yield the new recommendations. What is promised here is frozen, as everywhere where a person
    sees it.
    """
    new = recommendations_of(workspace).filter(
        state=Recommendation.ACTIVE, is_provisional=False, created_at__gte=now - NEW_WITHIN
    )
    first = new.order_by(F("monthly_saving_usd").desc(nulls_last=True))[:MOST_OF_A_KIND]
    rows = list(first.select_related(None).select_related("job", "run"))
    looking.freeze_seen(rows)
    for row in rows:
        address = reverse("advice:recommendation", args=[row.uuid])
        saving, since = saving_of(row), row.created_at
        # A job that didn't run for a month has nothing to save a month.
        usd, of_usd = saving.monthly_usd, "less a month"
        if not usd:
            usd, of_usd = saving.certain_usd, "less a run"
        yield AttentionItem(
            RECOMMENDATION,
            row.title,
            row.job.name,
            since,
            usd,
            of_usd,
            address,
            row.run,
            is_at_least=saving.is_at_least,
        )
