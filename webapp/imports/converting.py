"""Makes the task of the process that converts an upload."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings
from trimtab.wire import LIMITS

from advisor.importers.process.task import ConversionLimits, Task, What
from advisor.importers.recording import NotImportableError
from advisor.importers.stated_facts import StatedFacts
from advisor.store.opening import open_store
from webapp.imports import grants
from webapp.imports.description import (
    ARCHIVE_SUFFIX,
    MOST_BYTES,
    NAME_SUFFIX,
    ImportDescription,
    read_description,
)
from webapp.imports.models import PROFILE, Import
from webapp.imports.waiting import PartsMissingError
from webapp.runs.models import Artefact


def task_of(row: Import, limits: ConversionLimits) -> Task:
    """Return the task of converting this upload.

    Raises:
        NotImportableError: it can't be converted, whenever it is tried.
        PartsMissingError
    """
    artefact = row.artefact
    what: What = "profile" if artefact.kind == PROFILE else "s3" if row.source else "archive"
    if what == "s3":
        grants.check_allowed(artefact.run.workspace, row.source)
    if what == "profile":
        said, keys = (
            ImportDescription(Path(artefact.name).name, (), StatedFacts()),
            [artefact.object_key],
        )
    else:
        said, keys = _described(artefact)
    return Task(
        what=what,
        objects_url=settings.OBJECTS_URL,
        run_id=artefact.run_id,
        name=said.name,
        keys=tuple(keys),
        source=row.source,
        stated=said.stated,
        limits=limits,
    )


def _described(artefact: Artefact) -> tuple[ImportDescription, list[str]]:
    """Return the description, and the objects that make the archive."""
    if not artefact.name.endswith(NAME_SUFFIX):
        # Earlier agents send the archive without a description.
        name = artefact.name.removesuffix(ARCHIVE_SUFFIX)
        stated = StatedFacts(job=artefact.run.job.name, imported_at=artefact.created_at)
        return ImportDescription(name[: LIMITS.name_chars], (), stated), [artefact.object_key]
    if artefact.size_bytes > MOST_BYTES:
        raise NotImportableError("the description of the upload is too large")
    body = open_store(settings.OBJECTS_URL).get(artefact.object_key)
    said = read_description(body, artefact.created_at)
    return said, _keys_of_parts(artefact, said)


def _keys_of_parts(artefact: Artefact, said: ImportDescription) -> list[str]:
    """Return the keys of the upload's parts; none for what lies in S3."""
    if artefact.conversion.source:
        return []
    rows = Artefact.objects.filter(run=artefact.run_id, sha256__in=said.parts)
    known = dict(rows.values_list("sha256", "object_key"))
    if not said.parts:
        raise NotImportableError("the description of the upload names no parts")
    missing = [part for part in said.parts if part not in known]
    if missing:
        raise PartsMissingError(len(missing), len(said.parts))
    return [known[part] for part in said.parts]
