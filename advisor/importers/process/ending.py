"""The end of a conversion, and what it used."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

How = Literal["converted", "refused", "away", "busy", "died"]


@dataclass(frozen=True)
class Ending:
    """The end of a conversion.

    Attributes:
        how: converted; refused, whenever it is tried; away: what it reads or writes can't be
            reached now; busy: another process works in its folder; died: for an unknown reason.
        why: a sentence for people; empty if it was converted.
        cpu_seconds: of all its processes.
        unpacked_bytes: that its files took on the disk.
        left_out: of files that were refused, what was skipped; see `refusal.ImportRefusal`.
    """

    how: How
    why: str = ""
    cpu_seconds: float = 0.0
    unpacked_bytes: int = 0
    left_out: dict[str, Any] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write it whole or not at all."""
        partly = path.with_suffix(".part")
        partly.write_text(json.dumps(asdict(self)), encoding="utf-8")
        partly.replace(path)

    @classmethod
    def read(cls, path: Path) -> Ending | None:
        """Read it; None: the process wrote none."""
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
