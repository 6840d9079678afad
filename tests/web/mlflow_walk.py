"""A walk through every method of MLflow's API, as everybody who might call it.

All methods are one route, so `walk` can't see them. Each request names rows that the uploader's
token made. `ALLOWED` says who may call a method on them: a new method fails the walk until it is
named there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.contrib.sessions.models import Session
from django.db import transaction
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from tests.mlflow.client import STORE, MlflowClient
from tests.web import factories
from webapp.accounts.models import Token, Workspace
from webapp.mlflow_api.models import DeletedExperiment
from webapp.runs.models import Job

SECRET = "zephyr-secret"
"""Every text of the uploader's rows holds it, but the job's name."""
NAME = "zephyr-job"

READ = {"uploader", "reader", "logger", "everything"}
"""The people who may be sent a text of these rows."""
UPLOAD = {"idle", "neighbour", "uploader", "logger", "everything"}
CHANGE = {"uploader", "writer", "everything"}
"""An upload is all that it takes, or the scope `write`."""
LIST = READ | {"idle", "neighbour", "outsider"}
"""Each sees its own; what they are sent is compared, too."""
ALLOWED: dict[tuple[str, str], set[str]] = {
    ("GET", "experiments/get"): READ,
    ("GET", "experiments/get-by-name"): READ | {"idle", "neighbour"},
    ("GET", "experiments/search"): LIST,
    ("POST", "experiments/search"): LIST,
    ("POST", "experiments/create"): UPLOAD | {"outsider"},
    ("POST", "experiments/set-experiment-tag"): {"writer", "everything"},
    ("POST", "experiments/delete-experiment-tag"): {"writer", "everything"},
    ("POST", "experiments/update"): {"writer", "everything"},
    ("POST", "experiments/delete"): {"writer", "everything"},
    ("POST", "experiments/restore"): {"writer", "everything"},
    ("POST", "runs/create"): UPLOAD - {"idle", "neighbour"},
    # To end the run, and to rename it.
    ("POST", "runs/update"): {"uploader", "everything"},
    ("POST", "runs/delete"): CHANGE,
    ("POST", "runs/restore"): CHANGE,
    ("POST", "runs/log-metric"): UPLOAD,
    ("POST", "runs/log-parameter"): UPLOAD,
    # With tags.
    ("POST", "runs/log-batch"): {"uploader", "everything"},
    ("POST", "runs/log-inputs"): UPLOAD,
    ("POST", "runs/log-model"): UPLOAD,
    ("POST", "runs/outputs"): UPLOAD,
    ("POST", "runs/set-tag"): CHANGE,
    ("POST", "runs/delete-tag"): CHANGE,
    ("GET", "runs/get"): READ,
    ("POST", "runs/search"): LIST,
    ("GET", "metrics/get-history"): READ,
    ("GET", "artifacts/list"): READ,
    ("POST", "logged-models"): UPLOAD,
    ("GET", "logged-models/{id}"): READ,
    ("PATCH", "logged-models/{id}"): CHANGE,
    ("PATCH", "logged-models/{id}/tags"): CHANGE,
    ("POST", "logged-models/{id}/params"): CHANGE,
    ("DELETE", "logged-models/{id}"): CHANGE,
    ("DELETE", "logged-models/{id}/tags/{key}"): CHANGE,
    ("POST", "logged-models/search"): LIST,
    ("POST", "registered-models/create"): UPLOAD | {"outsider"},
    ("GET", "registered-models/get"): READ,
    ("GET", "registered-models/search"): LIST,
    ("POST", "registered-models/rename"): CHANGE,
    ("PATCH", "registered-models/update"): CHANGE,
    ("DELETE", "registered-models/delete"): CHANGE,
    ("GET", "registered-models/get-latest-versions"): READ,
    ("POST", "registered-models/get-latest-versions"): READ,
    ("POST", "registered-models/set-tag"): CHANGE,
    ("DELETE", "registered-models/delete-tag"): CHANGE,
    ("POST", "registered-models/alias"): CHANGE,
    ("DELETE", "registered-models/alias"): CHANGE,
    ("GET", "registered-models/alias"): READ,
    # Of a run whose id is known.
    ("POST", "model-versions/create"): UPLOAD,
    ("GET", "model-versions/get"): READ,
    ("GET", "model-versions/search"): LIST,
    ("GET", "model-versions/get-download-uri"): READ,
    ("PATCH", "model-versions/update"): CHANGE,
    ("DELETE", "model-versions/delete"): CHANGE,
    ("POST", "model-versions/transition-stage"): CHANGE,
    ("POST", "model-versions/set-tag"): CHANGE,
    ("DELETE", "model-versions/delete-tag"): CHANGE,
    ("GET", "artifacts"): READ,
    ("GET", "artifacts/{path}"): READ,
    # There is a file already.
    ("PUT", "artifacts/{path}"): {"uploader", "everything"},
    ("DELETE", "artifacts/{path}"): CHANGE,
}
"""Method -> who may call it on the uploader's rows, or, of a list, on their own."""
ANSWERED_TO_WRITERS = {
    key for key in ALLOWED if key[0] == "PATCH" or key[1].endswith(("/params", "/rename", "-stage"))
}
"""A token with the scope `write` reads what it changed."""
CREATED = "another-job"
REGISTERED, ALIAS = "zephyr-model", "champion"
OTHERWISE = {
    "runs/log-metric": {"value": 3},
    "logged-models/{id}": {"status": "LOGGED_MODEL_READY"},
    "registered-models/create": {"name": CREATED},
}
"""The fields of a request that other methods understand otherwise."""
REFUSALS = (401, 403, 404)


