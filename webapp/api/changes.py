"""The inputs of the write API, as its OpenAPI description shows them."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

from ninja import Field, Schema
from pydantic import AfterValidator, ConfigDict, StringConstraints, model_validator
from trimtab.wire import LIMITS
from trimtab.wire.limits import is_storable

from advisor.comparison.job_metrics import (
    MOST_LOSS,
    MOST_METRICS,
    MOST_NAME_CHARACTERS,
    Direction,
    Unit,
)
from webapp.runs.forms import MOST_USD
from webapp.runs.tags import MOST_TAGS


def _storable(text: str) -> str:
    if not is_storable(text):
        raise ValueError("contains NUL or an incomplete character")
    return text


Name = Annotated[
    str,
    StringConstraints(strip_whitespace=True, max_length=LIMITS.name_chars),
    AfterValidator(_storable),
]
Key = Annotated[Name, StringConstraints(min_length=1)]
MetricName = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=MOST_NAME_CHARACTERS),
    AfterValidator(_storable),
]
Tags = Annotated[
    dict[Key, Name | None],
    Field(
        max_length=MOST_TAGS,
        description="Key -> value; null removes a tag; tags that aren't sent stay.",
    ),
]
Usd = Annotated[Decimal, Field(ge=0, le=MOST_USD, decimal_places=9)]


class ChangeIn(Schema):
    """Fields that aren't sent stay as they are."""

    model_config = ConfigDict(extra="forbid")

    def sent_fields(self) -> dict[str, Any]:
        """Return the fields that were sent."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class MachineIn(ChangeIn):
    """Corrected machine of a run. Fields that aren't sent stay as they are known."""

    node: int | None = Field(None, ge=1, le=1_000_000, description="Null: every node of the run.")
    instance_type: Key = ""
    region: Name = ""
    purchase_option: Literal["on_demand", "spot", "reserved", "capacity_block"] = "on_demand"
    is_confirmed: bool = Field(
        False, description="Save the type even if no price is known and it may be a mistake."
    )


class RunIn(ChangeIn):
    note: Annotated[str, StringConstraints(max_length=2000), AfterValidator(_storable)] = ""
    owner: Name = Field("", description="Kept even if the agent sends another value later.")
    tags: Tags = {}
    is_excluded: bool = Field(False, description="No other run is compared with this run.")
    is_pinned: bool = Field(False, description="Later runs are compared only with pinned runs.")
    billed_usd: Usd | None = Field(
        None, description="The amount that the provider billed; null: unknown."
    )

    machine: MachineIn | None = Field(
        None, description="Corrections to the machine; the cost of the run is computed again."
    )

    @model_validator(mode="after")
    def _is_one_of_both(self) -> RunIn:
        if self.is_excluded and self.is_pinned:
            raise ValueError("A run can't be both excluded and pinned.")
        return self


class MetricIn(ChangeIn):
    direction: Direction | None = Field(
        None, description="Which values are better; `ignore`: no quality; null: by its name."
    )
    tolerated_loss: float | None = Field(
        None,
        ge=0,
        le=MOST_LOSS,
        allow_inf_nan=False,
        description="How much worse a run may be when a saving is claimed; null: by its noise.",
    )
    unit: Unit = Field("percent", description="A point is 0.01 of a metric from 0 to 1, else 1.")


class JobIn(ChangeIn):
    name: Annotated[
        str,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=200),
        AfterValidator(_storable),
    ] = Field("", description="Agents may keep sending the old name.")
    owner: Name = Field(
        "", description="Applies to runs without an owner of their own; tags likewise."
    )
    tags: Tags = {}
    metrics: dict[MetricName, MetricIn | None] = Field(
        {},
        max_length=MOST_METRICS,
        description="Metric -> how it is judged; null removes it; those that aren't sent stay.",
    )
    merged_into: UUID | None = Field(
        None,
        description="The job that takes over all runs, future ones too; null undoes the merge.",
    )
