"""The filters and orders of searches: `metrics.loss < 0.1 and tags.team = 'vision'`.

https://mlflow.org/docs/latest/search-runs/
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db.models import QuerySet

from webapp.mlflow_api import effort
from webapp.mlflow_api.arguments import Arguments
from webapp.mlflow_api.errors import invalid_parameter
from webapp.mlflow_api.like import Like
from webapp.mlflow_api.models import LoggedModel, ModelVersion, RegisteredModel, TrackedRun
from webapp.runs.conditions import NAME, FilterError, ParsedCondition, parse_conditions, unquote
from webapp.runs.run_values import to_number

Facts = Mapping[str, Mapping[str, Any]]
"""Facts of a row, by group: attributes, metrics, params, tags, and datasets, of which each fact has
several values."""
Found = TypeVar("Found")
Row = TypeVar("Row", TrackedRun, LoggedModel, RegisteredModel, ModelVersion)
MOST_ASKED, MOST_A_PAGE = 50_000, 1_000
"""The most rows that clients may ask for, and rows of a page. Clients ask for many at once, and
take fewer with the token of the next page."""
AT_ONCE, MOST_PAGE_CHARS = 25, 16_000_000
"""Rows that are read from the database at once; a run may have three million characters."""
MOST_CLAUSE_CHARS, MOST_SORTED_CHARS = 300, 250
"""The longest clause of an order, and the longest text that rows are sorted by: those of all rows
are held."""
_GROUPS = {
    "metric": "metrics",
    "metrics": "metrics",
    "param": "params",
    "params": "params",
    "parameter": "params",
    "parameters": "params",
    "tag": "tags",
    "tags": "tags",
    "attribute": "attributes",
    "attributes": "attributes",
    "attr": "attributes",
    "run": "attributes",
    "dataset": "datasets",
    "datasets": "datasets",
}
_DATASET_KEYS = ("name", "digest", "context")
_ALIASES = {
    "run name": "run_name",
    "created": "start_time",
    "user": "user_id",
    "run_uuid": "run_id",
}
_NUMERIC = (
    *("start_time", "end_time", "creation_time", "last_update_time"),
    *("creation_timestamp", "last_updated_timestamp", "version_number"),
)
_ORDER = re.compile(rf"\s*{NAME}(?:\s*(?P<down>ASC|DESC))?\s*\Z", re.IGNORECASE)
_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: bool(a == b),
    "!=": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    ">": lambda a, b: bool(a > b),
    "<=": lambda a, b: bool(a <= b),
    ">=": lambda a, b: bool(a >= b),
}


@dataclass(frozen=True)
class Condition:
    group: str
    key: str
    op: str
    value: Any

    def holds(self, facts: Facts) -> bool:
        known = facts.get(self.group, {}).get(self.key)
        if self.group == "datasets":
            return any(self._holds_of(each) for each in known or ())
        return self._holds_of(known)

    def _holds_of(self, known: Any) -> bool:
        if self.op in ("NULL", "NOT NULL"):
            return (known is None) == (self.op == "NULL")
        if known is None:
            return False
        if self.op in ("IN", "NOT IN"):
            return (str(known) in self.value) == (self.op == "IN")
        if self.op in ("LIKE", "ILIKE"):
            return bool(self.value.matches(str(known)))
        if isinstance(self.value, float):
            return _COMPARED[self.op](float(known), self.value)
        return _COMPARED[self.op](str(known), self.value)


@dataclass(frozen=True)
class Conditions:
    every: tuple[Condition, ...]

    def hold(self, facts: Facts) -> bool:
        return all(condition.holds(facts) for condition in self.every)


def conditions(text: str) -> Conditions:
    """Parse a filter. Raises MlflowError."""
    try:
        parsed = parse_conditions(text)
    except FilterError as error:
        near = text[error.place : error.place + 80]
        raise invalid_parameter(f"Invalid filter, near '{near}': {error}") from None
    return Conditions(tuple(_condition(each) for each in parsed))


def _condition(parsed: ParsedCondition) -> Condition:
    group, key = _place(parsed.group, parsed.key)
    return Condition(group, key, parsed.op, _value(group, key, parsed))


def _value(group: str, key: str, parsed: ParsedCondition) -> Any:
    op, said = parsed.op, parsed.value
    if said is None:
        return None
    if op in ("IN", "NOT IN"):
        return set(parsed.words)
    is_like = op in ("LIKE", "ILIKE")
    if group == "metrics" or (group == "attributes" and key in _NUMERIC):
        if is_like:
            raise invalid_parameter(f"{op} compares texts, and '{key}' is a number.")
        number = to_number(unquote(said))
        if number is None:
            raise invalid_parameter(f"Expected a number for '{key}'.")
        return number
    if not parsed.is_quoted:
        raise invalid_parameter(f"Expected a quoted text for '{key}'.")
    return Like(said[1:-1], ignores_case=op == "ILIKE") if is_like else said[1:-1]


def _place(said: str | None, key: str) -> tuple[str, str]:
    if said is None and "." in key and key.partition(".")[0].lower() in _GROUPS:
        said, _, key = key.partition(".")
    group = _GROUPS.get((said or "attribute").lower())
    if group is None:
        raise invalid_parameter(f"Invalid entity type '{said}'.")
    if group == "datasets" and key not in _DATASET_KEYS:
        raise invalid_parameter(f"Invalid dataset attribute '{key[:80]}': name, digest or context.")
    return group, _ALIASES.get(key.lower(), key) if group == "attributes" else key


@dataclass(frozen=True)
class Order:
    keys: tuple[tuple[str, str, bool], ...]
    """Group, key, and whether the greatest comes first."""

    def __bool__(self) -> bool:
        return bool(self.keys)

    def values(self, facts: Facts) -> tuple[Any, ...]:
        """Return the values by which a row is sorted."""
        return tuple(_cut(facts.get(group, {}).get(key)) for group, key, _ in self.keys)

    def sort(self, rows: Iterable[tuple[Found, tuple[Any, ...]]]) -> list[Found]:
        """Sort rows with their `values`. Unknown ones come last; equal ones keep their order."""
        ordered = list(rows)
        for place, (_, _, is_down) in reversed(list(enumerate(self.keys))):
            known = [row for row in ordered if _is_known(row[1][place])]
            unknown = [row for row in ordered if not _is_known(row[1][place])]
            known.sort(key=lambda row, at=place: _sortable(row[1][at]), reverse=is_down)  # type: ignore[misc]
            ordered = [*known, *unknown]
        return [row for row, _ in ordered]


def order(clauses: Sequence[str]) -> Order:
    """Parse the clauses of an order. Raises MlflowError."""
    keys = []
    for clause in clauses:
        match = _ORDER.match(clause) if len(clause) <= MOST_CLAUSE_CHARS else None
        if match is None:
            raise invalid_parameter(f"Invalid order_by clause '{clause[:80]}'.")
        place = _place(match["group"], unquote(match["key"]))
        keys.append((*place, (match["down"] or "").upper() == "DESC"))
    return Order(tuple(keys))


def check_attributes(known: Sequence[str], conditions: Conditions, order: Order) -> None:
    """Raise MlflowError for a condition or an order of an attribute that no row has."""
    named = [(each.group, each.key) for each in conditions.every]
    for group, key in [*named, *((group, key) for group, key, _ in order.keys)]:
        if group == "attributes" and key not in known:
            raise invalid_parameter(f"Invalid attribute '{key[:80]}': {', '.join(known)}.")


def _cut(value: Any) -> Any:
    return value[:MOST_SORTED_CHARS] if isinstance(value, str) else value


def _is_known(value: Any) -> bool:
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def _sortable(value: Any) -> tuple[int, Any]:
    return (0, value) if isinstance(value, (int, float)) else (1, str(value))


def matching_rows(
    workspace_id: int, rows: Iterable[tuple[Found, Facts]], conditions: Conditions, order: Order
) -> list[tuple[Found, tuple[Any, ...]]]:
    """Return the rows that meet the conditions, with what they are sorted by.

    Raises MlflowError or Problem if that takes too long.
    """
    looked_at = effort.bound_effort(workspace_id, rows)
    return [(row, order.values(facts)) for row, facts in looked_at if conditions.hold(facts)]


def rows_of_page(
    keys: Sequence[Any], said: Arguments, rows: QuerySet[Row]
) -> tuple[list[Row], dict[str, str]]:
    """Return the rows of the page asked for, and the token of the next one, if any.

    Rows may be large, so a page ends early once it has many characters.
    """
    chosen, following = page(keys, said)
    found: list[Row] = []
    chars = 0
    for place in range(0, len(chosen), AT_ONCE):
        if chars > MOST_PAGE_CHARS:
            begin = int(said.text("page_token", default="") or 0)
            return found, {"next_page_token": str(begin + place)}
        some = rows.in_bulk(list(chosen[place : place + AT_ONCE]))
        found += [some[key] for key in chosen[place : place + AT_ONCE] if key in some]
        chars += sum(row.size() for row in some.values())
    return found, following


def page(
    rows: Sequence[Found], said: Arguments, most_a_page: int = MOST_A_PAGE
) -> tuple[Sequence[Found], dict[str, str]]:
    """Return the rows of the page asked for, and the token of the next one, if any."""
    most = said.whole_number("max_results", most_a_page)
    if not 1 <= most <= MOST_ASKED:
        raise invalid_parameter(f"Invalid value for 'max_results': 1 to {MOST_ASKED}.")
    token = said.text("page_token", default="")
    if token and not (token.isdecimal() and len(token) < 10):
        raise invalid_parameter("Invalid page token.")
    begin = int(token or 0)
    end = begin + min(most, most_a_page)
    return rows[begin:end], {"next_page_token": str(end)} if end < len(rows) else {}
