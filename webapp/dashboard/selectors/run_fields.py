"""The names that filters, columns, orders and groups of the list of runs know."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from django.db.models import QuerySet

from webapp.accounts.models import Workspace
from webapp.runs.conditions import quote_name
from webapp.runs.models import RunField, RunValue
from webapp.runs.run_values import DURATION, MACHINE, NODES

JOB, STATE, OWNER, STARTED, COST = "job", "state", "owner", "started", "cost"
TITLES = {
    STATE: "State",
    MACHINE: "Machines",
    DURATION: "Duration",
    COST: "Cost",
    OWNER: "Owner",
    STARTED: "Started",
    NODES: "Nodes",
    JOB: "Job",
}
"""The names that every workspace has."""
FIGURES = (MACHINE, NODES, DURATION)
NUMBERS = (COST, DURATION, NODES)
MOST_FIELDS = 2000
"""The most parameters, metrics and tags that are offered. A filter finds others, too."""
KIND_WORDS = {RunField.PARAMETER: "parameter", RunField.METRIC: "metric", RunField.TAG: "tag"}
_PREFIXES = {
    prefix: kind
    for kind, prefixes in {
        RunField.PARAMETER: ("param", "params", "parameter", "parameters"),
        RunField.METRIC: ("metric", "metrics"),
        RunField.TAG: ("tag", "tags"),
    }.items()
    for prefix in prefixes
}


class UnknownNameError(ValueError):
    """Raised when no run has what a name stands for. The message says what to write."""


def read_values(runs: Collection[Any], fields: Collection[Any]) -> QuerySet[RunValue]:
    """Return the values that these runs, or their ids, have of these fields."""
    return RunValue.objects.filter(run__in=runs, field__in=fields)


@dataclass(frozen=True)
class FieldName:
    """The meaning of a name: a figure or column of every run, or a field that some runs have."""

    name: str
    """`cost`, or `param.lr` as addresses have it."""
    field: RunField | None = None
    """The field whose values are compared; None for a column of the run or of its job."""

    @property
    def title(self) -> str:
        return TITLES.get(self.name) or (self.field.key if self.field else self.name)

    @property
    def is_own(self) -> bool:
        return self.name in TITLES

    @property
    def field_id(self) -> int | None:
        return self.field.pk if self.field else None

    @property
    def has_mean(self) -> bool:
        """True if the mean of its values says something: for metrics and durations."""
        return self.name == DURATION or (
            self.field is not None and self.field.kind == RunField.METRIC
        )

    @property
    def template(self) -> str:
        return f"dashboard/run_cells/{self.name if self.is_own else 'value'}.html"

    @property
    def is_number(self) -> bool:
        return self.name in NUMBERS or (
            self.field is not None and self.field.kind == RunField.METRIC
        )

    @property
    def kind(self) -> str:
        return KIND_WORDS[self.field.kind] if self.field and not self.is_own else ""

    @property
    def filter_name(self) -> str:
        """Return the name as a filter has it."""
        if self.field is None or self.is_own:
            return self.name
        return f"{self.field.kind}.{quote_name(self.field.key)}"


class RunFields:
    """The names of a workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._of_workspace = RunField.objects.filter(workspace=workspace)

    @cached_property
    def _known(self) -> dict[tuple[str, str], RunField]:
        rows = self._of_workspace.order_by("kind", "key")[:MOST_FIELDS]
        return {(row.kind, row.key): row for row in rows}

    def of_kind(self, kind: str) -> list[FieldName]:
        """Return the parameters, metrics or tags, sorted by key."""
        return [self._named(row) for (of, _), row in self._known.items() if of == kind]

    @property
    def kinds(self) -> list[tuple[str, list[FieldName]]]:
        """Return the kinds that have fields, with these."""
        listed = [(f"{word.title()}s", self.of_kind(kind)) for kind, word in KIND_WORDS.items()]
        return [(title, names) for title, names in listed if names]

    @property
    def own(self) -> list[FieldName]:
        """Return the names that every workspace has."""
        return [self.own_named(name) for name in TITLES]

    def own_named(self, name: str) -> FieldName:
        return FieldName(name, self._field(RunField.FIGURE, name) if name in FIGURES else None)

    def by_name(self, name: str) -> FieldName | None:
        """Return what an address names: `cost` or `param.lr`; None if there is no such thing."""
        if name in TITLES:
            return self.own_named(name)
        kind, _, key = name.partition(".")
        row = self._field(kind, key) if kind in KIND_WORDS else None
        return self._named(row) if row else None

    def of_filter(self, group: str | None, key: str) -> FieldName:
        """Return what a filter names. Raises UnknownNameError."""
        kind = _PREFIXES.get((group or "").lower())
        if kind is not None:
            return self._of_kind(kind, key)
        whole = f"{group}.{key}" if group else key
        if whole.lower() in TITLES:
            return self.own_named(whole.lower())
        found = [row for kind in KIND_WORDS if (row := self._field(kind, whole))]
        if len(found) == 1:
            return self._named(found[0])
        raise UnknownNameError(_ambiguous(found) if found else self._unknown(whole))

    def _of_kind(self, kind: str, key: str) -> FieldName:
        row = self._field(kind, key)
        if row is None:
            raise UnknownNameError(self._unknown(key, KIND_WORDS[kind]))
        return self._named(row)

    def _unknown(self, key: str, word: str = "parameter, metric or tag") -> str:
        known = [*TITLES, *dict.fromkeys(row.key for row in self._known.values())]
        close = get_close_matches(key, known, n=1, cutoff=0.6)
        hint = f" Did you mean {quote_name(close[0])}?" if close else ""
        return f"No run has a {word} named {key[:80]}.{hint}"

    def _field(self, kind: str, key: str) -> RunField | None:
        known = self._known.get((kind, key))
        if known is None and len(self._known) == MOST_FIELDS:
            known = self._of_workspace.filter(kind=kind, key=key).first()
        return known

    def _named(self, row: RunField) -> FieldName:
        return FieldName(str(row), row)


def _ambiguous(found: Sequence[RunField]) -> str:
    words = " and a ".join(KIND_WORDS[row.kind] for row in found)
    names = " or ".join(f"{row.kind}.{quote_name(row.key)}" for row in found)
    return f"{found[0].key} is a {words}. Write {names}."
