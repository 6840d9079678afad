"""Puts an upload's parts together, unpacks them, and converts what is inside."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import IO

from django.conf import settings
from trimtab.wire import LIMITS

from advisor.importers.archive import unpack
from advisor.importers.conversion import Imported, convert, operators_of
from advisor.importers.recording import NotImportableError
from advisor.importers.source import Source
from advisor.importers.stated import Stated
from advisor.importers.tally import Tally
from advisor.store.objects import ObjectStore
from advisor.store.opening import open_store
from webapp.background import claims
from webapp.imports.description import (
    ARCHIVE_SUFFIX,
    MOST_BYTES,
    NAME_SUFFIX,
    Description,
    read_description,
)
from webapp.imports.from_s3 import convert_source
from webapp.imports.models import Import
from webapp.imports.queue import PROFILE
from webapp.imports.waiting import PartsMissingError
from webapp.runs.models import Artefact

RENEWED_EVERY_SECONDS = 15
STAGE_EVERY_SECONDS = 2
_PIECE_BYTES = 1024 * 1024


class LeaseLostError(RuntimeError):
    """Another worker has the import by now."""


def convert_upload(held: claims.Claim[Import]) -> Imported:
    """Convert the upload. Writes objects, but no rows except the lease and the stage.

    Raises:
        NotImportableError: it can't be converted, whenever it is tried.
        PartsMissingError
        SourceAwayError: try again later.
    """
    artefact, pulse = held.row.artefact, _Pulse(held)
    if held.row.source:
        return convert_source(held, pulse)
    store = open_store(settings.OBJECTS_URL)
    if artefact.kind == PROFILE:
        return _operators(store, artefact, pulse)
    with tempfile.TemporaryDirectory(prefix="trimtab-import-") as name:
        folder = Path(name)
        said, keys = _described(store, artefact)
        with (folder / "archive").open("w+b") as packed:
            pulse("Fetching")
            _fetch(store, keys, packed, pulse)
            pulse("Unpacking")
            tally = Tally()
            unpack(packed, folder / "content", tally, pulse)
        (folder / "archive").unlink()
        pulse("Converting")
        source = Source(folder / "content", said.name)
        return convert(store, source, said.stated, artefact.run_id, tally=tally, alive=pulse)


def _operators(store: ObjectStore, artefact: Artefact, pulse: _Pulse) -> Imported:
    """Of a profile. Its run has samples of its own."""
    with tempfile.TemporaryDirectory(prefix="trimtab-import-") as folder:
        # By its name, since that says whether it is compressed.
        path = Path(folder, Path(artefact.name).name)
        with path.open("wb") as file:
            _fetch(store, [artefact.object_key], file, pulse)
        return operators_of(Source.at(path), pulse)


def _described(store: ObjectStore, artefact: Artefact) -> tuple[Description, list[str]]:
    """The description, and the objects that make the archive."""
    if not artefact.name.endswith(NAME_SUFFIX):
        # Earlier agents send the archive without a description.
        name = artefact.name.removesuffix(ARCHIVE_SUFFIX)
        stated = Stated(job=artefact.run.job.name, imported_at=artefact.created_at)
        return Description(name[: LIMITS.name_chars], (), stated), [artefact.object_key]
    if artefact.size_bytes > MOST_BYTES:
        raise NotImportableError("the description of the upload is too large")
    said = read_description(store.get(artefact.object_key), artefact.created_at)
    known = dict(
        Artefact.objects.filter(run=artefact.run_id, sha256__in=said.parts).values_list(
            "sha256", "object_key"
        )
    )
    if not said.parts:
        raise NotImportableError("the description of the upload names no parts")
    missing = [part for part in said.parts if part not in known]
    if missing:
        raise PartsMissingError(len(missing), len(said.parts))
    return said, [known[part] for part in said.parts]


def _fetch(
    store: ObjectStore, keys: list[str], into: IO[bytes], alive: Callable[[], object]
) -> None:
    for key in keys:
        with closing(store.open(key)) as part:
            shutil.copyfileobj(part, into, _PIECE_BYTES)
        alive()
    into.seek(0)


class _Pulse:
    """Renews the lease while the work continues, and says what is being done."""

    def __init__(self, held: claims.Claim[Import]) -> None:
        self._held = held
        self._stage = ""
        self._next = self._written = 0.0

    def __call__(self, stage: str = "", is_new: bool = True) -> None:
        """`is_new`: a stage to be written at once; else within some seconds."""
        now = time.monotonic()
        due = self._next if not stage else self._written + STAGE_EVERY_SECONDS
        self._stage = stage or self._stage
        if now < due and not (stage and is_new):
            return
        self._written, self._next = now, now + RENEWED_EVERY_SECONDS
        if not claims.renew(self._held, stage=self._stage):
            raise LeaseLostError
