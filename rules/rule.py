"""What a rule is: metadata and two pure functions, `measure` and `judge`."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rules.category import Category
from rules.frame import RunFrame
from rules.parameter import Parameter, Preset, Values, complete

__all__ = ["Numbers", "Parameter", "Rule", "Values", "Verdict", "Window", "values_hash"]

State = Literal["fired", "passed", "not_applicable", "insufficient_data"]
Scope = Literal["window", "run"]


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
    """Name with its unit, for one node or GPU `name@entity` -> value; None: not measured."""
    windows: tuple[Window, ...] = ()
    missing: tuple[str, ...] = ()
    """The missing data, as text for people."""

    def known(self, name: str) -> float | None:
        """A value; None where it is absent or not a finite number."""
        value = self.values.get(name)
        return float(value) if value is not None and math.isfinite(value) else None

    def by_entity(self, name: str) -> dict[str, float]:
        """The known values stored as `name@entity`, by entity."""
        keys = (key for key in self.values if key.partition("@")[0] == name and "@" in key)
        known = {key.partition("@")[2]: self.known(key) for key in keys}
        return {entity: value for entity, value in known.items() if value is not None}

    def to_document(self) -> dict[str, Any]:
        """For a JSON column; a value that isn't finite becomes null."""
        return {
            "values": {name: self.known(name) for name in self.values},
            "windows": [[w.start_seconds, w.end_seconds, w.entity] for w in self.windows],
            "missing": list(self.missing),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Numbers:
        """The inverse of `to_document`."""
        windows = tuple(Window(*window) for window in document.get("windows", ()))
        return cls(dict(document["values"]), windows, tuple(document.get("missing", ())))


@dataclass(frozen=True)
class Verdict:
    """A rule's verdict on one run."""

    state: State
    summary: str
    """One sentence with the numbers filled in; plain text."""
    advice: str = ""
    waste_seconds_low: float = 0.0
    waste_seconds_high: float = 0.0
    """Seconds of the whole run, at its price, that a fix would save, as a range: less time, or the
    same time on part of the machines."""
    severity: Literal["low", "medium", "high"] = "low"
    dedupe_key: str = ""
    may_stop: bool = False
    """The evidence is certain enough to stop the run, if rule and owner allow that."""

    def __post_init__(self) -> None:
        if not 0 <= self.waste_seconds_low <= self.waste_seconds_high < math.inf:
            low, high = self.waste_seconds_low, self.waste_seconds_high
            raise ValueError(f"a waste of {low} to {high} s is not a range")


@dataclass(frozen=True)
class Rule:
    """A rule as its module declares it (`RULE = Rule(...)`)."""

    id: str
    title: str
    category: Category
    version: int
    needs: tuple[str, ...]
    """Series by pattern (`gpu*.busy_pct`), alternatives (`a|b`), `steps` or `steps.data_wait`.
    A run that lacks one of them can neither pass nor fire."""
    parameters: tuple[Parameter, ...]
    measure: Callable[[RunFrame, Values], Numbers]
    judge: Callable[[Numbers, Values], Verdict]
    explains: tuple[str, ...] = ()
    """The ledger's labels that contain the waste. Empty: it is time that some label counts as
    work, such as work that is lost, or it is none."""
    window_seconds: Callable[[Values], float] | None = None
    """How much of a run the rule needs to find something that has just become true: then it may be
    judged on the newest stretch of that length alone. None: it needs the whole run so far."""
    soonest_seconds: Callable[[RunFrame, Values], float] | None = None
    """Of a rule judged on windows: the second of the frame before which it fires for nothing
    that isn't in the frame already, whatever arrives later. None: it may fire with the next
    samples."""
    awaits_end: bool = False
    """The verdict depends on the rest of the run: it can't fire before the end."""
    reports_risk: bool = False
    """It reports what may still be lost, not waste: the materiality floor doesn't apply."""
    explained_by: tuple[str, ...] = ()
    """The rules whose findings explain this rule's, the likeliest first; see `rules.folding`."""
    may_stop: bool = False
    """The run may be stopped while the finding lasts, if its owner allows that."""
    sagemaker_name: str = ""
    documentation: str = field(default="", repr=False)

    @property
    def scope(self) -> Scope:
        return "run" if self.window_seconds is None else "window"

    def values(self, overrides: Values | None = None) -> dict[str, float]:
        """The rule's parameters: defaults, then `overrides` by our or SageMaker's name.

        By our name a value is in our unit; by SageMaker's name in SageMaker's.

        Raises:
            ValueError: an unknown parameter or a value out of bounds; names it.
        """
        return complete(self.id, self.parameters, overrides or {})

    def preset_values(self, preset: Preset) -> dict[str, float]:
        """Every parameter's value in a preset."""
        return {p.name: p.of_preset(preset) for p in self.parameters}

    def parameter(self, name: str) -> Parameter:
        """By our name. Raises KeyError."""
        return {p.name: p for p in self.parameters}[name]


def values_hash(values: Values) -> str:
    """A short stable name for a set of parameter values."""
    plain = {name: float(value) for name, value in sorted(values.items())}
    text = json.dumps(plain, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
