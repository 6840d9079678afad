"""The files of a run or of one of its logged models, by their paths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO
from uuid import UUID

from django.db.models import Q, QuerySet
from django.http import HttpResponseBase

from webapp.accounts.models import Token
from webapp.database.bytewise import folder_condition
from webapp.http.downloads import serve_object
from webapp.ingest import artefacts
from webapp.mlflow_api import changing
from webapp.mlflow_api.arguments import read_run_id
from webapp.mlflow_api.errors import MlflowError, invalid_parameter, missing_resource
from webapp.mlflow_api.models import LoggedFile, TrackedRun
from webapp.mlflow_api.rights import Right
from webapp.mlflow_api.scope import check_changeable, model_by_id
from webapp.runs.models import Artefact

MOST_CHARS = 500
MOST_PATHS = 2_000
"""The most paths of one run."""
AT_ONCE = 100
"""Files that are read, before those of the folder that they end in are left out."""
KIND = "mlflow"


class ArtefactPath:
    """A path of the artefact store: `EXPERIMENT/RUN/artifacts/PATH`, or
    `EXPERIMENT/models/MODEL/artifacts/PATH`."""

    def __init__(self, token: Token, path: str, right: Right) -> None:
        """Parse a path. Raises MlflowError for a path that isn't one of a run or model that the
        right finds.
        """
        parts = check_path(path).split("/")
        self.model = ""
        if parts[1:2] == ["models"] and len(parts) > 3:
            model = model_by_id(token, parts[2])
            self.model, run_id, rest = model.pk, model.tracked_id, parts[3:]
        elif len(parts) > 2:
            run_id, rest = read_run_id(parts[1]), parts[2:]
        else:
            raise _nothing_here()
        if rest[0] != "artifacts":
            raise _nothing_here()
        self.tracked: TrackedRun = _found(token, run_id, right)
        self.path = "/".join(rest[1:])


def _found(token: Token, run_id: UUID, right: Right) -> TrackedRun:
    """Return the run. Raises MlflowError, which doesn't name the run: of a model, the token may not
    know it.
    """
    try:
        tracked: TrackedRun = right.find(token, run_id)
    except MlflowError as error:
        if error.code != "RESOURCE_DOES_NOT_EXIST":
            raise
        raise _nothing_here() from None
    return tracked


def _nothing_here() -> MlflowError:
    return missing_resource("There are no artefacts at this path.")


def check_path(path: str, may_be_empty: bool = False) -> str:
    """Return the path without a slash at its end. Raises MlflowError."""
    path = path.strip("/")
    parts = path.split("/") if path else []
    bad = [part for part in parts if part in ("", ".", "..") or "\\" in part]
    if bad or len(path) > MOST_CHARS or not path.isprintable() or not (path or may_be_empty):
        raise invalid_parameter("Invalid path.")
    return path


def keep_file(token: Token, place: ArtefactPath, sha256: str, file: BinaryIO) -> None:
    """Make the file durable; one of the same path is replaced. Raises MlflowError or Problem."""
    if not place.path:
        raise invalid_parameter("Invalid path: it names no file.")
    own = LoggedFile.objects.filter(tracked=place.tracked)
    is_new = not own.filter(model=place.model, path=place.path).exists()
    if not is_new:
        check_changeable(token, place.tracked)
    elif own.count() >= MOST_PATHS:
        raise invalid_parameter(f"The run has {MOST_PATHS} files, the maximum.")
    name = place.path.rpartition("/")[2][-200:]
    said = artefacts.Description(KIND, name, "")
    run_id: UUID = place.tracked.pk
    artefacts.store_artefact(token, run_id, sha256, said, file)
    artefact = Artefact.objects.get(run=run_id, sha256=sha256)
    LoggedFile.objects.update_or_create(
        tracked=place.tracked,
        model=place.model,
        path=place.path,
        defaults={"artefact": artefact},
        create_defaults={"artefact": artefact, "written_by": token},
    )


def answer(place: ArtefactPath) -> HttpResponseBase:
    """Answer the file as a download. Raises MlflowError."""
    found = _files(place.tracked, place.model).filter(path=place.path).first()
    if found is None:
        raise missing_resource(f"No such artefact: '{place.path[:200]}'")
    artefact = found.artefact
    return serve_object(artefact.object_key, artefact.name, artefact.size_bytes)


def remove(token: Token, place: ArtefactPath) -> None:
    """Forget the path, or all in this folder, as `changing.remove` does."""
    own = _files(place.tracked, place.model)
    if place.path:
        own = own.filter(folder_condition("path", place.path) | Q(path=place.path))
    changing.remove(token, place.tracked, own)


def list_folder(tracked: TrackedRun, model: str, folder: str) -> list[dict[str, Any]]:
    """Return what is in a folder, by names; nothing for a file."""
    return list(_entries(_files(tracked, model), folder))


def _entries(own: QuerySet[LoggedFile], parent: str) -> Iterator[dict[str, Any]]:
    """Yield them in the order of their paths. What else is in a listed folder isn't read."""
    before, folder = f"{parent}/" if parent else "", ""
    within = own.filter(path__lt=f"{parent}0") if parent else own
    later = within.filter(path__gte=before)
    while some := later.values_list("path", "artefact__size_bytes")[:AT_ONCE]:
        for path, size_bytes in some:
            name, slash, _ = path[len(before) :].partition("/")
            if not slash:
                yield {"path": name, "is_dir": False, "file_size": size_bytes}
            elif name != folder:
                folder = name
                yield {"path": name, "is_dir": True}
        last = f"{before}{name}"
        later = within.filter(path__gte=f"{last}0") if slash else within.filter(path__gt=last)


def _files(tracked: TrackedRun, model: str) -> QuerySet[LoggedFile]:
    return LoggedFile.objects.filter(tracked=tracked, model=model).select_related("artefact")
