"""Filters of the list of runs by text: `lr = 0.1 and started > 2026-11-17`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, cast

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils.dateparse import parse_date, parse_datetime

from webapp.dashboard.selectors import run_fields
from webapp.dashboard.selectors.facets import OWNER, Facet
from webapp.dashboard.selectors.run_fields import FieldName, RunFields
from webapp.database import like  # noqa: F401 - registers the comparison
from webapp.runs.conditions import (
    IS_NOT_NULL,
    IS_NULL,
    FilterError,
    ParsedCondition,
    parse_conditions,
)
from webapp.runs.models import Run, RunValue, began
from webapp.runs.models.values import MOST_TEXT_CHARS
from webapp.runs.run_values import DURATION, to_number

MOST_WILDCARDS = 4
"""The most `%` of a pattern: databases try each way to share a text among them."""
FEW, MOST_COUNTED = 2000, 5
"""The number of values that are few, and the most conditions whose values are counted."""
_NO_VALUES = RunValue.objects.none()
_LOOKUPS = {"<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}
_LENGTH = re.compile(r"([\d.]+)\s*(s|min|h|d)")
_UNIT_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
_COLUMNS = {
    run_fields.JOB: "job__name",
    run_fields.STATE: "state",
    run_fields.OWNER: "whose_name",
    run_fields.STARTED: "began",
    run_fields.COST: "cost_usd",
}
_Read = Callable[[str], Any]


@dataclass(frozen=True)
class RunCondition:
    """One comparison: what it names, and which runs meet it."""

    parsed: ParsedCondition
    named: FieldName
    meets: Q
    """Compares a column of the run, or the values of the field."""

    def __str__(self) -> str:
        return self.parsed.text

    @property
    def is_missing(self) -> bool:
        """True if the runs without a value are wanted."""
        return self.parsed.op == IS_NULL

    @property
    def values(self) -> QuerySet[RunValue]:
        """The field's values that meet the condition; of `IS NULL`, all of them."""
        own = RunValue.objects.filter(field=self.named.field) if self.named.field else _NO_VALUES
        return own.filter(self.meets)

    def to_query(self) -> Q:
        """Return the condition of a run, which looks up the run's own value."""
        if self.named.name in _COLUMNS:
            return self.meets
        found = Q(Exists(self.values.filter(run=OuterRef("pk"))))
        return ~found if self.is_missing else found

    def of_joined(self, relation: str) -> Q:
        """Return the condition of the values that a query has joined by this relation."""
        return _prefixed(self.meets, f"{relation}__")


def _prefixed(condition: Q, prefix: str) -> Q:
    """Return the condition with this before each of its fields."""
    children = [
        _prefixed(each, prefix) if isinstance(each, Q) else (prefix + each[0], each[1])
        for each in cast("list[Q | tuple[str, Any]]", condition.children)
    ]
    return Q(*children, _connector=condition.connector, _negated=condition.negated)


def read_conditions(text: str, fields: RunFields) -> list[RunCondition]:
    """Return the conditions of a filter. Raises FilterError."""
    return [_condition(parsed, fields) for parsed in parse_conditions(text)]


def choose(runs: QuerySet[Run], conditions: Sequence[RunCondition]) -> QuerySet[Run]:
    """Return the runs that meet all conditions.

    If one of them is met by few values, its runs are read by their ids. Otherwise each run is
    looked at in turn, so that a page of many is found without reading all of them: databases don't
    know how many values a condition meets.
    """
    if not conditions:
        return runs
    named = runs.alias(began=began(), whose_name=Facet(OWNER).value())
    rare = _rare(conditions)
    if rare is not None:
        named = named.filter(pk__in=rare.values.values("run"))
    return named.filter(*(each.to_query() for each in conditions if each is not rare))


def _rare(conditions: Sequence[RunCondition]) -> RunCondition | None:
    """Return the condition of the fewest values, if it has few."""
    of_values = [each for each in conditions if each.named.field and not each.is_missing]
    counted = [(each.values[:FEW].count(), each) for each in of_values[:MOST_COUNTED]]
    fewest, rare = min(counted, key=lambda count: count[0], default=(FEW, None))
    return rare if fewest < FEW else None


def _condition(parsed: ParsedCondition, fields: RunFields) -> RunCondition:
    try:
        named = fields.of_filter(parsed.group, parsed.key)
        return RunCondition(parsed, named, _meets(parsed, named))
    except ValueError as error:
        raise FilterError(str(error), parsed.place) from None


def _meets(parsed: ParsedCondition, named: FieldName) -> Q:
    if named.name in _COLUMNS:
        return _of_column(parsed, named.name)
    if parsed.op in (IS_NULL, IS_NOT_NULL):
        return Q()
    return _of_value(parsed, _seconds if named.name == DURATION else _number)


