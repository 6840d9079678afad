"""Statements of a person or AWS's API about the imported run: machine, region, times, state."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from trimtab.wire import LIMITS

from advisor.costing.billing import Billing
from advisor.importers.recording import NotImportableError
from advisor.importers.times import is_possible

_SHORTEST_SECONDS, _LONGEST_SECONDS = 0.001, 3600.0
"""The shortest and longest time between two ticks."""


@dataclass(frozen=True)
class MachineGroup:
    """Machines of one type; their number is None if it's unknown."""

    instance_type: str
    count: int | None


@dataclass(frozen=True)
class StatedFacts:
    """Facts that recordings don't have. Empty, 0 and None are unknown.

    Attributes:
        training_job: as its platform names the run.
        started_at, ended_at: the billed time, UTC.
        groups: all machines, as the platform describes them; empty: unknown.
        billing: what of each machine is billed; None: unknown.
        columns: of a CSV file: its column -> our series, or `time`.
        interval_seconds: between two ticks of a recording that has no times.
        processing_jobs: ARNs of SageMaker's jobs that evaluated the profiler's rules.
        imported_at: UTC; the start of a recording that has no time of day.
    """

    job: str = ""
    training_job: str = ""
    provider: str = ""
    service: str = ""
    region: str = ""
    instance_type: str = ""
    purchase_option: str = ""
    state: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    groups: tuple[MachineGroup, ...] = ()
    billing: Billing | None = None
    parameters: dict[str, str] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    interval_seconds: float = 0.0
    processing_jobs: tuple[str, ...] = ()
    imported_at: datetime = datetime(1970, 1, 1, tzinfo=UTC)

    def fill_gaps_from(self, other: StatedFacts) -> StatedFacts:
        """Return both together; what this one knows wins."""
        known = {name: value for name, value in vars(self).items() if value}
        known.pop("imported_at")
        if self.instance_type and not self.groups:
            known["groups"] = tuple(
                replace(g, instance_type=self.instance_type) for g in other.groups
            )
        return replace(other, **known)


def from_document(document: Mapping[str, Any]) -> StatedFacts:
    """Return the options that `trimtab import` sends, or `python -m advisor import` has.

    Raises:
        NotImportableError: another shape.
    """
    names = ("job", "provider", "service", "region", "instance_type", "purchase_option")
    values: dict[str, Any] = {name: _text(document, name) for name in names}
    columns = document.get("columns") or {}
    if not isinstance(columns, dict) or not all(isinstance(v, str) for v in columns.values()):
        raise NotImportableError("columns is not a mapping of texts")
    return StatedFacts(
        **values,
        columns={str(k): v for k, v in columns.items()},
        started_at=_started_at(document.get("started_at")),
        interval_seconds=_interval_seconds(document.get("interval_seconds")),
    )


def _started_at(said: object) -> datetime | None:
    found = moment(said)
    if said and (found is None or not is_possible(found.timestamp())):
        raise NotImportableError("started_at is no time. Example: 2026-11-24T08:00:00+00:00")
    return found if said else None


def _interval_seconds(said: object) -> float:
    try:
        seconds = float(said or 0)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if seconds and not _SHORTEST_SECONDS <= seconds <= _LONGEST_SECONDS:
        raise NotImportableError("interval_seconds is not between 0.001 and 3600")
    return seconds


def moment(said: object) -> datetime | None:
    """Parse a time as the CLI prints it: ISO 8601, or seconds since 1970."""
    try:
        if isinstance(said, str):
            found = datetime.fromisoformat(said)
            return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
        if isinstance(said, int | float) and not isinstance(said, bool):
            return datetime.fromtimestamp(said, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def to_printable_name(text: str) -> str:
    """Return what of a foreign text can be stored and shown as a name."""
    return "".join(char for char in text if char.isprintable())[: LIMITS.name_chars]


def _text(document: Mapping[str, Any], name: str) -> str:
    said = document.get(name, "")
    return to_printable_name(said if isinstance(said, str) else "")
