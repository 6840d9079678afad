"""A training: all attempts of the runs that continue one another."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.urls import reverse
from ninja import Field, Query, Router, Schema

from webapp.accounts.access import TokenRequest
from webapp.accounts.bearer import Bearer
from webapp.accounts.models import Token
from webapp.analysis.selectors.training import AttemptLine, TrainingView, training_of
from webapp.api.amounts import money
from webapp.api.description import problem
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
) -> dict[str, Any]:
    """A run that continues no other one is a training of its own."""
    return _document(training_of(scope.training_run(request.auth.workspace, training)))


def _document(view: TrainingView) -> dict[str, Any]:
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
        "url": settings.BASE_URL + address,
    }


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
    }
