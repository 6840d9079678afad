"""The files of a run or of one of its logged models, by their paths."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, BinaryIO
from uuid import UUID

from django.http import HttpResponseBase

from webapp.accounts.models import Token
from webapp.http import download
from webapp.ingest import artefacts
from webapp.mlflow_api.arguments import read_run_id
from webapp.mlflow_api.errors import invalid, missing
from webapp.mlflow_api.models import LoggedFile, TrackedRun
from webapp.mlflow_api.scope import read_model, read_run, writable_run
from webapp.runs.models import Artefact

MOST_CHARS = 500
MOST_PATHS = 2_000
"""Of one run."""
KIND = "mlflow"


class Place:
    """A path of the artefact store: `EXPERIMENT/RUN/artifacts/PATH`, or
    `EXPERIMENT/models/MODEL/artifacts/PATH`."""

    def __init__(self, token: Token, path: str, is_written: bool = False) -> None:
        """Raises MlflowError for a path that isn't one of a run or model of the workspace."""
        parts = checked(path).split("/")
        self.model = ""
        if parts[1:2] == ["models"] and len(parts) > 3:
            model = read_model(token, parts[2])
            self.model, run_id, rest = model.pk, model.tracked_id, parts[3:]
        elif len(parts) > 2:
            run_id, rest = read_run_id(parts[1]), parts[2:]
        else:
            raise missing("There are no artefacts at this path.")
        if rest[0] != "artifacts":
            raise missing("There are no artefacts at this path.")
        find = writable_run if is_written else read_run
        self.tracked: TrackedRun = find(token, run_id)
        self.path = "/".join(rest[1:])


def checked(path: str, may_be_empty: bool = False) -> str:
    """The path without a slash at its end. Raises MlflowError."""
    path = path.strip("/")
    parts = path.split("/") if path else []
    bad = [part for part in parts if part in ("", ".", "..") or "\\" in part]
    if bad or len(path) > MOST_CHARS or not path.isprintable() or not (path or may_be_empty):
        raise invalid("Invalid path.")
    return path


def keep(token: Token, place: Place, sha256: str, file: BinaryIO) -> None:
    """Make the file durable; one of the same path is replaced. Raises MlflowError or Problem."""
    if not place.path:
        raise invalid("Invalid path: it names no file.")
    own = LoggedFile.objects.filter(tracked=place.tracked)
    is_new = not own.filter(model=place.model, path=place.path).exists()
    if is_new and own.count() >= MOST_PATHS:
        raise invalid(f"The run has {MOST_PATHS} files, the maximum.")
    name = place.path.rpartition("/")[2][-200:]
    said = artefacts.Described(KIND, name, "")
    run_id: UUID = place.tracked.pk
    artefacts.keep(token, run_id, sha256, said, file)
    artefact = Artefact.objects.get(run=run_id, sha256=sha256)
    LoggedFile.objects.update_or_create(
        tracked=place.tracked, model=place.model, path=place.path, defaults={"artefact": artefact}
    )


def answer(place: Place) -> HttpResponseBase:
    """The file as a download. Raises MlflowError."""
    found = _files(place.tracked, place.model).filter(path=place.path).first()
    if found is None:
        raise missing(f"No such artefact: '{place.path[:200]}'")
    artefact = found.artefact
    return download.answer(artefact.object_key, artefact.name, artefact.size_bytes)


def remove(place: Place) -> None:
    """Forget the path, or all in this folder. The content stays with the run until that goes."""
    own = _files(place.tracked, place.model)
    inside = own.filter(path__startswith=f"{place.path}/") if place.path else own
    (inside | own.filter(path=place.path)).delete()


def listed(tracked: TrackedRun, model: str, folder: str) -> list[dict[str, Any]]:
    """What is in a folder, by names; nothing for a file."""
    before = f"{folder}/" if folder else ""
    inside = _files(tracked, model).filter(path__startswith=before)
    return list(_entries(inside, len(before)))


def _entries(inside: Iterable[LoggedFile], skipped: int) -> Iterable[dict[str, Any]]:
    folders: set[str] = set()
    for file in inside:
        name, slash, _ = file.path[skipped:].partition("/")
        if not slash:
            yield {"path": name, "is_dir": False, "file_size": file.artefact.size_bytes}
        elif name not in folders:
            folders.add(name)
            yield {"path": name, "is_dir": True}


def _files(tracked: TrackedRun, model: str):  # type: ignore[no-untyped-def]
    return LoggedFile.objects.filter(tracked=tracked, model=model).select_related("artefact")
