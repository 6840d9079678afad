"""Services with a database and a data folder of their own, in this process."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import ClassVar
from uuid import UUID, uuid4

import celery
import psycopg
import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connections
from django.db.utils import ConnectionHandler
from django.test import Client
from django.utils import timezone

from advisor.store.opening import open_store
from tests.migrated import migrated_database
from tests.s3 import bucket_url, s3_endpoint
from tests.service.uploads import FakeAgent
from tests.upgrade.reads import Answers, _without, answers
from webapp import env
from webapp.accounts.models import Token
from webapp.accounts.setup import first_workspace
from webapp.analysis.samples import compaction
from webapp.analysis.tasks import evaluate
from webapp.runs.models import Artefact, Chunk, Node, Segment

__all__ = ["bucket_url", "s3_endpoint"]

DAY = timedelta(days=1)
POSTGRES_URL = os.environ.get("TRIMTAB_TEST_POSTGRES_URL", "")


@dataclass(frozen=True)
class Place:
    """The place where one service keeps what it has."""

    data_dir: Path
    database: dict[str, object]
    objects_url: str


class Services:
    """Makes empty services and enters one of them: from then on all code works on that one."""

    def __init__(self, folder: Path, settings, patch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
        self.folder, self._settings, self._patch = folder, settings, patch

    def new(self, objects_url: str = "", database: dict[str, object] | None = None) -> Place:
        """Return a data folder and a database in which nothing is."""
        data_dir = self.folder / uuid4().hex[:8]
        data_dir.mkdir()
        path = data_dir / "trimtab.sqlite3"
        objects = objects_url or str(data_dir / "objects")
        return Place(data_dir, database or self.empty_database(path), objects)

    def empty_database(self, path: Path) -> dict[str, object]:
        return env.sqlite(path)

    def migrated_database(self, path: Path) -> dict[str, object]:
        shutil.copy(migrated_database(), path)
        return env.sqlite(path)

    def enter(self, place: Place) -> Place:
        self._settings.DATA_DIR = place.data_dir
        self._settings.OBJECTS_URL = place.objects_url
        connections["default"].close()
        configured = ConnectionHandler({"default": dict(place.database)}).settings["default"]
        self._patch.setitem(connections.settings, "default", configured)
        connections["default"] = connections.create_connection("default")
        return place


class PostgresServices(Services):
    """Each with a database of its own on the server of the tests."""

    templates: ClassVar[list[str]] = []

    def __init__(self, folder: Path, settings, patch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
        super().__init__(folder, settings, patch)
        self.names: list[str] = []

    def empty_database(self, path: Path) -> dict[str, object]:
        return self._database("template1")

    def migrated_database(self, path: Path) -> dict[str, object]:
        if not self.templates:
            migrate(self, self.new())
            self.templates.append(self.names.pop())
        return self._database(self.templates[0])

    def _database(self, template: str) -> dict[str, object]:
        self.names.append(f"trimtab_backup_{uuid4().hex[:8]}")
        execute(f"CREATE DATABASE {self.names[-1]} TEMPLATE {template}")
        patch = pytest.MonkeyPatch()
        patch.setenv("DATABASE_URL", POSTGRES_URL)
        configured = env.database("DATABASE_URL", Path())
        patch.undo()
        return configured | {"NAME": self.names[-1], "CONN_MAX_AGE": 0}


def migrate(services: Services, place: Place) -> None:
    services.enter(place)
    call_command("migrate", interactive=False, verbosity=0)
    connections["default"].close()


def execute(sql: str) -> None:
    with closing(psycopg.connect(POSTGRES_URL, autocommit=True)) as server:
        server.execute(sql)


@pytest.fixture(scope="session", autouse=True)
def no_template_is_left() -> Iterator[None]:
    yield
    for name in PostgresServices.templates:
        execute(f"DROP DATABASE {name}")


@pytest.fixture(autouse=True)
def nobody_waits_for_work(monkeypatch):
    """Let no task be sent: tests do the work of workers themselves."""
    monkeypatch.setattr(celery.Celery, "send_task", lambda *_, **__: None)


@pytest.fixture
def sqlite_services(tmp_path, settings, django_db_blocker) -> Iterator[Services]:
    yield from _services(Services, tmp_path, settings, django_db_blocker)


@pytest.fixture
def postgres_services(tmp_path, settings, django_db_blocker) -> Iterator[Services]:
    if not POSTGRES_URL:
        pytest.skip("TRIMTAB_TEST_POSTGRES_URL names no PostgreSQL server")
    yield from _services(PostgresServices, tmp_path, settings, django_db_blocker)


ENGINES = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(params=ENGINES)
def services(request) -> Services:
    """Return services of both engines."""
    return request.getfixturevalue(f"{request.param}_services")


def _services(kind: type[Services], folder: Path, settings, blocker) -> Iterator[Services]:  # type: ignore[no-untyped-def]
    old = connections["default"]
    with pytest.MonkeyPatch.context() as patch, blocker.unblock():
        made = kind(folder, settings, patch)
        yield made
        connections["default"].close()
    connections["default"] = old
    for name in getattr(made, "names", ()):
        execute(f"DROP DATABASE {name} WITH (FORCE)")


@dataclass(frozen=True)
class Used:
    """A service with a workspace, a token that may do everything, and finished runs."""

    place: Place
    token: str
    runs: list[UUID]

    def agent(self, job: str = "digits") -> FakeAgent:
        return FakeAgent(Client(), self.token, job)

    def answers(self) -> Answers:
        month = f"{timezone.now():%Y-%m}"
        return answers(Reads(self.token), [str(run) for run in self.runs], [month])  # type: ignore[arg-type]


@dataclass(frozen=True)
class Reads:
    """The API of the service that was entered."""

    token: str

    def get(self, address: str):  # type: ignore[no-untyped-def]
        answer = Client().get(address, headers={"Authorization": f"Bearer {self.token}"})
        assert answer.status_code == 200, (address, answer.content)
        return _without(answer.json(), settings.BASE_URL)


def used(services: Services, objects_url: str = "") -> Used:
    """Return a service with two runs: one compacted, one as it was uploaded, with an artefact."""
    place = services.new(objects_url)
    migrated = services.migrated_database(place.data_dir / "trimtab.sqlite3")
    services.enter(replace(place, database=migrated))
    scopes = [Token.INGEST, Token.READ, Token.WRITE]
    made = Used(place, Token.make(first_workspace(), "all", scopes)[1], [])
    for job in ("digits", "letters"):
        made.runs.append(finished_run(made.agent(job)))
    compact(made.runs[0])
    return made


def finished_run(agent: FakeAgent, count: int = 3) -> UUID:
    assert agent.declare().status_code < 300
    for segment in agent.segments(count):
        assert agent.put(segment).status_code == 200
    assert agent.put_artefact(b"trace").status_code < 300
    evaluate(str(agent.run_id))
    return agent.run_id


def compact(run_id: UUID) -> None:
    for node in Node.objects.filter(attempt__run=run_id):
        compaction.compact_node(node.pk)


def named_keys() -> set[str]:
    """Return the keys of the objects that rows of the entered service name."""
    models = (Segment, Chunk, Artefact)
    rows = (model.objects.exclude(object_key="") for model in models)
    return {key for found in rows for key in found.values_list("object_key", flat=True)}


def stored_keys(objects_url: str) -> set[str]:
    return {stored.key for stored in open_store(objects_url).list("")}
