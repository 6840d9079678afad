"""The reason why nothing was converted, and what was left out of the files, counted by reason.

It was written by a process that read hostile files, so it is checked when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from advisor.importers.tally import MOST_REASONS, Tally, storable

_MOST_BYTES = 1024 * 1024
_MOST_CHARS = 500
_UNREADABLE = "the conversion said no readable reason"


@dataclass(frozen=True)
class ImportRefusal:
    """The reason why nothing was converted.

    Attributes:
        left_out: the skipped records, as `Tally.document` has them.
    """

    why: str
    left_out: dict[str, Any] = field(default_factory=dict)


def write(why: str, tally: Tally, path: Path) -> None:
    """Write the reason, with what was counted until then."""
    document = storable({"why": why, **tally.document()})
    path.write_text(json.dumps(document), encoding="utf-8")


def read(path: Path) -> ImportRefusal:
    """Read what `write` wrote. Of anything else, the refusal says that it can't be read."""
    if path.stat().st_size > _MOST_BYTES:
        return ImportRefusal(_UNREADABLE)
    try:
        said = json.loads(path.read_bytes())
        skipped = [_skipped(each) for each in said["skipped"][: MOST_REASONS + 1]]
        return ImportRefusal(str(said["why"]), {"skipped": skipped})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ImportRefusal(_UNREADABLE)


def _skipped(said: Mapping[str, Any]) -> dict[str, Any]:
    texts = {name: str(said[name])[:_MOST_CHARS] for name in ("what", "why", "first")}
    return {**texts, "count": int(said["count"])}
