"""The forms to edit runs and jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from django import forms

from advisor.comparison import job_metrics
from advisor.money import plain_usd
from advisor.pricing.providers import providers
from webapp.runs import tags
from webapp.runs.editing import jobs, machines
from webapp.runs.models import Job, Node, Run

USUAL, PINNED, EXCLUDED = "usual", "pinned", "excluded"
BASELINE = (
    (USUAL, "Default"),
    (PINNED, "Pinned"),
    (EXCLUDED, "Excluded"),
)
PURCHASE_OPTIONS = {
    "on_demand": "On demand",
    "spot": "Spot",
    "reserved": "Reserved",
    "capacity_block": "Capacity block",
}
"""The purchase options that agents report."""
MOST_USD = Decimal(1_000_000_000)


class TagsField(forms.CharField):
    """Tags, one `key=value` per line, as a dict."""

    widget = forms.Textarea

    def prepare_value(self, value: Any) -> Any:
        return tags.as_lines(value) if isinstance(value, dict) else value

    def clean(self, value: Any) -> Any:
        text: str = super().clean(value)
        try:
            return tags.from_lines(text)
        except ValueError as error:
            raise forms.ValidationError(str(error)) from None


class MetricsField(forms.CharField):
    """Settings of metrics, one `NAME: DIRECTION, LOSS` per line, as `Job.metrics` has them."""

    widget = forms.Textarea

    def prepare_value(self, value: Any) -> Any:
        is_document = isinstance(value, dict)
        return job_metrics.as_lines(job_metrics.from_document(value)) if is_document else value

    def clean(self, value: Any) -> Any:
        text: str = super().clean(value)
        try:
            return job_metrics.to_document(job_metrics.from_lines(text))
        except ValueError as error:
            raise forms.ValidationError(str(error)) from None


class RunForm(forms.Form):
    """Details that people add to a run."""

    note = forms.CharField(
        label="Note", required=False, max_length=2000, widget=forms.Textarea, strip=True
    )
    owner = forms.CharField(label="Owner", required=False, max_length=120)
    tags = TagsField(
        label="Tags",
        required=False,
        help_text="One per line, for example team=vision. "
        "The agent never overwrites tags that you change here.",
    )
    baseline = forms.ChoiceField(
        label="Baseline",
        choices=BASELINE,
        help_text="If a job has pinned runs, later runs are compared only with those. "
        "Excluded runs are never compared. The verdicts update at once.",
    )

    @classmethod
    def from_run(cls, run: Run) -> RunForm:
        """Return the form with the current values."""
        usual = EXCLUDED if run.is_excluded else USUAL
        known = {"note": run.note, "owner": run.owner, "tags": run.tags}
        return cls(initial=known | {"baseline": PINNED if run.is_pinned else usual})

    def clean_note(self) -> str:
        """Remove the carriage returns that browsers send at line ends and the API doesn't."""
        return str(self.cleaned_data["note"]).replace("\r\n", "\n")

    def values(self) -> dict[str, Any]:
        """Return the cleaned data as fields of a run."""
        entered = dict(self.cleaned_data)
        baseline = entered.pop("baseline")
        return entered | {"is_pinned": baseline == PINNED, "is_excluded": baseline == EXCLUDED}


class BillForm(forms.Form):
    """The amount that the provider billed; empty if unknown."""

    billed_usd = forms.DecimalField(
        label="Billed, in USD",
        required=False,
        min_value=0,
        max_value=MOST_USD,
        decimal_places=9,
        help_text="Leave empty if unknown.",
    )

    @classmethod
    def from_run(cls, run: Run) -> BillForm:
        """Return the form with the run's billed amount."""
        known = run.billed_usd
        return cls(initial={"billed_usd": None if known is None else plain_usd(known)})


class MachineForm(forms.Form):
    """The run's actual machine. `node`: a number, or empty for all nodes."""

    node = forms.ChoiceField(label="Node", required=False)
    instance_type = forms.CharField(label="Instance type", max_length=120)
    provider = forms.ChoiceField(label="Provider", required=False)
    region = forms.CharField(label="Region", required=False, max_length=120)
    purchase_option = forms.ChoiceField(label="Purchase option")

    def __init__(self, nodes: Sequence[Node], said: Mapping[str, Any] | None = None) -> None:
        first = nodes[0] if nodes else Node()
        known = {name: getattr(first, name) for name in machines.FIELDS}
        corrected = {"provider": first.provider if "provider" in first.declared else ""}
        super().__init__(said, initial=known | corrected)
        each = [(str(node.number), f"{node.number}: {node}") for node in nodes]
        self._choice("node", [("", f"All {len(nodes)} nodes"), *each])
        sellers = sorted((each.title, each.name) for each in providers().values())
        by_name = [(name, title) for title, name in sellers]
        self._choice("provider", [("", "The one that offers the type"), *by_name])
        self._choice("purchase_option", _options(first.purchase_option))
        if len(nodes) < 2:
            del self.fields["node"]

    def _choice(self, field: str, choices: list[tuple[str, str]]) -> None:
        self.fields[field].choices = choices  # type: ignore[attr-defined]

    @property
    def node_number(self) -> int | None:
        return int(self.cleaned_data.get("node") or 0) or None

    def values(self) -> dict[str, str]:
        return {name: self.cleaned_data[name] for name in machines.FIELDS}


def _options(known: str) -> list[tuple[str, str]]:
    """Return the field's help text, with the agent's value if it differs."""
    others = {} if known in PURCHASE_OPTIONS else {known: known.replace("_", " ")}
    return [*PURCHASE_OPTIONS.items(), *others.items()]


class JobForm(forms.Form):
    """The displayed name, the default owner and tags of runs, and how metrics are judged."""

    name = forms.CharField(
        label="Name",
        max_length=200,
        help_text="Agents can keep sending the old name. Their runs still belong to this job.",
    )
    owner = forms.CharField(
        label="Owner",
        required=False,
        max_length=120,
        help_text="Applies to runs without an owner of their own. Tags work the same way.",
    )
    tags = TagsField(
        label="Tags", required=False, help_text="One per line, for example team=vision."
    )
    metrics = MetricsField(
        label="Metrics",
        required=False,
        help_text="One per line, for example “val/auroc: higher, 2 %” or “gamma: ignore”. "
        "The direction is higher, lower or ignore. "
        "The loss, in % or points, is how much worse a run may be when a saving is claimed. "
        "A point is 0.01 of a metric from 0 to 1, else 1. "
        "Metrics without a line are judged by their name and their noise.",
    )

    @classmethod
    def from_job(cls, job: Job) -> JobForm:
        """Return the form with the job's current values."""
        return cls(initial={name: getattr(job, name) for name in jobs.FIELDS})


class MergeForm(forms.Form):
    """The name of the job that receives the runs."""

    into = forms.CharField(label="Target job", max_length=200)
