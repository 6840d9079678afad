"""Parses the URL of the list of runs, and reads its runs: search, filter, columns, order, group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from uuid import UUID

from django.db.models import F, FilteredRelation, Q, QuerySet
from django.http import QueryDict

from webapp.accounts.models import Workspace
from webapp.dashboard.selectors import run_fields
from webapp.dashboard.selectors.run_conditions import FEW, RunCondition, choose, read_conditions
from webapp.dashboard.selectors.run_fields import FieldName, RunFields
from webapp.dashboard.selectors.run_filter import RunFilter
from webapp.runs import scope
from webapp.runs.conditions import FilterError, quote_value
from webapp.runs.models import Job, Run, RunField, RunValue, began
from webapp.runs.run_values import DURATION, MACHINE

MOST_TEXT_CHARS, MOST_SEARCH_CHARS, MOST_COLUMNS = 2000, 200, 30
USUAL_COLUMNS = (run_fields.STATE, MACHINE, DURATION, run_fields.COST)
OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "LIKE")
"""The comparisons that the form offers. A filter's text has more."""
_ORDERS = {
    run_fields.JOB: "job__name",
    run_fields.COST: "cost_usd",
    run_fields.STARTED: "began",
}
"""The columns of runs that the list can be sorted by, in an index each."""


@dataclass(frozen=True)
class RunTable:
    """The list that an address asks for:
    `?q=TEXT&filter=CONDITIONS&column=NAME&...&sort=NAME&group=NAME`, `-NAME` for the highest first,
    and what `RunFilter` reads. A name is `cost`, or `param.lr`. Unknown names are ignored; what is
    wrong with the filter is `error`.
    """

    workspace: Workspace
    fields: RunFields
    links: RunFilter
    search: str
    text: str
    """The filter as it is written."""
    conditions: tuple[RunCondition, ...]
    error: FilterError | None
    columns: tuple[FieldName, ...]
    sort: FieldName | None
    is_down: bool
    group: FieldName | None

    @classmethod
    def from_query(cls, query: QueryDict, workspace: Workspace) -> RunTable:
        fields = RunFields(workspace)
        text = _with_added(query, fields)
        conditions, error = _read(text, fields)
        sort = query.get("sort", "")
        columns = query.getlist("column")[:MOST_COLUMNS] or USUAL_COLUMNS
        named = (fields.by_name(name) for name in dict.fromkeys(columns))
        return cls(
            workspace=workspace,
            fields=fields,
            links=RunFilter.from_query(query, workspace),
            search=query.get("q", "").replace("\0", "").strip()[:MOST_SEARCH_CHARS],
            text=text,
            conditions=conditions,
            error=error,
            columns=tuple(each for each in named if each is not None),
            sort=_sortable(fields.by_name(sort.removeprefix("-"))),
            is_down=sort.startswith("-"),
            group=fields.by_name(query.get("group", "")),
        )

    @property
    def is_all(self) -> bool:
        return self.links.is_all and not self.text and not self.search

    @property
    def sort_name(self) -> str:
        """Return the `sort` of the address; empty for the newest first."""
        return f"{'-' if self.is_down else ''}{self.sort.name}" if self.sort else ""

    @property
    def around_error(self) -> tuple[str, str, str]:
        """Return the filter's text before the word that can't be understood, the word, and the
        rest.
        """
        place = self.error.place if self.error else len(self.text)
        word = self.text[place:].split(" ", 1)[0]
        return self.text[:place], word, self.text[place + len(word) :]

    @cached_property
    def runs(self) -> QuerySet[Run]:
        """The runs, in the order that the list has without `sort`."""
        if self.error is not None:
            return Run.objects.none()
        own = _searched(scope.runs_of(self.workspace), self.search)
        return self.links.rows(choose(own, self.conditions))

    @cached_property
    def few(self) -> list[UUID] | None:
        """The ids of the runs if something is searched or filtered and few are found, else None.
        Few are sorted faster than an index is searched for them.
        """
        if self.is_all or self.links.label:
            return None
        ids = list(_plain(self.runs).values_list("pk", flat=True)[: FEW + 1])
        return ids if len(ids) <= FEW else None

    @cached_property
    def count(self) -> int | None:
        """The number of runs; None if more than `FEW` match, since to count them takes long."""
        if self.few is not None:
            return len(self.few)
        return _plain(self.runs).count() if self.is_all or self.links.label else None

    @cached_property
    def parts(self) -> list[QuerySet[Run]]:
        """The runs in order, in parts that come one after the other: each is read by an index."""
        runs = self.runs if self.few is None else Run.objects.filter(pk__in=self.few)
        if self.sort is None:
            return [runs if self.few is None else runs.order_by(*_NEWEST)]
        if self.sort.field is not None:
            known = [each for each in self.conditions if each.named == self.sort]
            return _by_values(runs, self.sort.field, known, is_down=self.is_down)
        named = runs.alias(began=began())
        column = F(_ORDERS[self.sort.name])
        first = column.desc(nulls_last=True) if self.is_down else column.asc(nulls_last=True)
        # By columns that one index has: it is sorted without reading the rows, which are wide.
        return [named.order_by(first, "-started_at", "pk")]

    def keys(self, start: int, stop: int) -> list[UUID]:
        """Return the ids of the runs from one place to another."""
        found: list[UUID] = []
        offset = start
        for part in self.parts:
            room = stop - start - len(found)
            ids = list(part.values_list("pk", flat=True)[offset : offset + room])
            found += ids
            if len(found) == stop - start or part is self.parts[-1]:
                break
            offset = 0 if ids else max(0, offset - part.order_by().count())
        return found

    def read(self, keys: Sequence[UUID]) -> list[Run]:
        """Return the runs of these ids in this order: rows are wide, so few are read."""
        rows = self.runs.in_bulk(list(keys))
        return [rows[key] for key in keys if key in rows]

    def values(self, runs: Sequence[Run]) -> Mapping[UUID, Mapping[int | None, RunValue]]:
        """Return the values of these runs by field, of the columns that are fields."""
        fields = [column.field for column in self.columns if column.field and not column.is_own]
        found: dict[UUID, dict[int | None, RunValue]] = {run.pk: {} for run in runs}
        if fields and runs:
            for value in run_fields.read_values(runs, fields):
                found[value.run_id][value.field_id] = value
        return found

    def can_sort(self, column: FieldName) -> bool:
        return _sortable(column) is not None

    def direction(self, column: FieldName) -> str:
        """Return `ascending` or `descending` if the list is sorted by this column."""
        if self.sort is None or self.sort.name != column.name:
            return ""
        return "descending" if self.is_down else "ascending"

    def next_sort(self, column: FieldName) -> str:
        """Return the `sort` of the address that sorts by this column, or turns the order."""
        return f"-{column.name}" if self.direction(column) == "ascending" else column.name

    def filter_without(self, condition: RunCondition) -> str:
        """Return the filter without this condition."""
        return " and ".join(str(each) for each in self.conditions if each is not condition)

    def with_value(self, named: FieldName, value: str) -> str:
        """Return the filter with the condition that a run has this value, or none if empty."""
        said = f"= {quote_value(value)}" if value else "IS NULL"
        return _joined(self.text, f"{named.filter_name} {said}")


