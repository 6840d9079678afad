"""What a rule is: metadata and two pure functions, `measure` and `judge`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from rules.frame import RunFrame

State = Literal["fired", "passed", "not_applicable", "insufficient_data"]
Scope = Literal["window", "run"]
Values = Mapping[str, float]
"""Parameter name -> value, complete (defaults filled in)."""


@dataclass(frozen=True)
class Parameter:
    """One threshold that a workspace or job may set."""

    name: str
    unit: str
    default: float
    low: float
    high: float
    help: str
    source: str
    sagemaker_name: str = ""


@dataclass(frozen=True)
class Window:
    """A span of evidence, seconds since the start of the run."""

    start_seconds: float
    end_seconds: float
    entity: str = ""


@dataclass(frozen=True)
class Numbers:
    """What a rule measured. Stored, so that judging again reads rows and not samples."""

    values: Mapping[str, float | None]
    """Name with its unit -> value; None is "could not be measured"."""
    windows: tuple[Window, ...] = ()
    missing: tuple[str, ...] = ()
    """What was needed and not there, in words for a person."""


@dataclass(frozen=True)
class Verdict:
    """The judgement of one run by one rule."""

    state: State
    summary: str
    """One sentence with the numbers filled in; plain text."""
    advice: str = ""
    waste_seconds_low: float = 0.0
    waste_seconds_high: float = 0.0
    """Wall-clock seconds of the run that a fix would give back, as a range."""
    severity: Literal["low", "medium", "high"] = "low"
    dedupe_key: str = ""


@dataclass(frozen=True)
class Rule:
    """A rule as its module declares it (`RULE = Rule(...)`)."""

    id: str
    title: str
    category: str
    version: int
    needs: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    measure: Callable[[RunFrame, Values], Numbers]
    judge: Callable[[Numbers, Values], Verdict]
    scope: Scope = "run"
    sagemaker_name: str = ""
    documentation: str = field(default="", repr=False)

    def values(self, overrides: Values | None = None) -> dict[str, float]:
        """The rule's parameters, defaults first, then `overrides` by our or SageMaker's name.

        Raises:
            ValueError: an unknown parameter or a value out of bounds; names it.
        """
        found = {p.name: p.default for p in self.parameters}
        by_name = {name: p for p in self.parameters for name in (p.name, p.sagemaker_name) if name}
        for name, value in (overrides or {}).items():
            parameter = by_name.get(name)
            if parameter is None:
                raise ValueError(f"{self.id} has no parameter {name!r}")
            if not parameter.low <= value <= parameter.high:
                raise ValueError(
                    f"{self.id}.{name} = {value} is outside {parameter.low}..{parameter.high}"
                )
            found[parameter.name] = float(value)
        return found


def values_hash(values: Values) -> str:
    """A short stable name for a set of parameter values."""
    text = json.dumps(dict(sorted(values.items())), separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
