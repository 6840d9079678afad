"""Two runs side by side, and what one of them cost: as their pages say it."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.conf import settings
from django.urls import reverse
from ninja import Field, Query, Router, Schema

from advisor.comparison.attribution import Term
from webapp.accounts.access import TokenRequest
from webapp.accounts.bearer import Bearer
from webapp.accounts.models import Token
from webapp.analysis.selectors.comparison import ComparedRuns, compare_runs
from webapp.analysis.selectors.completeness import Completeness, completeness_of
from webapp.analysis.selectors.cost_lines import CostLine, cost_lines
from webapp.api import readable, run_money
from webapp.api.amounts import money
from webapp.api.description import problem
from webapp.api.schemas import FailureOut
from webapp.http.problems import Problem
from webapp.runs import scope
from webapp.runs.failure import failure_of
from webapp.runs.models import Run

router = Router(tags=["read"])
_REFERENCE = "A run's id, or JOB#NUMBER."
_MAY_BE_MISSING = {"responses": {404: problem(404)}}


class RunRefOut(Schema):
    id: UUID
    job: str
    number: int
    state: str
    cost_usd: str | None
    url: str


class ComparedRunOut(RunRefOut):
    is_complete: bool = Field(
        description="Every node has reported its end, and the analysis is final."
    )
    incomplete_because: list[str] = Field(description="What is missing; empty: nothing.")
    may_complete: bool = Field(description="What is missing may still come by itself.")


class SettingOut(Schema):
    name: str
    a: Any
    b: Any


class FigureOut(Schema):
    name: str
    a: str
    b: str
    change: str
    tone: str = Field(description="`better`, `worse` or `neutral`.")


class PartOut(Schema):
    name: str
    usd: str


class TermOut(PartOut):
    parts: list[PartOut] = Field(
        description="The duration by phase; the parts sum to the duration."
    )


class WorkOut(Schema):
    unit: str = Field(description="`run`: whole runs are compared.")
    a: float
    b: float
    a_usd: str | None = Field(description="Per unit of work.")
    b_usd: str | None
    a_growing_usd: str | None = Field(
        description="Per unit of work without start-up; null: no price, or not measured."
    )
    b_growing_usd: str | None


class CompareOut(Schema):
    a: ComparedRunOut
    b: ComparedRunOut
    sentence: str
    why: str
    exactly: str = Field(description="The difference in cost by cause, to the nano-dollar.")
    warnings: list[str]
    changes: list[SettingOut]
    figures: list[FigureOut]
    attribution: list[TermOut] | None = Field(description="They sum to the difference exactly.")
    per_work: WorkOut
    cost_change_pct: float | None = Field(
        description="For the same work, start-up included; for other amounts of the same work per "
        "unit, without start-up; null: see `incomparable_because`."
    )
    incomparable_because: list[str] = Field(
        description="Why the costs are not compared, by run and field; empty: they are."
    )
    is_same_work: bool
    saving_usd: str | None = Field(description="Signed; null: no saving can be claimed.")
    markdown: str
    url: str


class CostPartOut(Schema):
    node: str
    instance_type: str
    day: date
    seconds: float
    usd: str
    prices: list[str]


class CostOut(ComparedRunOut):
    cost_is_at_least: bool
    failure: FailureOut | None = Field(description="Why the run failed; null: it has not failed.")
    duration_seconds: float | None
    missing_prices: list[str]
    money: run_money.RunMoneyOut
    parts: list[CostPartOut] = Field(description="By node and UTC day; they sum to the cost.")


@router.get(
    "/compare",
    response=CompareOut,
    auth=Bearer(Token.READ, Token.INGEST),
    summary="Two runs side by side: why the cost changed",
    openapi_extra=_MAY_BE_MISSING,
)
def get_compare(
    request: TokenRequest,
    a: str = Query(..., max_length=400, description=f"The earlier run. {_REFERENCE}"),  # type: ignore[type-arg]
    b: str = Query(..., max_length=400, description=_REFERENCE),  # type: ignore[type-arg]
) -> dict[str, Any]:
    """Answers the content of the comparison page, also as Markdown. A token with the scope `ingest`
    but not `read` compares only runs that it uploaded to.
    """
    runs = [readable.run(request.auth, reference) for reference in (a, b)]
    if runs[0] == runs[1]:
        raise Problem(422, "Both references name the same run.", "b", "Send two different runs.")
    return _document(compare_runs(*runs))


@router.get(
    "/cost",
    response=CostOut,
    auth=Bearer(Token.READ, Token.INGEST),
    summary="What a run cost, by node, day and phase",
    openapi_extra=_MAY_BE_MISSING,
)
def get_cost(
    request: TokenRequest,
    run: str = Query(..., max_length=400, description=_REFERENCE),  # type: ignore[type-arg]
) -> dict[str, Any]:
    """Answers what a run cost. A token with the scope `ingest` but not `read` reads only the runs
    that it uploaded to.
    """
    named = readable.run(request.auth, run)
    return {
        **_compared_run(named, completeness_of([named])[named.pk]),
        "failure": failure_of(named, scope.sessions_of(named)),
        "cost_is_at_least": named.cost_is_at_least,
        "duration_seconds": named.duration.total_seconds() if named.duration else None,
        "missing_prices": named.summary.missing,
        "money": run_money.document(named),
        "parts": [_part(line) for line in cost_lines(named)],
    }


def _document(both: ComparedRuns) -> dict[str, Any]:
    result = both.result
    copied = (
        "sentence",
        "why",
        "exactly",
        "cost_change_pct",
        "is_same_work",
        "incomparable_because",
    )
    address = f"{reverse('dashboard:compare')}?a={both.a.pk}&b={both.b.pk}"
    return {name: getattr(result, name) for name in copied} | {
        "a": _compared_run(both.a, both.completeness[0]),
        "b": _compared_run(both.b, both.completeness[1]),
        "warnings": both.warnings,
        "changes": [vars(change) for change in result.configuration_changes],
        "figures": [vars(row) for row in result.metrics],
        "attribution": _terms(result.attribution),
        "per_work": {name: _plain(getattr(result.per_work, name)) for name in WorkOut.model_fields},
        "saving_usd": money(result.saving_usd),
        "markdown": result.markdown(),
        "url": settings.BASE_URL + address,
    }


def _terms(terms: tuple[Term, ...] | None) -> list[dict[str, Any]] | None:
    if terms is None:
        return None
    return [_term(term) | {"parts": [_term(part) for part in term.parts]} for term in terms]


def _term(term: Term) -> dict[str, Any]:
    return {"name": term.name, "usd": money(term.usd)}


def _run(run: Run) -> dict[str, Any]:
    return {
        "id": run.pk,
        "job": run.job.name,
        "number": run.number,
        "state": run.state,
        "cost_usd": money(run.cost_usd),
        "url": settings.BASE_URL + reverse("dashboard:run", args=[run.pk]),
    }


def _compared_run(run: Run, completeness: Completeness) -> dict[str, Any]:
    return _run(run) | {
        "is_complete": completeness.is_complete,
        "incomplete_because": completeness.because,
        "may_complete": completeness.may_complete,
    }


def _part(line: CostLine) -> dict[str, Any]:
    return {
        "node": str(line.row.node),
        "instance_type": line.row.node.instance_type,
        "day": line.row.day,
        "seconds": line.length.total_seconds(),
        "usd": money(line.row.usd),
        "prices": [f"{price.usd_per_hour:f} an hour, {price.source}" for price in line.prices],
    }


def _plain(value: Any) -> Any:
    return money(value) if isinstance(value, Decimal) else value