def _of_value(parsed: ParsedCondition, read: _Read) -> Q:
    """Return which values of a field meet the condition."""
    if parsed.op in _LOOKUPS:
        return Q(**{f"number__{_LOOKUPS[parsed.op]}": read(parsed.words[0])})
    if parsed.op in ("LIKE", "ILIKE"):
        return Q(text__like=_pattern(parsed))
    equal = Q()
    for word in parsed.words:
        equal |= _equals(word, read)
    return ~equal if parsed.op in ("!=", "NOT IN") else equal


def _equals(word: str, read: _Read) -> Q:
    if read is _seconds or to_number(word) is not None:
        return Q(number=read(word))
    if word.lower() in ("true", "false"):
        return Q(text__in=[word.lower(), word.capitalize()])
    return Q(text=word[:MOST_TEXT_CHARS])


def _of_column(parsed: ParsedCondition, name: str) -> Q:
    """Return which runs meet the condition by a column of their own or of their job."""
    column, op = _COLUMNS[name], parsed.op
    if op in (IS_NULL, IS_NOT_NULL):
        empty = Q(**{column: ""}) if name == run_fields.OWNER else Q(**{f"{column}__isnull": True})
        return ~empty if op == IS_NOT_NULL else empty
    if name == run_fields.STARTED:
        return _of_moment(parsed, column)
    read = {run_fields.COST: _usd, run_fields.STATE: _state}.get(name, str)
    if op in _LOOKUPS:
        if name != run_fields.COST:
            raise ValueError(f"{name} is a text: compare it with =, !=, LIKE or IN.")
        return Q(**{f"{column}__{_LOOKUPS[op]}": read(parsed.words[0])})
    if op in ("LIKE", "ILIKE"):
        if name in (run_fields.COST, run_fields.STATE):
            raise ValueError(f"Compare {name} with =, !=, IN or IS NULL.")
        return Q(**{f"{column}__like": _pattern(parsed)})
    equal = Q(**{f"{column}__in": [read(word) for word in parsed.words]})
    if op in ("!=", "NOT IN"):
        return ~equal & Q(**{f"{column}__isnull": False})
    return equal


def _of_moment(parsed: ParsedCondition, column: str) -> Q:
    """Compare with a time, or with a whole UTC day: after a day is after its end."""
    begin, end = _span(parsed.words[0])
    if parsed.op == "=":
        return Q(**{f"{column}__gte": begin, f"{column}__lt": end})
    if parsed.op == "!=":
        return Q(**{f"{column}__lt": begin}) | Q(**{f"{column}__gte": end})
    bounds = {"<": ("lt", begin), "<=": ("lt", end), ">": ("gte", end), ">=": ("gte", begin)}
    if parsed.op not in bounds:
        raise ValueError("Compare started with =, !=, <, <=, > or >=.")
    lookup, bound = bounds[parsed.op]
    return Q(**{f"{column}__{lookup}": bound})


def _span(word: str) -> tuple[datetime, datetime]:
    """Return where a day or a moment begins, and where it ends."""
    try:
        day, moment = parse_date(word), parse_datetime(word)
        if day is not None:
            begin = datetime.combine(day, time(), UTC)
            return begin, begin + timedelta(days=1)
        if moment is not None:
            begin = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return begin, begin + timedelta(microseconds=1)
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"Write a date such as 2026-11-17 instead of {word[:40] or 'nothing'}.")


def _number(word: str) -> float:
    number = to_number(word)
    if number is None:
        raise ValueError(f"Write a number instead of {word[:40] or 'nothing'}.")
    return number


def _seconds(word: str) -> float:
    """Return the seconds of a length: `90`, `90s`, `15min`, `2h` or `1d`."""
    length = _LENGTH.fullmatch(word)
    number = to_number(length[1] if length else word)
    if number is None:
        raise ValueError(f"Write a length such as 90s, 15min or 2h instead of {word[:40]}.")
    return number * _UNIT_SECONDS[length[2]] if length else number


def _usd(word: str) -> Decimal:
    try:
        usd = Decimal(word.removeprefix("$"))
    except InvalidOperation:
        usd = Decimal("NaN")
    if not usd.is_finite() or abs(usd) >= 10**9:
        raise ValueError(f"Write an amount such as 12.50 instead of {word[:40]}.")
    return usd


def _state(word: str) -> str:
    states = [name for name, _ in Run.STATES]
    if word.lower() not in states:
        raise ValueError(f"No state is named {word[:40]}. The states are {', '.join(states)}.")
    return word.lower()


def _pattern(parsed: ParsedCondition) -> str:
    pattern = parsed.words[0][:MOST_TEXT_CHARS]
    if pattern.count("%") > MOST_WILDCARDS:
        raise ValueError(f"A pattern may have {MOST_WILDCARDS} % at most.")
    return pattern if not pattern.endswith("\\") else pattern + "\\"
