"""Counts what an importer took and what it skipped, and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

MOST_REASONS = 50
"""Different things skipped that are named; further ones are counted together."""
_WHERE_CHARS = 200


@dataclass
class SkipCount:
    """Records or files of one kind that were skipped for one reason."""

    what: str
    """A plural noun: `records`, `files`."""
    why: str
    count: int = 0
    first: str = ""
    """The place of the first of them."""


@dataclass
class Operator:
    """One operation of a trace, over all its calls."""

    category: str
    name: str
    count: int
    total_us: int
    longest_us: int
    own_us: int | None = None
    """The time without the operations that it called; None if unknown."""

    @property
    def cost_us(self) -> int:
        """Return the time by which it is listed."""
        return self.total_us if self.own_us is None else self.own_us


@dataclass
class Tally:
    """The counts of what was taken of a recording, and of what was not."""

    records: Counter[str] = field(default_factory=Counter)
    """Kind of record -> how many were taken."""
    skipped: dict[tuple[str, str], SkipCount] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """Sentences about what was assumed."""

    def take(self, what: str, count: int = 1) -> None:
        if count:
            self.records[what] += int(count)

    def skip(self, what: str, why: str, count: int = 1, where: str = "") -> None:
        if count <= 0:
            return
        key = what, why
        if key not in self.skipped and len(self.skipped) >= MOST_REASONS:
            key, where = (what, "other reasons"), ""
        entry = self.skipped.setdefault(key, SkipCount(*key, first=where[:_WHERE_CHARS]))
        entry.count += int(count)

    def lose(self, what: str, why: str, count: int) -> None:
        """Skip records that were counted as taken."""
        self.skip(what, why, count)
        self.records[what] = max(self.records[what] - max(count, 0), 0)
        self.records += Counter()  # without zeros

    def note(self, sentence: str) -> None:
        if sentence not in self.notes and len(self.notes) < MOST_REASONS:
            self.notes.append(sentence)

    def withdraw(self, sentence: str) -> None:
        """Remove a note on what was assumed, because it turned out to be known."""
        self.notes = [note for note in self.notes if note != sentence]

    @property
    def taken(self) -> int:
        return sum(self.records.values())

    def document(self) -> dict[str, Any]:
        """Return the tally as JSON, the most skipped first."""
        skipped = sorted(self.skipped.values(), key=lambda each: -each.count)
        return {
            "records": dict(self.records.most_common()),
            "skipped": [asdict(each) for each in skipped],
            "notes": self.notes,
        }


def storable(value: Any) -> Any:
    """Return the value without the characters that PostgreSQL refuses in texts: files may have
    any.
    """
    if isinstance(value, str):
        return value.encode(errors="replace").decode().replace("\0", "?")
    if isinstance(value, dict):
        return {storable(name): storable(each) for name, each in value.items()}
    if isinstance(value, list):
        return [storable(each) for each in value]
    return value
