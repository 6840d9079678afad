"""A threshold that a workspace or job may set: typed, bounded, known by SageMaker's name too."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

Preset = Literal["save", "balanced", "safe"]
PRESETS: tuple[Preset, ...] = get_args(Preset)
Values = Mapping[str, float]
"""Parameter name -> value, complete (defaults filled in)."""
SAGEMAKER_SAMPLE_SECONDS = 0.5
"""SageMaker counts samples where we count seconds; it takes two a second unless told otherwise."""
MINUTE_SECONDS = 60.0


@dataclass(frozen=True)
class Parameter:
    """One threshold. A choice is kept as its position in `choices`."""

    name: str
    unit: str
    default: float
    low: float
    high: float
    help: str
    source: str
    sagemaker_name: str = ""
    sagemaker_factor: float = 1.0
    """Our value over SageMaker's: 0.5 where it counts samples, 60 where it counts minutes."""
    whole: bool = False
    choices: tuple[str, ...] = ()
    save: float | None = None
    safe: float | None = None
    """What the presets say instead of the default; None: the same. Ours, all of them: `save` takes
    smaller leaks for one too, `safe` speaks up only where there is hardly a doubt."""
    measured: bool = False
    """`measure` uses it: to judge by another value takes the samples, not just stored numbers."""

    def of_preset(self, preset: Preset) -> float:
        """The value before a workspace or job sets its own."""
        chosen = {"save": self.save, "balanced": None, "safe": self.safe}[preset]
        return self.default if chosen is None else chosen

    def checked(self, value: float) -> float:
        """`value` if it is allowed. Raises ValueError naming what is."""
        if not (math.isfinite(value) and self.low <= value <= self.high):
            raise ValueError(f"{self.name} = {value} is outside {self.low}..{self.high}")
        if (self.whole or self.choices) and value != int(value):
            raise ValueError(f"{self.name} = {value} is not a whole number")
        return float(value)

    def parsed(self, text: str) -> float:
        """The value that a person wrote. Raises ValueError naming what is allowed."""
        text = text.strip()
        if self.choices:
            known = {choice.lower(): number for number, choice in enumerate(self.choices)}
            if text.lower() not in known:
                raise ValueError(f"{self.name} = {text!r} is none of {', '.join(self.choices)}")
            return float(known[text.lower()])
        try:
            return float(text)
        except ValueError:
            raise ValueError(f"{self.name} = {text!r} is not a number of {self.unit}") from None


def complete(rule_id: str, parameters: Iterable[Parameter], overrides: Values) -> dict[str, float]:
    """Defaults, then `overrides` by our name in our unit or by SageMaker's name in its unit.

    Raises:
        ValueError: an unknown parameter or a value that isn't allowed; names it.
    """
    ours = {p.name: p for p in parameters}
    theirs = {p.sagemaker_name.lower(): p for p in ours.values() if p.sagemaker_name}
    found = {p.name: p.default for p in ours.values()}
    for name, value in overrides.items():
        parameter = ours.get(name) or theirs.get(name.lower())
        if parameter is None:
            raise ValueError(f"{rule_id} has no parameter {name!r}; it has {', '.join(ours)}")
        factor = 1.0 if name in ours else parameter.sagemaker_factor
        try:
            found[parameter.name] = parameter.checked(factor * value)
        except ValueError as problem:
            raise ValueError(f"{rule_id}.{problem}") from None
    return found