@dataclass(frozen=True)
class World:
    workspace: Workspace
    people: dict[str, MlflowClient]
    run_id: str
    job: Job
    model_id: str
    deleted_job: Job

    def said(self, path: str) -> dict[str, Any]:
        """Return the request of a method. An id of the job can be guessed."""
        is_registry = path.startswith(("registered-models", "model-versions"))
        registry = {"name": REGISTERED, "key": SECRET} if is_registry else {}
        is_restored = path == "experiments/restore"
        deleted = {"experiment_id": str(self.deleted_job.pk)} if is_restored else {}
        return self._common() | registry | deleted | OTHERWISE.get(path, {})

    def _common(self) -> dict[str, Any]:
        tag = {"key": "team", "value": "stolen"}
        return {
            "experiment_id": str(self.job.pk),
            "experiment_ids": [str(self.job.pk)],
            "experiment_name": NAME,
            "name": CREATED,
            "new_name": CREATED,
            "version": "1",
            "alias": ALIAS,
            "stage": "Production",
            "source": f"runs:/{self.run_id}/model",
            "status": "FINISHED",
            "run_id": self.run_id,
            "run_uuid": self.run_id,
            "source_run_id": self.run_id,
            "metric_key": "loss",
            "timestamp": 1,
            "model_json": "{}",
            "tags": [tag],
            "key": "team",
            "value": "3",
            "params": [{"key": "lr", "value": "1"}],
            "models": [{"model_id": self.model_id, "step": 1}],
            "datasets": [{"dataset": {"name": "other", "digest": "1"}}],
        }

    def path(self) -> str:
        return f"0/{self.run_id}/artifacts/{SECRET}.txt"


def world() -> World:
    """Return twelve identities, of whom the uploader has a run with everything that a run can
    have.
    """
    workspace, elsewhere = factories.workspace("Ours"), factories.workspace("Elsewhere")
    scopes = {
        "idle": ["ingest"],
        "neighbour": ["ingest"],
        "uploader": ["ingest"],
        "reader": ["read"],
        "writer": ["write"],
        "logger": ["ingest", "read"],
        "everything": ["ingest", "read", "write"],
    }
    people = {name: _with_token(workspace, name, each) for name, each in scopes.items()}
    people["outsider"] = _with_token(elsewhere, "outsider", scopes["everything"])
    revoked = {"revoked_at": timezone.now()}
    people["revoked"] = _with_token(workspace, "revoked", scopes["everything"], **revoked)
    people["guesser"] = MlflowClient(Client(), "tt_guessed")
    people["anonymous"] = MlflowClient(Client(), "")
    people["member"] = MlflowClient(Client(), "")
    people["member"].client.force_login(factories.member(workspace))
    people["neighbour"].start(people["neighbour"].experiment("neighbour"))
    uploaded = _uploaded(people["uploader"], workspace)
    return World(workspace, people, *uploaded, _deleted_job(workspace))


def _deleted_job(workspace: Workspace) -> Job:
    job = Job.objects.create(workspace=workspace, name="zephyr-deleted")
    DeletedExperiment.objects.create(job=job)
    return job


def _with_token(of: Workspace, name: str, scopes: list[str], **more: Any) -> MlflowClient:
    return MlflowClient(Client(), Token.make(of, name, scopes, **more)[1])


