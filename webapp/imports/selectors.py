"""The imports of a run or of a workspace, as pages show them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.timesince import timeuntil

from webapp.accounts.models import Workspace
from webapp.background import conditions
from webapp.background.overview import WORDS
from webapp.imports import allowance, scope
from webapp.imports.description import NAME_SUFFIX
from webapp.imports.models import PROFILE, WHOLE, Import
from webapp.imports.places import QueuePlaces, places_now
from webapp.runs.models import Artefact, Run

SHOWN_OPERATIONS = 10
"""The most operations shown of each category."""
SHOWN_OPEN = 50
"""The most waiting and running imports shown of a workspace."""
_WAITING = (conditions.DUE, conditions.RETRY)


@dataclass(frozen=True)
class ImportLine:
    """One import, with its state (see `background.conditions`).

    Attributes:
        pause: why and until when it waits, if the workspace's quota is used up.
    """

    row: Import
    state: str
    now: datetime
    places: QueuePlaces = field(default_factory=QueuePlaces)
    pause: allowance.Pause | None = None

    @property
    def is_waiting(self) -> bool:
        return self.state in _WAITING

    @property
    def is_in_line(self) -> bool:
        """Return whether the import begins as soon as it is its turn."""
        return self.is_waiting and self.pause is None and self.row.due_at <= self.now

    @property
    def place(self) -> int | None:
        """The place, from 1; None if it isn't in line, or behind the places that are counted."""
        return self.places.by_artefact.get(self.row.artefact_id) if self.is_in_line else None

    @property
    def waiting_words(self) -> str:
        """Return what the import waits for, without a full stop; empty if it doesn't wait."""
        if not self.is_waiting:
            return ""
        if self.pause is not None:
            why = self.pause.words[0].lower() + self.pause.words[1:]
            return f"{why} It continues at {self.pause.until:%Y-%m-%d %H:%M} UTC"
        if self.is_in_line:
            return self.places.words(self.place)
        if self.state == conditions.DUE and self.row.stage:
            return str(self.row.stage).removesuffix(".")
        return f"tried again in {timeuntil(self.row.due_at, self.now, depth=1)}"

    @property
    def state_words(self) -> str:
        return "Waiting" if self.state == conditions.DUE else WORDS[self.state]

    @property
    def is_profile(self) -> bool:
        """A trace of some steps of a run that an agent measured."""
        return self.row.artefact.kind == PROFILE

    @property
    def name(self) -> str:
        """Return the folder's name on the person's machine."""
        return str(self.row.artefact.name).removesuffix(NAME_SUFFIX)

    @property
    def is_done(self) -> bool:
        return self.state == conditions.DONE

    @property
    def has_failed(self) -> bool:
        return self.state == conditions.FAILED

    @property
    def ends_open(self) -> bool:
        """Return whether the error's text has no full stop of its own."""
        return not self.row.error.endswith((".", "?", "!"))

    @property
    def format(self) -> str:
        return str(self.row.result.get("format", ""))

    @property
    def records(self) -> dict[str, int]:
        """Return how many records of each kind were imported."""
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
        """Return, by category, the operations that took the most time; each with its share of the
        category.
        """
        by_category: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for each in self.row.result.get("operators", ()):
            by_category[each["category"]].append(each)
        return [(name, _with_shares(rows)) for name, rows in by_category.items()]

    @property
    def usage(self) -> list[dict[str, Any]]:
        """The statistics of SageMaker's own report."""
        return list(self.row.result.get("statistics", {}).get("usage", ()))


def imports_of(run: Run, artefacts: Iterable[Artefact]) -> list[ImportLine]:
    """Return the imports of uploads and of profiles, the oldest first. `artefacts` are the run's;
    most runs have neither.
    """
    if not any(artefact.kind in (WHOLE, PROFILE) for artefact in artefacts):
        return []
    return _lines(scope.imports_of(run), run.workspace)


def import_states(run: Run) -> list[tuple[Any, ...]]:
    """Return what changes of the run's imports, for pages that keep themselves fresh."""
    lines = _lines(scope.imports_of(run).defer("result"), run.workspace)
    return [
        (line.row.pk, line.row.stage, line.row.finished_at, line.state, line.waiting_words)
        for line in lines
    ]


def open_imports(workspace: Workspace) -> list[ImportLine]:
    """Return the workspace's first waiting and running imports, in the order of their turn."""
    rows = scope.open_imports_of(workspace).order_by("due_at", "pk")
    lines = _lines(rows[:SHOWN_OPEN], workspace)
    return sorted(lines, key=_turn)


def open_count(workspace: Workspace) -> int:
    """Return how many imports of the workspace wait or run."""
    return scope.open_imports_of(workspace).count()


def _lines(rows: QuerySet[Import], workspace: Workspace) -> list[ImportLine]:
    now = timezone.now()
    # Columns that only reports need are left out.
    found = list(rows.annotate(work_state=conditions.state(now)).defer("operator_times"))
    if not any(row.work_state in _WAITING for row in found):
        return [ImportLine(row, row.work_state, now) for row in found]
    places, pause = places_now(now), allowance.pause(workspace)
    return [ImportLine(row, row.work_state, now, places, pause) for row in found]


def _turn(line: ImportLine) -> tuple[bool, bool, float]:
    """Sort imports: those under way come first, then those in line by their place."""
    return line.is_waiting, line.place is None, line.place or line.row.due_at.timestamp()


def _with_shares(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    total_us = sum(cost_us(row) for row in rows) or 1
    return [
        row | {"share": cost_us(row) / total_us, "seconds": cost_us(row) / 1e6}
        for row in islice(rows, SHOWN_OPERATIONS)
    ]


def cost_us(row: dict[str, Any]) -> int:
    """Return the operation's own time if it is known, because operations of some traces nest, or
    else the whole time.
    """
    own_us = row.get("own_us")
    return int(row["total_us"] if own_us is None else own_us)


def times_of(lines: Iterable[ImportLine]) -> dict[int, dict[str, Any] | None]:
    """Return the times of these imports' operators, by the imports' keys: up to 1.2 MB each. See
    `Import`.
    """
    rows = Import.objects.filter(pk__in=[line.row.pk for line in lines])
    return dict(rows.values_list("pk", "operator_times"))
