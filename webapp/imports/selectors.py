"""The imports of a run, as its page shows them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.utils import timezone

from webapp.background import conditions
from webapp.imports import scope
from webapp.imports.description import NAME_SUFFIX
from webapp.imports.models import Import
from webapp.imports.queue import PROFILE, WHOLE
from webapp.runs.models import Artefact, Run

SHOWN_OPERATIONS = 10
"""Of each category."""


@dataclass(frozen=True)
class ImportLine:
    """One import, with its state (see `background.conditions`)."""

    row: Import
    state: str

    @property
    def is_profile(self) -> bool:
        """A trace of some steps of a run that an agent measured."""
        return self.row.artefact.kind == PROFILE

    @property
    def name(self) -> str:
        """As the person has it."""
        return str(self.row.artefact.name).removesuffix(NAME_SUFFIX)

    @property
    def is_done(self) -> bool:
        return self.state == conditions.DONE

    @property
    def has_failed(self) -> bool:
        return self.state == conditions.FAILED

    @property
    def format(self) -> str:
        return str(self.row.result.get("format", ""))

    @property
    def records(self) -> dict[str, int]:
        """Kind -> how many were imported."""
        return dict(self.row.result.get("records", {}))

    @property
    def record_count(self) -> int:
        return sum(self.records.values())

    @property
    def skipped(self) -> list[dict[str, Any]]:
        return list(self.row.result.get("skipped", ()))

    @property
    def skipped_count(self) -> int:
        return sum(each["count"] for each in self.skipped)

    @property
    def notes(self) -> list[str]:
        return list(self.row.result.get("notes", ()))

    @property
    def operations(self) -> list[tuple[str, list[dict[str, Any]]]]:
        """By category, those that took the most time; each with its share of the category."""
        by_category: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for each in self.row.result.get("operators", ()):
            by_category[each["category"]].append(each)
        return [(name, _with_shares(rows)) for name, rows in by_category.items()]

    @property
    def usage(self) -> list[dict[str, Any]]:
        """The statistics of SageMaker's own report."""
        return list(self.row.result.get("statistics", {}).get("usage", ()))


def imports_of(run: Run, artefacts: Iterable[Artefact]) -> list[ImportLine]:
    """Of uploads and of profiles, the oldest first. `artefacts`: of the run; most have neither."""
    if not any(artefact.kind in (WHOLE, PROFILE) for artefact in artefacts):
        return []
    rows = scope.imports_of(run).annotate(work_state=conditions.state(timezone.now()))
    rows = rows.defer("operator_times")  # which only reports need
    return [ImportLine(row, row.work_state) for row in rows]


def _with_shares(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    total_us = sum(cost_us(row) for row in rows) or 1
    return [
        row | {"share": cost_us(row) / total_us, "seconds": cost_us(row) / 1e6}
        for row in islice(rows, SHOWN_OPERATIONS)
    ]


def cost_us(row: dict[str, Any]) -> int:
    """The time of its own, where that is known: operations of some traces nest."""
    own_us = row.get("own_us")
    return int(row["total_us"] if own_us is None else own_us)


def times_of(lines: Iterable[ImportLine]) -> dict[int, dict[str, Any] | None]:
    """When the operators of these imports ran, by their keys: up to 1.2 MB each. See `Import`."""
    rows = Import.objects.filter(pk__in=[line.row.pk for line in lines])
    return dict(rows.values_list("pk", "operator_times"))
