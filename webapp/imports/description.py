"""The description of an upload: its parts, and what the person said of the run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from advisor.importers.described_job import from_describe
from advisor.importers.recording import NotImportableError
from advisor.importers.stated_facts import StatedFacts, from_document

MOST_BYTES = 8 * 1024 * 1024
MOST_PARTS = 200
NAME_SUFFIX = ".import.json"
ARCHIVE_SUFFIX = ".tar.gz"
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class ImportDescription:
    """Description of an upload.

    Attributes:
        name: the folder's name on the person's machine.
        parts: the SHA-256 of each part of the archive, in order; none for what lies elsewhere.
    """

    name: str
    parts: tuple[str, ...]
    stated: StatedFacts


def read_description(body: bytes, imported_at: datetime) -> ImportDescription:
    """Read a description that `trimtab import` wrote.

    Raises:
        NotImportableError: it has another shape.
    """
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise NotImportableError("the description of the upload is not a JSON object")
    parts, name = document.get("parts"), document.get("name")
    if not isinstance(name, str) or not _are_parts(parts):
        raise NotImportableError("the description of the upload names no folder or no parts")
    return ImportDescription(name[:200], tuple(parts or ()), _stated(document, imported_at))


def _are_parts(parts: object) -> bool:
    return (
        isinstance(parts, list)
        and len(parts) <= MOST_PARTS
        and all(isinstance(part, str) and _SHA256.fullmatch(part) for part in parts)
    )


def _stated(document: Mapping[str, Any], imported_at: datetime) -> StatedFacts:
    said = document.get("stated")
    stated = from_document(said if isinstance(said, dict) else {})
    if document.get("describe") is not None:
        stated = stated.fill_gaps_from(from_describe(document["describe"]))
    return replace(stated, imported_at=imported_at)
