"""The form of the advice settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms

from advisor.advice.buying import EC2, RESERVED, SPOT, WAYS
from webapp.accounts.models import Workspace
from webapp.advice import allowing

HELP = {
    SPOT: "cheaper, but interrupted: the run has to resume from checkpoints",
    EC2: "without SageMaker's premium; you operate the machines",
    RESERVED: "for machines in use most of the time; needs your reserved rate",
}


class BuyingForm(forms.Form):
    """`other_regions` is a list after validation."""

    may_buy = forms.MultipleChoiceField(choices=list(WAYS.items()), required=False)
    other_regions = forms.CharField(label="Other regions", max_length=1000, required=False)

    def __init__(self, workspace: Workspace, data: Mapping[str, Any] | None = None) -> None:
        regions = ", ".join(workspace.other_regions)
        super().__init__(data, initial={"may_buy": workspace.may_buy, "other_regions": regions})
        self.workspace = workspace

    @property
    def ways(self) -> list[tuple[str, str, str]]:
        """Name, label and help of each."""
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
