"""A training: all attempts of the runs that continue one another."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.conf import settings
from django.urls import reverse
from ninja import Field, Query, Router, Schema

from advisor.costing.training_metrics import NewBest
from webapp.accounts.access import TokenRequest
from webapp.accounts.bearer import Bearer
from webapp.accounts.models import Token
from webapp.analysis.selectors.training import AttemptLine, TrainingView, training_of
from webapp.analysis.selectors.training_metrics import CostToReach, cost_to_reach
from webapp.api.amounts import money
from webapp.api.description import problem
from webapp.api.failures import FailureOut, failure_out
from webapp.api.ledger import LedgerLineOut
from webapp.runs import scope

router = Router(tags=["read"])


class AttemptOut(Schema):
    number: int
    run: UUID
    run_number: int
    began: datetime
    ended: datetime
    usd: str | None = Field(description="null: no price. The attempts sum to the training's cost.")
    lost_seconds: float = Field(description="GPU-seconds; node-seconds without GPUs.")
    waited_seconds: float | None = Field(
        description="Without a machine, since the attempts before; null: the first attempt."
    )
    continues: UUID | None = Field(
        description="The run that its run continues, where that was found without a person or a "
        "key; null: it wasn't."
    )
    continues_by: Literal["scheduler", "checkpoint", "steps"] | None


class ReachedOut(Schema):
    value: float
    seconds: float = Field(description="Since the training's first start.")
    usd: str | None = Field(description="Of all attempts until then; null: no price.")


class MetricOut(Schema):
    name: str
    is_less_better: bool
    points: list[ReachedOut] = Field(
        description="Each new best value, of all runs together. Values after steps that were done "
        "again don't count."
    )


class AskedOut(Schema):
    """The cost to reach a value of a metric."""

    metric: str
    target: float
    reached: ReachedOut | None = Field(description="null: it wasn't reached.")


class TrainingOut(Schema):
    name: str
    id: UUID | None = Field(description="null: a run that is a training of its own.")
    cost_usd: str | None
    is_provisional: bool = Field(
        description="A later attempt may turn effective time into lost time."
    )
    goodput: float | None = Field(
        description="Share of the held time whose use is known that was not start-up, first steps, "
        "loading, restart, lost work or checkpoint."
    )
    effective_share: float | None = Field(
        description="Effective dollars over paid dollars; null: no price."
    )
    slowdown_seconds: float | None = Field(
        description="Of the effective time, the part above the training's own best pace: a part of "
        "that label, and no label of its own. null: too few steps."
    )
    waiting_seconds: float = Field(description="Between attempts, without a machine and cost.")
    steps: int | None = Field(
        description="Different steps that count; null: of some run none are known."
    )
    lost_steps: int | None = Field(description="null: as above.")
    lost_is_unknown: bool = Field(
        description="An attempt resumed at an unknown step: lost work may be missing."
    )
    usd_per_step: str | None = Field(description="Per step that counts.")
    ledger: list[LedgerLineOut]
    attempts: list[AttemptOut]
    metrics: list[MetricOut]
    asked: AskedOut | None = Field(
        description="null: `metric` and `value` weren't asked for, or the metric is unknown."
    )
    failures: list[FailureOut] = Field(
        description="What each failure cost, the newest first: parts of the ledger."
    )
    url: str


@router.get(
    "/training",
    response=TrainingOut,
    auth=Bearer(Token.READ),
    summary="A training: its attempts, ledger, goodput and lost work",
    openapi_extra={"responses": {404: problem(404)}},
)
def get_training(
    request: TokenRequest,
    training: str = Query(  # type: ignore[type-arg]
        ...,
        max_length=400,
        description="The training's key or id, or one of its runs: id, or JOB#NUMBER.",
    ),
    metric: str = Query("", max_length=200, description="A metric whose cost is asked for."),  # type: ignore[type-arg]
    value: float | None = Query(None, description="The value to be reached, or a better one."),  # type: ignore[type-arg]
) -> dict[str, Any]:
    """Answers a training. A run that continues no other one is a training of its own."""
    view = training_of(scope.training_run(request.auth.workspace, training))
    found = None if value is None else cost_to_reach(view.curves, metric, str(value))
    return _document(view, found)


def _document(view: TrainingView, found: CostToReach | None) -> dict[str, Any]:
    copied = (
        "name",
        "is_provisional",
        "goodput",
        "effective_share",
        "slowdown_seconds",
        "steps",
        "lost_steps",
    )
    address = reverse("dashboard:training", args=[view.runs[-1].pk])
    return {name: getattr(view, name) for name in copied} | {
        "id": view.training.uuid if view.training else None,
        "cost_usd": money(view.usd),
        "waiting_seconds": view.waiting.total_seconds(),
        "lost_is_unknown": view.is_unknown,
        "usd_per_step": money(view.usd_per_step),
        "ledger": [
            {name: getattr(line, name) for name in ("label", "is_waste", "seconds")}
            | {"usd": money(line.usd)}
            for line in (view.ledger.lines if view.ledger else ())
        ],
        "attempts": [_attempt(line) for line in view.attempts],
        "metrics": [
            {"name": curve.name, "is_less_better": curve.is_less_better}
            | {"points": [_reached(each) for each in curve.points]}
            for curve in view.curves
        ],
        "asked": found
        and {
            "metric": found.curve.name,
            "target": found.target,
            "reached": found.reached and _reached(found.reached),
        },
        "failures": [failure_out(failure) for failure in view.failures.failures],
        "url": settings.BASE_URL + address,
    }


def _reached(each: NewBest) -> dict[str, Any]:
    return {"value": each.value, "seconds": each.seconds, "usd": money(each.usd)}


def _attempt(line: AttemptLine) -> dict[str, Any]:
    return {
        "number": line.number,
        "run": line.run.pk,
        "run_number": line.run.number,
        "began": line.began,
        "ended": line.ended,
        "usd": money(line.usd),
        "lost_seconds": line.lost_seconds,
        "waited_seconds": None if line.waited is None else line.waited.total_seconds(),
        "continues": line.run.continues_id,
        "continues_by": line.run.continues_by or None,
    }
