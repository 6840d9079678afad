"""The list of runs by the value of one name: how many, what they cost, what they reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, cast

from django.db.models import (
    Avg,
    Case,
    CharField,
    Count,
    F,
    FilteredRelation,
    Max,
    Q,
    QuerySet,
    Sum,
    Value,
    When,
)

from webapp.dashboard.selectors import run_fields
from webapp.dashboard.selectors.facets import OWNER, Facet
from webapp.dashboard.selectors.run_fields import FieldName
from webapp.runs.models import Run, began

COLUMNS = {run_fields.JOB: "job__name", run_fields.STATE: "state"}
MOST_RUNS, MOST_GROUPS, MOST_MEANS = 5000, 200, 6
"""The runs that are grouped, the groups that are shown, and the columns whose mean is, at most."""


@dataclass(frozen=True)
class GroupOfRuns:
    """The runs with one value. `value` is empty for those without one."""

    value: str
    run_count: int
    spend_usd: Decimal | None
    unpriced_count: int
    last_at: datetime
    means: list[float | None]
    """The mean of each column whose values are numbers; None where no run of the group has one."""


def can_group(named: FieldName) -> bool:
    return named.field is not None or named.name in (*COLUMNS, run_fields.OWNER)


def group_runs(
    runs: QuerySet[Run], by: FieldName, columns: Sequence[FieldName]
) -> list[GroupOfRuns]:
    """Return the groups, the largest first, with the means of these columns.

    Args:
        runs: in order; of more than `MOST_RUNS` the first ones are grouped.
    """
    first = Run.objects.filter(pk__in=runs.values("pk")[:MOST_RUNS])
    keyed = _with_key(first.alias(began=began()), by).values("group_number", "group_text")
    means = {}
    for place, column in enumerate(columns):
        name = f"of_column_{place}"
        joined = FilteredRelation("values", condition=Q(values__field=column.field))
        keyed = keyed.alias(**{name: joined})
        means[f"mean_{place}"] = Avg(f"{name}__number")
    summed = keyed.annotate(
        run_count=Count("pk"),
        spend_usd=Sum("cost_usd"),
        unpriced_count=Count("pk", filter=Q(cost_usd=None)),
        last_at=Max("began"),
        **means,
    )
    return [_group(row, len(columns)) for row in summed.order_by("-run_count")[:MOST_GROUPS]]


def _with_key(runs: QuerySet[Any, Any], by: FieldName) -> QuerySet[Any, Any]:
    """Return the runs with the number or the text by which they are grouped."""
    nothing = Value("", CharField())
    if by.field is None:
        text = Facet(OWNER).value() if by.name == run_fields.OWNER else F(COLUMNS[by.name])
        keyed = runs.annotate(group_number=Value(None, CharField()), group_text=text)
        return cast("QuerySet[Any, Any]", keyed)
    own = FilteredRelation("values", condition=Q(values__field=by.field))
    text = Case(When(grouped_by__number=None, then=F("grouped_by__text")), default=nothing)
    keyed = runs.alias(grouped_by=own)
    keyed = keyed.annotate(group_number=F("grouped_by__number"), group_text=text)
    return cast("QuerySet[Any, Any]", keyed)


def _group(row: dict[str, Any], columns: int) -> GroupOfRuns:
    number = row["group_number"]
    return GroupOfRuns(
        value=(row["group_text"] or "") if number is None else f"{number:.15g}",
        means=[row[f"mean_{place}"] for place in range(columns)],
        **{name: row[name] for name in ("run_count", "spend_usd", "unpriced_count", "last_at")},
    )
