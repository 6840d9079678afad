"""The retention periods of a workspace."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from django import forms

from webapp.accounts.models import Workspace

MOST_DAYS = 36_500
FIELDS = {
    "keep_raw_days": "Single samples",
    "keep_tiers_days": "Means, steps, events and artefacts",
    "keep_runs_days": "Runs, with costs and findings",
}


class RetentionForm(forms.ModelForm):  # type: ignore[type-arg]
    """Form of days, at least 1; empty means forever. Results are kept at least as long as their
    samples.
    """

    class Meta:
        model = Workspace
        fields = list(FIELDS)
        labels = FIELDS

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        for name in FIELDS:
            self.fields[name] = forms.IntegerField(
                label=FIELDS[name], min_value=1, max_value=MOST_DAYS, required=False
            )
            self.fields[name].widget.attrs["placeholder"] = "forever"

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        problems: dict[str, str] = {}
        names = [name for name in FIELDS if name in cleaned]
        for shorter, longer in pairwise(names):
            if _days(cleaned[shorter]) > _days(cleaned[longer]):
                problems[longer] = f"This period can't be shorter than that of “{FIELDS[shorter]}”."
        for name, why in problems.items():
            self.add_error(name, why)
        return cleaned


def _days(value: int | None) -> float:
    return float("inf") if value is None else value
