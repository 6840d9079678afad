"""Forms for the preset and the thresholds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.forms import BoundField

from rules import materiality
from rules.overrides import parse_overrides
from rules.parameter import Parameter, Values
from rules.registry import all_rules, parameter_of
from rules.rule import Rule
from webapp.thresholds.values import Overrides

MOST_TEXT = 20_000
PRESETS = (
    ("save", "Save: also reports small waste"),
    ("balanced", "Balanced"),
    ("safe", "Safe: reports only clear cases"),
)


class ParameterField(forms.CharField):
    """One parameter as text. Cleans to a number, or None if empty (the inherited value applies)."""

    def __init__(self, parameter: Parameter) -> None:
        super().__init__(required=False, max_length=40, label=parameter.help)
        self.parameter = parameter
        if parameter.choices:
            self.choices = [("", "default"), *((c, c) for c in parameter.choices)]

    def clean(self, value: Any) -> float | None:
        text: str = super().clean(value)
        if not text:
            return None
        try:
            return self.parameter.check(self.parameter.parse(text))
        except ValueError as error:
            raise forms.ValidationError(str(error)) from None


@dataclass(frozen=True)
class ParameterLine:
    """One parameter, its field, and the value that applies if the field is empty."""

    parameter: Parameter
    field: BoundField
    inherited: str


class ParametersForm(forms.Form):
    """All parameters of all rules, `<rule>.<parameter>`, and a field for several at once."""

    assignments = forms.CharField(
        label="Set several at once",
        required=False,
        max_length=MOST_TEXT,
        widget=forms.Textarea,
        help_text="One per line: low_gpu_utilization.threshold_p95=60. "
        "SageMaker's names work too: LowGPUUtilization_threshold_p95=60.",
    )

    def __init__(
        self,
        own: Overrides,
        inherited: Mapping[str, Values],
        data: Mapping[str, Any] | None = None,
        preset: str = "",
    ) -> None:
        super().__init__(data, initial={"preset": preset, **_written(own)})
        self._inherited = inherited
        for owner, parameters in _owners():
            for parameter in parameters:
                self.fields[f"{owner}.{parameter.name}"] = ParameterField(parameter)

    def shared_lines(self) -> list[ParameterLine]:
        """Return the parameters of all rules."""
        return [self._line(materiality.SHARED, each) for each in materiality.PARAMETERS]

    def groups(self) -> Iterator[tuple[Rule, list[ParameterLine], bool]]:
        """Yield each rule with parameters, their lines, and whether any of them is set or
        invalid.
        """
        for rule in all_rules().values():
            lines = [self._line(rule.id, parameter) for parameter in rule.parameters]
            if lines:
                yield rule, lines, any(line.field.value() or line.field.errors for line in lines)

    def clean_assignments(self) -> Overrides:
        lines = self.cleaned_data["assignments"].splitlines()
        try:
            return parse_overrides(line for line in lines if line.strip())
        except ValueError as error:
            raise forms.ValidationError(str(error)) from None

    def own(self) -> Overrides:
        """Return the values set; a line overrides the field of the same parameter."""
        overrides: Overrides = {}
        for owner, parameters in _owners():
            values = {p.name: self.cleaned_data[f"{owner}.{p.name}"] for p in parameters}
            values |= self.cleaned_data["assignments"].get(owner, {})
            if kept := {name: value for name, value in values.items() if value is not None}:
                overrides[owner] = kept
        return overrides

    def _line(self, owner: str, parameter: Parameter) -> ParameterLine:
        inherited = self._inherited[owner][parameter.name]
        name = f"{owner}.{parameter.name}"
        return ParameterLine(parameter, self[name], as_text(parameter, inherited))


class WorkspaceRulesForm(ParametersForm):
    """Form with the preset, which only the workspace has."""

    preset = forms.ChoiceField(label="Preset", choices=PRESETS)


def _owners() -> Iterator[tuple[str, tuple[Parameter, ...]]]:
    """Yield all rules together, then each rule, with the parameters."""
    yield materiality.SHARED, materiality.PARAMETERS
    for rule in all_rules().values():
        yield rule.id, rule.parameters


def as_text(parameter: Parameter, value: float) -> str:
    """Return a number, or the word of a choice."""
    return parameter.choices[int(value)] if parameter.choices else f"{value:.12g}"


def _written(own: Overrides) -> dict[str, str]:
    """Return each value as text, by `<rule>.<parameter>`."""
    return {
        f"{rule}.{name}": as_text(parameter_of(rule, name), value)
        for rule, values in own.items()
        for name, value in values.items()
    }
