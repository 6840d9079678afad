"""The settings of a job's metrics: the better direction, and the loss that people tolerate.

One metric per line: `val/auroc: higher, 2 %`, `dice: 1 point`, `gamma: ignore`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass as checked_dataclass

from rules.metric_direction import is_quality, less_is_better

Direction = Literal["higher", "lower", "ignore"]
Unit = Literal["percent", "points"]
MOST_METRICS = 100
MOST_NAME_CHARACTERS = 200
MOST_LOSS = 1_000_000.0
_LOSS = re.compile(r"(?P<amount>\d+(?:\.\d+)?) ?(?P<unit>%|points?)")
_DIRECTIONS: dict[str, Direction] = {"higher": "higher", "lower": "lower", "ignore": "ignore"}


@checked_dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class MetricSetting:
    """The settings that a person chose for one metric. None: as usual."""

    direction: Direction | None = None
    """The direction of better values; `ignore` if it doesn't measure quality."""
    tolerated_loss: float | None = None
    """A smaller change for the worse isn't worse."""
    unit: Unit = "percent"
    """The unit of the loss: percent of the value, or points (0.01 of a share, else 1)."""

    def __post_init__(self) -> None:
        loss = self.tolerated_loss
        if loss is not None and not (math.isfinite(loss) and 0 <= loss <= MOST_LOSS):
            raise ValueError(f"The tolerated loss must be from 0 to {MOST_LOSS:,.0f}.")


MetricSettings = Mapping[str, MetricSetting]
_DOCUMENT = TypeAdapter(dict[str, MetricSetting])


@dataclass(frozen=True)
class JobMetrics:
    """A job's settings, and how much its metrics vary between alike runs."""

    settings: Mapping[str, MetricSetting]
    noise: Mapping[str, float]
    """Metric -> the largest change between alike runs that is no change; missing: unknown."""

    def less_is_better(self, name: str) -> bool | None:
        """Return the direction as set, else by the metric's name; None if unknown or ignored."""
        chosen = self.settings.get(name, MetricSetting()).direction
        return (
            less_is_better(name) if chosen is None else {"lower": True, "higher": False}.get(chosen)
        )

    def is_quality(self, name: str) -> bool:
        chosen = self.settings.get(name, MetricSetting()).direction
        return is_quality(name) if chosen is None else chosen != "ignore"


USUAL = JobMetrics({}, {})


def from_document(document: Any) -> dict[str, MetricSetting]:
    """Return the settings in a JSON document. Raises ValueError (pydantic's) for another shape."""
    settings = _DOCUMENT.validate_python(document)
    _check(settings)
    return settings


def to_document(settings: MetricSettings) -> dict[str, Any]:
    """Return the settings for JSON. `from_document` is the inverse."""
    document: dict[str, Any] = _DOCUMENT.dump_python(dict(settings), mode="json")
    return document


def as_lines(settings: MetricSettings) -> str:
    """Return a line for each metric, by name: PostgreSQL keeps no order of a document's keys."""
    return "\n".join(f"{name}: {_words(setting)}" for name, setting in sorted(settings.items()))


def from_lines(text: str) -> dict[str, MetricSetting]:
    """Parse the lines of `as_lines`. Raises ValueError, which names the line and what to write."""
    settings = dict(_line(line) for line in filter(None, map(str.strip, text.split("\n"))))
    _check(settings)
    return settings


def _line(line: str) -> tuple[str, MetricSetting]:
    name, _, said = line.rpartition(":")
    words = [word.strip().lower() for word in said.split(",")]
    directions = [word for word in words if word in _DIRECTIONS]
    losses = [found for word in words if (found := _LOSS.fullmatch(word))]
    is_clear = len(directions) <= 1 and len(losses) <= 1
    if not name.strip() or not is_clear or len(directions) + len(losses) != len(words):
        raise ValueError(f"“{line[:80]}” isn't clear. Write, for example, val/auroc: higher, 2 %.")
    direction = _DIRECTIONS[directions[0]] if directions else None
    if not losses:
        return name.strip(), MetricSetting(direction)
    unit: Unit = "percent" if losses[0]["unit"] == "%" else "points"
    return name.strip(), MetricSetting(direction, float(losses[0]["amount"]), unit)


def _words(setting: MetricSetting) -> str:
    words: list[str] = [setting.direction] if setting.direction else []
    if setting.tolerated_loss is not None:
        amount = f"{setting.tolerated_loss:f}".rstrip("0").rstrip(".")
        words.append(f"{amount} {'%' if setting.unit == 'percent' else 'points'}")
    return ", ".join(words)


def _check(settings: MetricSettings) -> None:
    if len(settings) > MOST_METRICS:
        raise ValueError(f"{len(settings)} metrics are too many; the limit is {MOST_METRICS}.")
    for name, setting in settings.items():
        if not name or len(name) > MOST_NAME_CHARACTERS:
            raise ValueError(f"A metric's name has 1 to {MOST_NAME_CHARACTERS} characters.")
        if setting.direction is None and setting.tolerated_loss is None:
            raise ValueError(f"Nothing is set for {name[:80]}: a direction or a tolerated loss.")
