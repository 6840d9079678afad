"""What-if questions: what a run would take and cost if it were run, bought or placed in another
way.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

from ninja import Field, Router, Schema
from pydantic import ConfigDict

from advisor.sizing.candidates import Candidate
from advisor.sizing.objective import Cheapest, Deadline, Fastest, Objective
from advisor.whatif import WhatIfQuestion
from webapp.accounts.access import TokenRequest
from webapp.accounts.bearer import Bearer
from webapp.accounts.models import Token
from webapp.advice.selectors.what_if import MOST_REGIONS, UnanswerableError, WhatIf, what_if_of
from webapp.api.amounts import money
from webapp.api.changes import Key, Usd
from webapp.api.description import problem
from webapp.http.problems import Problem
from webapp.runs import scope

router = Router(tags=["recommendations"])
MOST_ROWS = 50
_COPIED = (
    "instance_type",
    "node_count",
    "purchase_option",
    "region",
    "time_low_seconds",
    "time_mid_seconds",
    "time_high_seconds",
    "is_estimated_price",
    "rejected_because",
    "to_check",
)
_USD = ("usd_per_hour", "cost_low_usd", "cost_mid_usd", "cost_high_usd")


class WhatIfIn(Schema):
    """Question about a run. Fields that aren't sent stay as in the run."""

    model_config = ConfigDict(extra="forbid")

    objective: Literal["cheapest", "fastest", "deadline"] = "cheapest"
    slower_pct: float | None = Field(
        None, ge=0, le=10_000, description="`cheapest`: at most so much slower; null: however long."
    )
    under_usd: Usd | None = Field(None, description="`fastest`: at most this amount a run.")
    deadline_seconds: float | None = Field(
        None, gt=0, le=1e9, description="`deadline`: the cheapest that is done within this time."
    )
    regions: list[Key] = Field([], max_length=MOST_REGIONS, description="Empty: the run's.")
    options: list[Literal["on_demand", "spot", "reserved"]] = Field(
        [], max_length=3, description="Ways to buy; empty: the run's."
    )
    checkpoint_seconds: float | None = Field(
        None,
        gt=0,
        le=1e6,
        description="For how long a checkpoint stops the training; not sent: as recorded; null: "
        "none is saved. For spot only, as are the next two.",
    )
    checkpoint_interval_seconds: float | None = Field(
        None, gt=0, le=1e7, description="Null: the interval that costs least."
    )
    interruption_hours: float = Field(
        24.0, ge=0.1, le=1e5, description="Mean time between interruptions of a spot node."
    )
    epochs: float = Field(1.0, gt=0, le=1e4, description="Amount of training over the run's.")
    runs_a_month: float = Field(1.0, ge=0, le=1e6)


class MachinesOut(Schema):
    instance_type: str
    node_count: int
    purchase_option: str
    region: str
    gpus: int = Field(description="Of each machine.")
    gpu_model: str
    rung: str = Field(
        description="How the speed is known: measured, same, history or prior. What is only "
        "`prior` has to be measured before it is relied on."
    )
    usd_per_hour: str | None = Field(description="Of one machine; null: no price.")
    is_estimated_price: bool
    time_low_seconds: float
    time_mid_seconds: float
    time_high_seconds: float
    cost_low_usd: str | None = Field(description="Of a run, as are the next two.")
    cost_mid_usd: str | None
    cost_high_usd: str | None
    rejected_because: str = Field(description="Why they can't do the work; empty: they can.")
    to_check: str = Field(
        description="What speaks for them although their provider's list lacks them; empty: they "
        "are listed."
    )


class WhatIfOut(Schema):
    chosen: MachinesOut | None = Field(description="Null: the objective allows none.")
    present: MachinesOut | None = Field(
        description="The run's own; null: their region or way to buy wasn't asked for."
    )
    monthly_usd: str | None = Field(description="Of the chosen ones; null: no price.")
    checkpoint_interval_seconds: float | None = Field(
        description="On spot, with the run's number of nodes; null: no checkpoints, or no spot."
    )
    front: list[MachinesOut] = Field(
        description="Than which none are both faster and cheaper, the fastest first."
    )
    table: list[MachinesOut] = Field(
        description=f"The first {MOST_ROWS}: those that fit, then by cost."
    )
    table_count: int = Field(description="How many there are.")


@router.post(
    "/runs/{run_id}/what-if",
    response=WhatIfOut,
    auth=Bearer(Token.READ),
    summary="A run on other machines, bought otherwise or elsewhere",
    openapi_extra={"responses": {404: problem(404)}},
)
def post_what_if(request: TokenRequest, run_id: UUID, asked: WhatIfIn) -> dict[str, Any]:
    """Answers a what-if question and changes nothing. The answer uses stored figures of a finished
    run; 422 if these or prices are missing. It is no advice: the fastest machines may cost more
    than today's.
    """
    run = scope.run_or_404(request.auth.workspace, run_id)
    run.workspace = request.auth.workspace
    is_recorded = "checkpoint_seconds" not in asked.model_fields_set
    try:
        found = what_if_of(run, _question(asked), is_recorded)
    except UnanswerableError as error:
        raise Problem(422, str(error), error.field, error.fix) from None
    return _document(found)


def _question(asked: WhatIfIn) -> WhatIfQuestion:
    return WhatIfQuestion(
        objective=_objective(asked),
        regions=tuple(dict.fromkeys(asked.regions)),
        options=tuple(dict.fromkeys(asked.options)),
        checkpoint_seconds=asked.checkpoint_seconds,
        checkpoint_interval_seconds=asked.checkpoint_interval_seconds,
        interruption_hours=asked.interruption_hours,
        work=asked.epochs,
        runs_a_month=asked.runs_a_month,
    )


def _objective(asked: WhatIfIn) -> Objective:
    if asked.objective == "fastest":
        return Fastest(Decimal(_needed(asked, "under_usd")))
    if asked.objective == "deadline":
        return Deadline(float(_needed(asked, "deadline_seconds")))
    return Cheapest(None if asked.slower_pct is None else asked.slower_pct / 100)


def _needed(asked: WhatIfIn, field: str) -> Any:
    value = getattr(asked, field)
    if value is None:
        detail = f"The objective {asked.objective!r} needs {field}."
        raise Problem(422, detail, field, f"Send {field}, or the objective 'cheapest'.")
    return value


def _document(found: WhatIf) -> dict[str, Any]:
    answer = found.answer
    return {
        "chosen": _machines(found, answer.chosen),
        "present": _machines(found, found.present),
        "monthly_usd": money(answer.monthly_usd),
        "checkpoint_interval_seconds": answer.interval_seconds,
        "front": [_machines(found, each) for each in answer.front],
        "table": [_machines(found, each) for each in answer.table[:MOST_ROWS]],
        "table_count": len(answer.table),
    }


def _machines(found: WhatIf, each: Candidate | None) -> dict[str, Any] | None:
    if each is None:
        return None
    usd = {name: money(getattr(each, name)) for name in _USD}
    hardware = {"gpus": each.machine.gpu_count, "gpu_model": each.machine.gpu_model}
    copied = {name: getattr(each, name) for name in _COPIED}
    return copied | usd | hardware | {"rung": found.rung(each)}
