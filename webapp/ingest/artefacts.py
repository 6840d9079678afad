"""Takes the files that belong to a run: streamed, hashed, kept once under what they hold."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO
from urllib.parse import unquote
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.http import HttpRequest
from django.http.request import UnreadablePostError
from trimtab.wire import LIMITS

from advisor.store.opening import open_store
from webapp.accounts.models import Token, Workspace
from webapp.http.problems import Problem
from webapp.imports import allowance
from webapp.imports import queue as imports
from webapp.ingest import own_runs
from webapp.ingest.bodies import body_cut_off, check_length
from webapp.quotas import admission
from webapp.quotas.amounts import UploadAmounts
from webapp.runs.models import Artefact

MOST_BYTES = 64 * 1024 * 1024
MOST_OF_A_RUN = 200
PIECE_BYTES = 1024 * 1024
_KIND = re.compile(r"[a-z][a-z0-9_-]{0,31}\Z")
_NAME_CHARS = 200


@dataclass(frozen=True)
class Description:
    """The headers' description of a file; `job` is for a run that doesn't exist yet."""

    kind: str
    name: str
    job: str


def read_description(request: HttpRequest) -> Description:
    """Read the headers. Raises Problem 400 or 415, naming the header."""
    if request.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        fix = "Send the file without Content-Encoding: the SHA-256 is that of the bytes sent."
        raise Problem(415, "Artefacts can't have a Content-Encoding.", "Content-Encoding", fix)
    kind = request.headers.get("X-Trimtab-Kind", "")
    if not _KIND.match(kind):
        fix = "Send at most 32 lower-case letters, digits, - and _, for example profile."
        raise _invalid("Not a valid kind of artefact.", "X-Trimtab-Kind", fix)
    name = _header(request, "X-Trimtab-Name", _NAME_CHARS)
    if not name or "/" in name or "\\" in name or name in (".", ".."):
        raise _invalid(
            "Not a valid file name.", "X-Trimtab-Name", "Send a file name without a path."
        )
    return Description(kind, name, _header(request, "X-Trimtab-Job", LIMITS.name_chars))


@contextmanager
def receive_file(request: HttpRequest, sha256: str) -> Iterator[BinaryIO]:
    """Yield the body as a file, which is never in memory as a whole.

    Raises:
        Problem: 400 if it isn't what `sha256` says or ends early; 411 or 413.
    """
    with stream_file(request) as (file, received_sha256):
        if received_sha256 != sha256:
            fix = "Send the whole file under the SHA-256 of its content."
            detail = "The SHA-256 of the content differs from the one in the URL."
            raise Problem(400, detail, "sha256", fix, kind="unreadable-body")
        yield file


@contextmanager
def stream_file(request: HttpRequest) -> Iterator[tuple[BinaryIO, str]]:
    """Yield the body as a file, and its SHA-256. Raises Problem 400, 411 or 413."""
    check_length(request.headers, MOST_BYTES, "Send a smaller file.")
    digest = hashlib.sha256()
    with tempfile.TemporaryFile(dir=settings.SCRATCH_DIR) as file:
        for piece in _pieces(request):
            digest.update(piece)
            file.write(piece)
        yield file, digest.hexdigest()


def store_artefact(
    token: Token, run_id: UUID, sha256: str, said: Description, file: BinaryIO
) -> bool:
    """Make the file durable; True if it already was.

    Raises:
        Problem: 404 if the run is another workspace's; 400 if nobody knows the run nor its job;
            409 if the run has too many files; 429 beyond a quota.
    """
    workspace = token.workspace
    own = Artefact.objects.filter(run=run_id, run__workspace=workspace, sha256=sha256)
    if known := own.first():
        imports.convert_again(known)
        return True
    is_new, size_bytes = _is_new_run(workspace, run_id, said), file.seek(0, 2)
    allowance.check_kind(workspace, said.kind)
    taken = UploadAmounts(run_id, is_new, size_bytes, size_bytes)
    with admission.count_while_written(workspace, token, taken) as counted:
        key = f"runs/{run_id}/artefacts/{sha256}"
        open_store(settings.OBJECTS_URL).put_file(key, file)
        described = {"kind": said.kind, "name": said.name, "object_key": key}
        with transaction.atomic():
            run = own_runs.lock_own_run(workspace, run_id, said.job)
            artefact, made = Artefact.objects.get_or_create(
                run=run, sha256=sha256, defaults={**described, "size_bytes": size_bytes}
            )
            imports.artefact_arrived(artefact)
        if not made:
            counted.take_back()
    return not made


def _is_new_run(workspace: Workspace, run_id: UUID, said: Description) -> bool:
    """Return whether the run is new, before anything is written. Raises Problem as
    `store_artefact` does.
    """
    is_new = own_runs.is_new_run(workspace, run_id)
    if not said.job and is_new:
        fix = "Send the name of its job."
        raise Problem(400, "Unknown run.", "X-Trimtab-Job", fix, kind="unknown-run")
    if Artefact.objects.filter(run=run_id).count() >= MOST_OF_A_RUN:
        detail = f"The run has {MOST_OF_A_RUN} artefacts, the maximum."
        fix = "Pack several files into one."
        raise Problem(409, detail, "run_id", fix, kind="too-many-artefacts")
    return is_new


def _pieces(request: HttpRequest) -> Iterator[bytes]:
    try:
        while piece := request.read(PIECE_BYTES):
            yield piece
    except UnreadablePostError:
        raise body_cut_off() from None


def _header(request: HttpRequest, field: str, most_chars: int) -> str:
    """Return a header's text, which is sent percent-encoded because headers carry ASCII only."""
    text = unquote(request.headers.get(field, ""))
    if len(text) > most_chars or not text.isprintable():
        fix = f"Send at most {most_chars} printable characters, percent-encoded."
        raise _invalid("Too long, or not printable.", field, fix)
    return text


def _invalid(detail: str, field: str, fix: str) -> Problem:
    return Problem(400, detail, field, fix, kind="invalid-upload")
