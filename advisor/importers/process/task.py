"""The task of a conversion: what it is to read, and how much it may use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

from advisor.costing.billing import from_document as billing_from
from advisor.importers.stated_facts import MachineGroup, StatedFacts

What = Literal["archive", "profile", "s3"]
_MOMENTS = ("started_at", "ended_at", "imported_at")
_TUPLES = ("notes", "processing_jobs")


@dataclass(frozen=True)
class ConversionLimits:
    """The limits of one conversion.

    Attributes:
        memory_bytes: private memory of the process that reads the files.
        cpu_seconds: of that process.
        wall_seconds: from its start to the end of the conversion, fetching included.
        unpacked_bytes: of the archive's content.
    """

    memory_bytes: int
    cpu_seconds: int
    wall_seconds: int
    unpacked_bytes: int


@dataclass(frozen=True)
class Task:
    """One conversion.

    Attributes:
        what: an uploaded archive, a profile of a run, or a folder in S3.
        name: of the folder or file, as the person has it.
        keys: the objects that make the archive or the profile, in order.
        source: the address in S3.
    """

    what: What
    objects_url: str
    run_id: UUID
    name: str
    keys: tuple[str, ...]
    source: str
    stated: StatedFacts
    limits: ConversionLimits

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), default=_plain).encode()

    @classmethod
    def from_json(cls, body: bytes) -> Task:
        document = json.loads(body)
        return cls(
            what=document["what"],
            objects_url=document["objects_url"],
            run_id=UUID(document["run_id"]),
            name=document["name"],
            keys=tuple(document["keys"]),
            source=document["source"],
            stated=_stated(document["stated"]),
            limits=ConversionLimits(**document["limits"]),
        )


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _stated(document: Mapping[str, Any]) -> StatedFacts:
    moments = {name: datetime.fromisoformat(document[name]) for name in _MOMENTS if document[name]}
    tuples = {name: tuple(document[name]) for name in _TUPLES}
    groups = tuple(MachineGroup(**each) for each in document["groups"])
    billing = billing_from(document["billing"]) if document["billing"] else None
    return StatedFacts(**{**document, **moments, **tuples, "groups": groups, "billing": billing})


@dataclass(frozen=True)
class Places:
    """The files in a conversion's folder."""

    folder: Path

    @property
    def lock(self) -> Path:
        """Return the file that is locked while a process works in the folder."""
        return self.folder / "lock"

    @property
    def archive(self) -> Path:
        return self.folder / "archive"

    @property
    def content(self) -> Path:
        """Return the folder of what was fetched or unpacked."""
        return self.folder / "content"

    @property
    def objects(self) -> Path:
        """Return the folder of what was converted, as a store of objects."""
        return self.folder / "objects"

    @property
    def converted(self) -> Path:
        """Return the file with the facts of what was converted: a `ConversionResult`."""
        return self.folder / "converted.json"

    @property
    def refused(self) -> Path:
        """Return the file that says why nothing could be converted; see `refusal.ImportRefusal`."""
        return self.folder / "refused"

    @property
    def stage(self) -> Path:
        """Return the file that says what is being done, for people."""
        return self.folder / "stage"

    @property
    def ending(self) -> Path:
        """Return the file that says how it ended; see `ending.Ending`."""
        return self.folder / "ending.json"