def _uploaded(client: MlflowClient, workspace: Workspace) -> tuple[str, Job, str]:
    run_id = client.start(client.experiment(NAME), team=SECRET)
    pair = {"key": SECRET, "value": SECRET}
    client.log(run_id, ("loss", 1.0, 1, 0), (SECRET, 1.0, 1, 0), params=[pair], tags=[pair])
    client.post("runs/update", run_id=run_id, run_name=SECRET)
    client.post("runs/log-inputs", run_id=run_id, datasets=[{"dataset": {"name": SECRET}}])
    client.put_file(f"0/{run_id}/artifacts/{SECRET}.txt", SECRET.encode())
    said = {"source_run_id": run_id, "name": SECRET, "params": [pair], "tags": [pair]}
    model_id = client.post("logged-models", **said).json()["model"]["info"]["model_id"]
    client.put_file(f"0/models/{model_id}/artifacts/{SECRET}.txt", SECRET.encode())
    tags = {"name": REGISTERED, "description": SECRET, "tags": [pair]}
    client.post("registered-models/create", **tags)
    source = f"runs:/{run_id}/{SECRET}"
    client.post("model-versions/create", **tags, source=source, run_id=run_id)
    client.post("registered-models/alias", name=REGISTERED, alias=ALIAS, version="1")
    job = Job.objects.get(workspace=workspace, name=NAME)
    job.tags, job.owner = {"team": SECRET}, SECRET
    job.save()
    return run_id, job, model_id


def method_problems(world: World, verb: str, path: str) -> tuple[list[str], dict[str, int]]:
    """Return what is wrong with who may call a method, and the status that each got."""
    found, statuses, before = [], {}, rows()
    for person, client in world.people.items():
        savepoint = transaction.savepoint()
        answer = call(world, client, verb, path)
        sent = _sent(answer)
        may_change = person in ALLOWED[verb, path] and verb != "GET"
        is_changed = not may_change and rows() != before
        transaction.savepoint_rollback(savepoint)
        statuses[person] = answer.status_code
        wrong = _wrong((verb, path), person, answer.status_code, sent)
        problems = [*wrong, *(["changed something"] if is_changed else [])]
        found += [f"{verb} {path} as {person} {problem}" for problem in problems]
    return found, statuses


def _wrong(key: tuple[str, str], person: str, status: int, sent: bytes) -> Iterator[str]:
    is_allowed = person in ALLOWED[key]
    if is_allowed != (status == 200) or status not in (200, *REFUSALS):
        yield f"got {status}"
    may_be_sent = READ | ({"writer"} if key in ANSWERED_TO_WRITERS else set())
    if person not in may_be_sent and SECRET.encode() in sent:
        yield "was sent what the uploader alone may read"
    is_its_word = key[1] == "experiments/get-by-name"
    if person not in may_be_sent and not is_its_word and NAME.encode() in sent:
        yield "was sent the job's name"
    if person not in may_be_sent and is_its_word and b"time" in sent:
        yield "was sent more of the job than its name"


def call(world: World, client: MlflowClient, verb: str, path: str) -> HttpResponse:
    """Call any method or route of the table, on the uploader's rows."""
    if path.startswith("artifacts") and path != "artifacts/list":
        return _call_store(world, client, verb, path)
    method = path.replace("{id}", world.model_id).replace("{key}", SECRET)
    if verb == "GET":
        return client.get(method, **world.said(path))
    return client.send(verb, method, json.dumps(world.said(path)))


def _call_store(world: World, client: MlflowClient, verb: str, path: str) -> HttpResponse:
    if path == "artifacts":
        folder = world.path().rpartition("/")[0]
        return client.client.get(STORE, {"path": folder}, headers=client.headers)
    ask: Callable[..., HttpResponse] = getattr(client.client, verb.lower())
    more = {"data": b"other", "content_type": "text/plain"} if verb == "PUT" else {}
    return ask(f"{STORE}/{world.path()}", headers=client.headers, **more)


def rows() -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of the database, by value, without the times at which tokens were used."""
    found = {}
    for model in apps.get_models(include_auto_created=True):
        if model is not Session:
            fields = [f.attname for f in model._meta.concrete_fields if f.name != "last_used_at"]
            found[model._meta.label] = list(model.objects.order_by("pk").values_list(*fields))
    return found


def line(method: str, cells: Iterable[object]) -> str:
    """Return a line of the matrix that the walk prints."""
    return f"{method:34}" + "".join(f"{cell!s:>11}" for cell in cells)


def _sent(answer: HttpResponse) -> bytes:
    body = b"".join(answer.streaming_content) if answer.streaming else answer.content
    return bytes(body) + repr(sorted(answer.headers.items())).encode()
