"""Spend by month, and budgets, as the pages show them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.utils import timezone
from ninja import Field, Query, Router, Schema

from webapp.accounts.access import TokenRequest
from webapp.accounts.bearer import Bearer
from webapp.accounts.models import Token
from webapp.api.amounts import money
from webapp.api.asked_month import month_of
from webapp.spend import scope
from webapp.spend.budget_status import BudgetLine, standings
from webapp.spend.table import SpendLine, table

router = Router(tags=["read"], auth=Bearer(Token.READ))


class SpendLineOut(Schema):
    label: str = Field(description="Job name, owner, tag value or month.")
    runs: int = Field(description="Runs that started in the month.")
    unpriced_runs: int = Field(description="Runs without a price, not included in the sum.")
    usd: str | None = Field(description="Exact; null: no run has a price, or there is none.")
    billed_usd: str | None = Field(description="Sum over the runs with an entered bill.")
    counted_usd: str | None = Field(description="Computed cost of the runs with an entered bill.")
    difference_usd: str | None = Field(description="Billed minus computed cost.")


class SpendOut(Schema):
    month: str
    start: datetime = Field(description="Midnight of its first day in the workspace's time zone.")
    end: datetime
    by: str
    key: str
    lines: list[SpendLineOut] = Field(description="The lines sum exactly to the total.")
    total: SpendLineOut


class BudgetOut(Schema):
    id: UUID
    kind: str = Field(description="`workspace`, `job` or `tag`.")
    of: str
    month: str
    amount_usd: str
    threshold_pct: int
    spent_usd: str
    forecast_usd: str | None = Field(
        description="Spend at the end of the month, by the rhythm of the last three months; "
        "null: too little is known."
    )
    forecast_low_usd: str | None = Field(
        description="Four of five months end from here to `forecast_high_usd`."
    )
    forecast_high_usd: str | None
    unpriced_runs: int
    state: str = Field(description="`ok`, `forecast_over`, `over_threshold` or `over`.")


class BudgetsOut(Schema):
    budgets: list[BudgetOut] = Field(description="Worst state first.")


@router.get("/spend", response=SpendOut, summary="What a month cost, by job, owner, tag or month")
def get_spend(
    request: TokenRequest,
    month: str = Query("", description="For example 2026-11; default: the current month."),  # type: ignore[type-arg]
    by: Literal["job", "owner", "tag", "month"] = "job",
    key: str = Query("", max_length=200, description="Tag key; default: the most common."),  # type: ignore[type-arg]
) -> dict[str, Any]:
    """Answers the spend of a month. With `by=month`, answers the twelve months up to that month,
    one per line.
    """
    workspace = request.auth.workspace
    chosen = month_of(month, workspace)
    spend_table = table(workspace, chosen, by, key)
    return {
        "month": str(chosen),
        "start": chosen.start,
        "end": chosen.end,
        "by": by,
        "key": spend_table.key,
        "lines": [_line(line) for line in spend_table.lines],
        "total": _line(spend_table.total),
    }


@router.get("/budgets", response=BudgetsOut, summary="State of each budget in the current month")
def get_budgets(request: TokenRequest) -> dict[str, Any]:
    workspace = request.auth.workspace
    lines = standings(workspace, scope.budgets_of(workspace), timezone.now())
    return {"budgets": [_budget(line) for line in lines]}


def _line(line: SpendLine) -> dict[str, Any]:
    sums = ("usd", "billed_usd", "counted_usd", "difference_usd")
    counts = {"runs": line.run_count, "unpriced_runs": line.unpriced_count}
    return {"label": line.label, **counts, **{name: money(getattr(line, name)) for name in sums}}


def _budget(line: BudgetLine) -> dict[str, Any]:
    budget, standing = line.budget, line.standing
    return {
        "id": budget.uuid,
        "kind": budget.kind,
        "of": str(budget),
        "month": str(line.month),
        "amount_usd": money(standing.amount_usd),
        "threshold_pct": standing.threshold_pct,
        "spent_usd": money(standing.spent_usd),
        "forecast_usd": money(standing.forecast_usd),
        "forecast_low_usd": money(standing.low_usd),
        "forecast_high_usd": money(standing.high_usd),
        "unpriced_runs": line.unpriced_count,
        "state": line.state,
    }
