"""What the write API takes: the shapes that its OpenAPI description shows."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

from ninja import Field, Schema
from pydantic import AfterValidator, ConfigDict, StringConstraints, model_validator
from trimtab.wire import LIMITS
from trimtab.wire.limits import is_storable

from webapp.runs.forms import MOST_USD
from webapp.runs.tags import MOST_TAGS


def _storable(text: str) -> str:
    if not is_storable(text):
        raise ValueError("has a NUL or half a character")
    return text


Name = Annotated[
    str,
    StringConstraints(strip_whitespace=True, max_length=LIMITS.name_chars),
    AfterValidator(_storable),
]
Key = Annotated[Name, StringConstraints(min_length=1)]
Tags = Annotated[
    dict[Key, Name | None],
    Field(
        max_length=MOST_TAGS,
        description="Key -> value; null takes the tag off; tags that aren't named stay.",
    ),
]
Usd = Annotated[Decimal, Field(ge=0, le=MOST_USD, decimal_places=9)]


class ChangeIn(Schema):
    """Fields that aren't sent stay as they are."""

    model_config = ConfigDict(extra="forbid")

    def said(self) -> dict[str, Any]:
        """The fields that were sent."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class MachineIn(ChangeIn):
    """What the run really ran on. What isn't sent stays as it is known."""

    node: int | None = Field(None, ge=1, le=1_000_000, description="Null: every node of the run.")
    instance_type: Key = ""
    region: Name = ""
    purchase_option: Literal["on_demand", "spot", "reserved"] = "on_demand"


class RunIn(ChangeIn):
    note: Annotated[str, StringConstraints(max_length=2000), AfterValidator(_storable)] = ""
    owner: Name = Field("", description="Whatever the agent sends later, this stays.")
    tags: Tags = {}
    is_excluded: bool = Field(False, description="No run is compared with it.")
    is_pinned: bool = Field(False, description="Later runs are compared with pinned runs alone.")
    billed_usd: Usd | None = Field(None, description="What the provider billed; null: not known.")

    machine: MachineIn | None = Field(None, description="Corrects it: the run is priced again.")

    @model_validator(mode="after")
    def _is_one_of_both(self) -> RunIn:
        if self.is_excluded and self.is_pinned:
            raise ValueError("A run is excluded or pinned, not both.")
        return self


class JobIn(ChangeIn):
    name: Annotated[
        str,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=200),
        AfterValidator(_storable),
    ] = Field("", description="Agents may go on sending the old one.")
    owner: Name = Field("", description="Of the runs that name none; so are the tags.")
    tags: Tags = {}
    merged_into: UUID | None = Field(
        None, description="The job that its runs go to, with those to come; null undoes that."
    )
