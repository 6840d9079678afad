"""The amounts that an upload takes of the quotas."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True)
class UploadAmounts:
    """Amounts that an upload takes of the quotas.

    Attributes:
        body_bytes: the size of its body.
        stored_bytes: the size of the object that it writes.
        machine_id, series: the node, and the names of its series.
    """

    run_id: UUID
    is_new_run: bool
    body_bytes: int
    stored_bytes: int = 0
    machine_id: str = ""
    series: tuple[str, ...] = ()
