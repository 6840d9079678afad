"""The money of one run, as its page shows it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from ninja import Field, Schema

from advisor.costing.electricity import Electricity
from advisor.costing.projection import Projection
from webapp.analysis.selectors import run_money
from webapp.analysis.selectors.verdict import RunVerdict
from webapp.api.amounts import money
from webapp.runs.models import Run


class PhaseCostOut(Schema):
    name: str
    usd: str


class ProjectedOut(Schema):
    usd: str = Field(description="Forecast for the end of the run at its current pace.")
    unit: str
    done: float
    planned: float
    seconds_left: float


class UnitCostOut(Schema):
    unit: str
    usd: str = Field(description="Cost per `amount` of the unit, exact to 28 digits.")
    amount: int


class BestValueOut(Schema):
    metric: str
    value: float
    seconds: float
    usd: str | None = Field(description="Cost of the run up to that moment.")


class VerdictOut(Schema):
    title: str
    status: str = Field(description="`ok`, `suspected`, `confirmed`, `open` or `cleared`.")
    rung: str = Field(description="`baseline`, `caveat` or `level`.")
    direction: str
    since: int | None = Field(description="Number of the first run at the new level.")
    unit: str
    baseline_runs: int
    change: float | None = Field(
        description="Of machine time per unit; 0.1: 10 % above the baseline."
    )
    detects: float | None = Field(
        description="The smallest change that can be detected with this history."
    )
    sentence: str
    causes: list[str]
    beside: list[str] = Field(
        description="What else changed the cost: price, share of the machine, start-up, data."
    )
    noise: str
    machines: list[str] = Field(description="Machines on which runs take longer or less.")
    regression_since: int | None = Field(description="First run of the regression that is open.")
    ended_since: int | None = Field(description="First run of the regression that this run ended.")


class ElectricityOut(Schema):
    usd: str | None = Field(description="In the cost; null: no power was measured.")
    joules: int | None = Field(description="Of the GPUs; null: not measured.")
    measured_share: float = Field(description="Of the time of the machines, 0..1.")
    rates: list[str]
    words: str


class RunMoneyOut(Schema):
    basis: str = Field(description="The price basis: `list` or `your rate`.")
    list_usd: str | None = Field(description="The run at the list price; null: no list price.")
    phases: list[PhaseCostOut] = Field(description="They sum to the cost.")
    projected: ProjectedOut | None
    per_work: list[UnitCostOut]
    until_best: list[BestValueOut]
    electricity: ElectricityOut | None = Field(
        description="Of your own machines; null: no rate of them has a price for it."
    )
    notes: list[str]
    billed_difference_usd: str | None = Field(description="Billed minus computed cost, signed.")
    verdict: VerdictOut | None = Field(description="Compared with earlier comparable runs.")


def document(run: Run) -> dict[str, Any]:
    """Return the money as `RunMoneyOut` has it."""
    amounts = run_money.run_money(run)
    return {
        "basis": amounts.basis,
        "list_usd": money(amounts.list_usd),
        "phases": [{"name": phase.name, "usd": money(phase.usd)} for phase in amounts.phases],
        "projected": _projected(amounts.projected),
        "per_work": [
            {"unit": unit.unit, "amount": unit.amount, "usd": money(usd)}
            for unit, usd in amounts.per_work
        ],
        "until_best": [
            {"metric": best.name, "value": best.value, "seconds": best.seconds}
            | {"usd": money(best.usd)}
            for best in amounts.until_best
        ],
        "electricity": _electricity(amounts.electricity),
        "notes": amounts.notes,
        "billed_difference_usd": money(amounts.billed_difference_usd),
        "verdict": verdict_document(amounts.verdict),
    }


def _projected(projected: Projection | None) -> dict[str, Any] | None:
    return None if projected is None else {name: _plain(v) for name, v in vars(projected).items()}


def _electricity(found: Electricity | None) -> dict[str, Any] | None:
    return None if found is None else {**vars(found), "usd": money(found.usd), "words": found.words}


def verdict_document(verdict: RunVerdict | None) -> dict[str, Any] | None:
    if verdict is None:
        return None
    return {name: getattr(verdict, name) for name in VerdictOut.model_fields}


def _plain(value: Any) -> Any:
    return money(value) if isinstance(value, Decimal) else value
