"""The forms of budgets."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django import forms
from django.db.models import QuerySet

from webapp.runs.models import Job
from webapp.spend.models import Budget

MOST_USD = Decimal(1_000_000_000)
LEAST_USD = Decimal("0.01")
KINDS = (("workspace", "The whole workspace"), ("job", "A job"), ("tag", "Runs with a tag"))


class FiguresForm(forms.Form):
    """The amount, and the alert threshold."""

    amount_usd = forms.DecimalField(
        label="USD per month", min_value=LEAST_USD, max_value=MOST_USD, decimal_places=2
    )
    threshold_pct = forms.IntegerField(
        label="Alert threshold, % of the budget",
        min_value=1,
        max_value=100,
        initial=80,
        help_text="You get a mail when this share of the budget is spent.",
    )


class BudgetForm(FiguresForm):
    """A new budget for the workspace, a job or a tag."""

    kind = forms.ChoiceField(label="Budget for", choices=KINDS)
    job = forms.ChoiceField(label="Job", required=False, help_text="For a job's budget.")
    tag = forms.CharField(
        label="Tag",
        required=False,
        max_length=401,
        help_text="For a tag's budget, for example team=vision.",
    )
    field_order = ("kind", "job", "tag", "amount_usd", "threshold_pct")

    def __init__(self, jobs: QuerySet[Job], taken: QuerySet[Budget], *args: Any, **more: Any):
        super().__init__(*args, **more)
        self._jobs, self._taken = {str(job.uuid): job for job in jobs}, taken
        choices = [("", "–"), *((key, job.name) for key, job in self._jobs.items())]
        self.fields["job"].choices = choices  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        kind = cleaned.get("kind")
        if kind == "job" and not cleaned.get("job"):
            self.add_error("job", "Choose a job.")
        key, separator, _ = cleaned.get("tag", "").partition("=")
        if kind == "tag" and not (key.strip() and separator):
            self.add_error("tag", "Write a tag as key=value, for example team=vision.")
        if not self.errors and self._is_taken():
            self.add_error(None, "This job, tag or workspace already has a budget.")
        return cleaned

    def budget(self) -> Budget:
        """Return the budget, unsaved and without its workspace."""
        values = self.cleaned_data
        return Budget(
            **self._subject(),
            amount_usd=values["amount_usd"],
            threshold_pct=values["threshold_pct"],
        )

    def _subject(self) -> dict[str, Any]:
        values = self.cleaned_data
        is_of_job, is_of_tag = values["kind"] == "job", values["kind"] == "tag"
        key, _, value = values["tag"].partition("=") if is_of_tag else ("", "", "")
        return {
            "job": self._jobs[values["job"]] if is_of_job else None,
            "tag_key": key.strip(),
            "tag_value": value.strip(),
        }

    def _is_taken(self) -> bool:
        return self._taken.filter(**self._subject()).exists()
