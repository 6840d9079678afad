"""A threshold that a workspace or job can set: typed, bounded, also under SageMaker's name."""

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
"""SageMaker counts samples, we count seconds; by default it takes two samples a second."""
MINUTE_SECONDS = 60.0


@dataclass(frozen=True)
class Parameter:
    """One threshold. A choice is stored as its position in `choices`."""

    name: str
    unit: str
    default: float
    low: float
    high: float
    help: str
    source: str
    sagemaker_name: str = ""
    sagemaker_factor: float = 1.0
    """Our value divided by SageMaker's: 0.5 if it counts samples, 60 if it counts minutes."""
    whole: bool = False
    choices: tuple[str, ...] = ()
    save: float | None = None
    safe: float | None = None
    """The presets' values instead of the default; None: the default. All are ours: `save` also
    reports small waste, `safe` only clear cases."""
    measured: bool = False
    """`measure` uses it: a new value needs the samples, not just the stored numbers."""

    def of_preset(self, preset: Preset) -> float:
        """Return the value that applies unless a workspace or job sets its own."""
        chosen = {"save": self.save, "balanced": None, "safe": self.safe}[preset]
        return self.default if chosen is None else chosen

    def check(self, value: float) -> float:
        """Returns `value` if it is allowed, else raises ValueError that names the bounds."""
        if not (math.isfinite(value) and self.low <= value <= self.high):
            raise ValueError(f"{self.name} = {value} is outside {self.low}..{self.high}")
        if (self.whole or self.choices) and value != int(value):
            raise ValueError(f"{self.name} = {value} is not a whole number")
        return float(value)

    def parse(self, text: str) -> float:
        """Parse a value. Raises ValueError that names the choices or the unit."""
        text = text.strip()
        if self.choices:
            known = {choice.lower(): number for number, choice in enumerate(self.choices)}
            if text.lower() not in known:
                raise ValueError(f"{self.name} = {text!r} is not one of {', '.join(self.choices)}")
            return float(known[text.lower()])
        try:
            return float(text)
        except ValueError:
            raise ValueError(f"{self.name} = {text!r} is not a number ({self.unit})") from None


def complete(rule_id: str, parameters: Iterable[Parameter], overrides: Values) -> dict[str, float]:
    """Return the defaults with `overrides`, by our names in our units or by SageMaker's in its
    units.

    Raises:
        ValueError: an unknown parameter or a value that isn't allowed; names it.
    """
    ours = {p.name: p for p in parameters}
    theirs = {p.sagemaker_name.lower(): p for p in ours.values() if p.sagemaker_name}
    values = {p.name: p.default for p in ours.values()}
    for name, value in overrides.items():
        parameter = ours.get(name) or theirs.get(name.lower())
        if parameter is None:
            raise ValueError(f"{rule_id} has no parameter {name!r}; it has {', '.join(ours)}")
        factor = 1.0 if name in ours else parameter.sagemaker_factor
        try:
            values[parameter.name] = parameter.check(factor * value)
        except ValueError as problem:
            raise ValueError(f"{rule_id}.{problem}") from None
    return values
