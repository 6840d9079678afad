"""The forms of the advice settings and of what-if questions."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from django import forms

from advisor.advice.buying import EC2, RESERVED, SPOT, WAYS
from advisor.sizing.objective import Cheapest, Deadline, Fastest, Objective
from advisor.whatif import WhatIfQuestion
from webapp.accounts.models import Workspace
from webapp.advice import allowing
from webapp.advice.selectors.what_if import MOST_REGIONS

HELP = {
    SPOT: "cheaper, but interrupted: the run has to resume from checkpoints",
    EC2: "without SageMaker's premium; you operate the machines",
    RESERVED: "for machines in use most of the time; needs your reserved rate",
}


class BuyingForm(forms.Form):
    """Form of what the advisor may propose. `other_regions` is a list after validation."""

    may_buy = forms.MultipleChoiceField(choices=list(WAYS.items()), required=False)
    other_regions = forms.CharField(label="Other regions", max_length=1000, required=False)

    def __init__(self, workspace: Workspace, data: Mapping[str, Any] | None = None) -> None:
        regions = ", ".join(workspace.other_regions)
        super().__init__(data, initial={"may_buy": workspace.may_buy, "other_regions": regions})
        self.workspace = workspace

    @property
    def ways(self) -> list[tuple[str, str, str]]:
        """Return name, label and help of each way."""
        return [(name, label[0].upper() + label[1:], HELP[name]) for name, label in WAYS.items()]

    @property
    def chosen(self) -> list[str]:
        """The names of the ways that are ticked."""
        return list(self["may_buy"].value() or ())

    def clean_other_regions(self) -> list[str]:
        names = self.cleaned_data["other_regions"].replace(",", " ").split()
        try:
            return allowing.checked_regions(self.workspace, names)
        except allowing.RegionError as error:
            raise forms.ValidationError(f"{error} {error.fix}") from None


CHEAPEST, FASTEST, DEADLINE = "cheapest", "fastest", "deadline"
OBJECTIVES = {
    CHEAPEST: "the lowest cost",
    FASTEST: "the shortest time",
    DEADLINE: "the lowest cost before a deadline",
}
OPTIONS = {"on_demand": "on demand", "spot": "spot", "reserved": "reserved"}


class WhatIfForm(forms.Form):
    """Form of a question about a run, from the query of a page's address. An empty field means "as
    in the run".
    """

    objective = forms.ChoiceField(
        label="What counts", choices=list(OBJECTIVES.items()), initial=CHEAPEST, required=False
    )
    slower_pct = forms.FloatField(
        label="At most slower by, %", min_value=0, max_value=10_000, required=False
    )
    under_usd = forms.DecimalField(
        label="At most, USD a run",
        min_value=0,
        max_digits=18,
        decimal_places=9,
        required=False,
        help_text="For the shortest time: also the upper end of the estimate.",
    )
    deadline_hours = forms.FloatField(
        label="Done within, hours",
        min_value=0.001,
        max_value=100_000,
        required=False,
        help_text="For a deadline: also the upper end of the estimate.",
    )
    regions = forms.CharField(
        label="Regions",
        max_length=500,
        required=False,
        help_text="For example: us-west-2, eu-north-1. Empty: the run's.",
    )
    options = forms.MultipleChoiceField(
        label="Ways to buy", choices=list(OPTIONS.items()), required=False
    )
    interruption_hours = forms.FloatField(
        label="Hours between interruptions (spot)",
        min_value=0.1,
        max_value=100_000,
        required=False,
    )
    epochs = forms.FloatField(
        label="Amount of training",
        min_value=0.001,
        max_value=10_000,
        required=False,
        help_text="2: twice the epochs of this run. Empty: as many as this run.",
    )
    runs_a_month = forms.FloatField(
        label="Runs a month", min_value=0, max_value=1_000_000, required=False
    )

    @property
    def ticked(self) -> list[str]:
        return list(self["options"].value() or ())

    def clean_regions(self) -> tuple[str, ...]:
        names = dict.fromkeys(self.cleaned_data["regions"].replace(",", " ").split())
        if len(names) > MOST_REGIONS:
            raise forms.ValidationError(f"Name at most {MOST_REGIONS} regions.")
        return tuple(names)

    def clean(self) -> dict[str, Any]:
        said = super().clean() or self.cleaned_data
        for objective, field in ((FASTEST, "under_usd"), (DEADLINE, "deadline_hours")):
            if said.get("objective") == objective and said.get(field) is None:
                self.add_error(field, "Needed for this.")
        return said

    def question(self) -> WhatIfQuestion:
        """Return the question of a valid form."""
        said = self.cleaned_data
        return WhatIfQuestion(
            objective=self._objective(),
            regions=said["regions"],
            options=tuple(said["options"]),
            interruption_hours=said["interruption_hours"] or WhatIfQuestion.interruption_hours,
            work=said["epochs"] or WhatIfQuestion.work,
            runs_a_month=WhatIfQuestion.runs_a_month
            if said["runs_a_month"] is None
            else said["runs_a_month"],
        )

    def _objective(self) -> Objective:
        said = self.cleaned_data
        if said["objective"] == FASTEST:
            return Fastest(Decimal(said["under_usd"]))
        if said["objective"] == DEADLINE:
            return Deadline(said["deadline_hours"] * 3600)
        slower_pct = said["slower_pct"]
        return Cheapest(None if slower_pct is None else slower_pct / 100)
