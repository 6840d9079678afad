"""The advice settings: which ways to buy, and which regions, the advisor may propose."""

from __future__ import annotations

from typing import Any, Literal

from ninja import Field, Router, Schema
from pydantic import ConfigDict

from webapp.accounts.access import TokenRequest
from webapp.accounts.bearer import Bearer
from webapp.accounts.models import Token, Workspace
from webapp.advice import allowing
from webapp.api.changes import Key
from webapp.http.problems import Problem

router = Router(tags=["recommendations"])
Way = Literal["spot", "ec2", "reserved"]
_WAYS = "`spot`, `ec2` (instead of SageMaker), `reserved` (commitments)."


class BuyingOut(Schema):
    may_buy: list[Way] = Field(description=_WAYS)
    other_regions: list[str] = Field(description="Regions beside that of a run.")


class BuyingIn(Schema):
    model_config = ConfigDict(extra="forbid")

    may_buy: list[Way] = Field(max_length=10, description=_WAYS)
    other_regions: list[Key] = Field(
        max_length=allowing.MOST_REGIONS,
        description="Regions beside that of a run; each must have prices.",
    )


@router.get(
    "/buying",
    response=BuyingOut,
    auth=Bearer(Token.READ),
    summary="The ways to buy and the regions that the advisor may propose",
)
def get_buying(request: TokenRequest) -> dict[str, Any]:
    """Answers the ways and regions that advice may propose. By default there are none: advice keeps
    to how and where a job runs.
    """
    return _document(request.auth.workspace)


@router.put(
    "/buying",
    response=BuyingOut,
    auth=Bearer(Token.WRITE),
    summary="Set the ways to buy and the regions that the advisor may propose",
)
def put_buying(request: TokenRequest, wanted: BuyingIn) -> dict[str, Any]:
    """Replaces what was allowed before, and renews the recommendations within minutes. Needs a
    token that an owner created."""
    if not request.auth.is_an_owners:
        fix = "Use a token that an owner created."
        raise Problem(403, "Only owners can set what may be bought.", "Authorization", fix)
    workspace = request.auth.workspace
    try:
        regions = allowing.checked_regions(workspace, wanted.other_regions)
    except allowing.RegionError as error:
        raise Problem(422, str(error), "other_regions", error.fix) from None
    allowing.save(workspace, request.auth, wanted.may_buy, regions)
    workspace.refresh_from_db()
    return _document(workspace)


def _document(workspace: Workspace) -> dict[str, Any]:
    return {"may_buy": workspace.may_buy, "other_regions": workspace.other_regions}
