"""The parts of a rule: metadata and two pure functions, `measure` and `judge`."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rules.category import Category
from rules.claims import Claim, Directness
from rules.frame import RunFrame
from rules.parameter import Parameter, Preset, Values, complete

__all__ = [
    "Claim",
    "Directness",
    "Numbers",
    "Parameter",
    "Rule",
    "Values",
    "Verdict",
    "Window",
    "values_hash",
]

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
    """The numbers that a rule measured. They are stored, so that judging again reads rows and not
    samples.
    """

    values: Mapping[str, float | None]
    """Name with its unit, for one node or GPU `name@entity` -> value; None: not measured."""
    windows: tuple[Window, ...] = ()
    missing: tuple[str, ...] = ()
    """The missing data, as text for people."""

    def get(self, name: str) -> float | None:
        """Return a value; None where it is absent or not a finite number."""
        value = self.values.get(name)
        return float(value) if value is not None and math.isfinite(value) else None

    def by_entity(self, name: str) -> dict[str, float]:
        """Return the known values stored as `name@entity`, by entity."""
        keys = (key for key in self.values if key.partition("@")[0] == name and "@" in key)
        known = {key.partition("@")[2]: self.get(key) for key in keys}
        return {entity: value for entity, value in known.items() if value is not None}

    def entities(self, name: str) -> set[str]:
        """Return the entities of `name@entity`, whether the value is known or not."""
        parts = (key.partition("@") for key in self.values)
        return {entity for base, mark, entity in parts if base == name and mark}

    def to_document(self) -> dict[str, Any]:
        """Return the numbers for a JSON column; a value that isn't finite becomes null."""
        return {
            "values": {name: self.get(name) for name in self.values},
            "windows": [[w.start_seconds, w.end_seconds, w.entity] for w in self.windows],
            "missing": list(self.missing),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Numbers:
        """Return the numbers of a document of `to_document`."""
        windows = tuple(Window(*window) for window in document.get("windows", ()))
        return cls(dict(document["values"]), windows, tuple(document.get("missing", ())))


@dataclass(frozen=True)
class Verdict:
    """A rule's verdict on one run."""

    state: State
    summary: str
    """One sentence with the numbers filled in; plain text."""
    advice: str = ""
    claims: tuple[Claim, ...] = ()
    """The time that a fix gives back in part; see `rules.claims`."""
    severity: Literal["low", "medium", "high"] = "low"
    dedupe_key: str = ""
    may_stop: bool = False
    """The evidence is certain enough to stop the run, if rule and owner allow that."""

    @property
    def claimed_seconds_low(self) -> float:
        """Return what a fix gives back of the run at least, if no other finding explains any of
        it.
        """
        return sum(claim.low * claim.seconds for claim in self.claims)

    @property
    def claimed_seconds_high(self) -> float:
        """Return what a fix gives back of the run at most, if no other finding explains any of
        it.
        """
        return sum(claim.high * claim.seconds for claim in self.claims)


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
    claims_on: tuple[str, ...] = ()
    """The ledger's labels on which it claims time. Empty: it claims none."""
    directness: Directness = Directness.MEASURED_CAUSE
    ruled_out_by: tuple[str, ...] = ()
    """The reports of the training that exclude the finding; of `rules.told.FACTS`."""
    window_seconds: Callable[[Values], float] | None = None
    """The length of a run that the rule needs to find something that has just become true: then
    it may be judged on the newest stretch of that length alone. None if it needs the whole run
    so far."""
    soonest_seconds: Callable[[RunFrame, Values], float] | None = None
    """The second of the frame, for a rule judged on windows, before which it fires for nothing
    that isn't in the frame already, whatever arrives later. None if it may fire with the next
    samples."""
    awaits_end: bool = False
    """The verdict depends on the rest of the run: it can't fire before the end."""
    reports_risk: bool = False
    """True if it reports what may still be lost, not waste: the materiality floor doesn't apply."""
    may_stop: bool = False
    """The run may be stopped while the finding lasts, if its owner allows that."""
    sagemaker_name: str = ""
    documentation: str = field(default="", repr=False)

    @property
    def scope(self) -> Scope:
        return "run" if self.window_seconds is None else "window"

    def values(self, overrides: Values | None = None) -> dict[str, float]:
        """Return the rule's parameters: defaults, then `overrides` by our or SageMaker's name.

        By our name a value is in our unit; by SageMaker's name in SageMaker's.

        Raises:
            ValueError: an unknown parameter or a value out of bounds; names it.
        """
        return complete(self.id, self.parameters, overrides or {})

    def preset_values(self, preset: Preset) -> dict[str, float]:
        """Return every parameter's value in a preset."""
        return {p.name: p.of_preset(preset) for p in self.parameters}

    def parameter(self, name: str) -> Parameter:
        """Return the parameter with our name. Raises KeyError."""
        return {p.name: p for p in self.parameters}[name]


def values_hash(values: Values) -> str:
    """Return a short stable name for a set of parameter values."""
    plain = {name: float(value) for name, value in sorted(values.items())}
    text = json.dumps(plain, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