def _sortable(named: FieldName | None) -> FieldName | None:
    return named if named is not None and (named.field or named.name in _ORDERS) else None


_NEWEST = (began().desc(), "-number")


def _plain(runs: QuerySet[Run]) -> QuerySet[Run]:
    return runs.select_related(None).order_by()


def _read(text: str, fields: RunFields) -> tuple[tuple[RunCondition, ...], FilterError | None]:
    try:
        return tuple(read_conditions(text, fields)), None
    except FilterError as error:
        return (), error


def _with_added(query: QueryDict, fields: RunFields) -> str:
    """Return the filter, with the condition of the form if it was filled in."""
    text = query.get("filter", "").replace("\0", "").strip()[:MOST_TEXT_CHARS]
    named, value = fields.by_name(query.get("name", "")), query.get("value", "")
    op = query.get("op", "=")
    value = value.replace("\0", "").strip()
    if named is None or not value or op not in OPERATORS:
        return text
    return _joined(text, f"{named.filter_name} {op} {quote_value(value)}")


def _joined(text: str, condition: str) -> str:
    return f"{text} and {condition}" if text else condition


def _searched(runs: QuerySet[Run], text: str) -> QuerySet[Run]:
    """Return the runs of a job or owner whose name has the text, or that are called so: by their
    id, or `JOB#NUMBER`.
    """
    if not text:
        return runs
    name, mark, number = text.rpartition("#")
    if mark and number.isdecimal():
        jobs = Job.objects.filter(name__icontains=name.strip())
        return runs.filter(number=int(number[:9]), job__in=jobs)
    try:
        return runs.filter(pk=UUID(text))
    except ValueError:
        of_jobs = Job.objects.filter(Q(name__icontains=text) | Q(owner__icontains=text))
        return runs.filter(Q(job__in=of_jobs) | Q(owner__icontains=text))


def _by_values(
    runs: QuerySet[Run], field: RunField, known: Sequence[RunCondition], *, is_down: bool
) -> list[QuerySet[Run]]:
    """Return the runs with numbers in order, then those with texts, then those without a value.

    Args:
        known: conditions of the same field, which bound the part of its index that is read.
    """
    joined = runs.annotate(sorted_by=FilteredRelation("values", condition=Q(values__field=field)))
    sign = "-" if is_down else ""
    bounds = [each.of_joined("sorted_by") for each in known if not each.is_missing]
    numbers = joined.filter(*bounds, sorted_by__number__isnull=False)
    texts = joined.filter(sorted_by__id__isnull=False, sorted_by__number__isnull=True)
    without = joined.filter(sorted_by__id__isnull=True)
    return [
        numbers.order_by(f"{sign}sorted_by__number", f"{sign}sorted_by__text"),
        texts.order_by(f"{sign}sorted_by__text"),
        without.order_by(*_NEWEST),
    ]
