"""Trouble of the service's own is 503 with Retry-After, told in words and logged once; an error in
the code stays 500."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import time
from types import SimpleNamespace

import psycopg.errors
import pytest
from django.db import DatabaseError, OperationalError, ProgrammingError, connection
from django.test import Client
from django.urls import reverse

from tests.html import read_page
from tests.service.uploads import FakeAgent
from webapp.accounts.models import Membership, Token, User
from webapp.http import trouble
from webapp.runs.models import Artefact, Segment

pytestmark = pytest.mark.django_db
AWAY, UPDATED = "database doesn't answer", "database is being updated"


@pytest.fixture(autouse=True)
def _forget(monkeypatch):
    """Forget all that was logged before."""
    monkeypatch.setattr(trouble, "_logged_at", {})


@pytest.fixture
def upload(agent, workspace) -> FakeAgent:
    agent.client = Client(raise_request_exception=False)
    return agent


@pytest.fixture
def reader(workspace) -> Client:
    """Return a client that is signed in, and doesn't raise what the service raises."""
    user = User.objects.create_user("ada@example.org")
    Membership.objects.create(workspace=workspace, user=user, role=Membership.OWNER)
    client = Client(raise_request_exception=False)
    client.force_login(user)
    return client


def _is_trouble(answer, words: str) -> None:  # type: ignore[no-untyped-def]
    assert answer.status_code == 503
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.headers["Retry-After"] == "30"
    problem = answer.json()
    assert words in problem["detail"]
    assert problem["type"].endswith("#unavailable")


def _raising(error: Exception, cause: BaseException | None = None):  # type: ignore[no-untyped-def]
    def fails(*_: object, **__: object) -> None:
        raise error from cause

    return fails


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.EROFS, "read-only"),
        (errno.ENOSPC, "disk is full"),
        (errno.EACCES, "may not use its files"),
    ],
)
def test_uploads_that_find_no_place_are_taken_later(upload, monkeypatch, code, words):
    store = "advisor.store.folder.FolderStore.put_file"
    with monkeypatch.context() as broken:
        broken.setattr(store, _raising(OSError(code, os.strerror(code), "/secret/place")))
        for answer in (upload.put(upload.segment(0)), upload.put_artefact(b"a")):
            _is_trouble(answer, words)
            assert b"secret" not in answer.content
    assert not Segment.objects.exists()
    assert not Artefact.objects.exists()
    assert upload.put(upload.segment(0)).status_code == 200
    assert upload.put_artefact(b"a").status_code == 200


def test_objects_that_are_a_folder_no_longer_there_are_made_again(upload, settings, tmp_path):
    settings.OBJECTS_URL = str(tmp_path / "new" / "objects")
    assert upload.put(upload.segment(0)).status_code == 200


def test_a_bucket_that_is_away_is_trouble_for_uploads_and_reads(
    upload, workspace, settings, bucket_url, monkeypatch
):
    settings.OBJECTS_URL = bucket_url
    assert upload.put(upload.segment(0)).status_code == 200
    token = Token.make(workspace, "reader", ["read"])[1]
    series = f"/api/v1/runs/{upload.run_id}/series?names=host.cpu_busy_pct"
    bearer = {"Authorization": f"Bearer {token}"}
    assert upload.client.get(series, headers=bearer).status_code == 200
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    settings.OBJECTS_URL = f"{bucket_url}/"
    _is_trouble(upload.put(upload.segment(1)), "object store doesn't answer")
    _is_trouble(upload.put_artefact(b"a"), "object store doesn't answer")
    _is_trouble(upload.client.get(series, headers=bearer), "object store doesn't answer")


def test_a_bucket_that_is_gone_is_trouble(upload, settings, bucket_url):
    settings.OBJECTS_URL = "s3://trimtab-no-such-bucket"
    _is_trouble(upload.put(upload.segment(0)), "object store doesn't answer")


def _postgres(state: type[psycopg.Error]) -> psycopg.Error:
    return state("as the server says it")


def _sqlite(code: int, words: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(words)
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("error", "cause", "words"),
    [
        (OperationalError("x"), psycopg.OperationalError("connection refused"), AWAY),
        (OperationalError("x"), _postgres(psycopg.errors.AdminShutdown), AWAY),
        (OperationalError("x"), _postgres(psycopg.errors.CannotConnectNow), AWAY),
        (OperationalError("x"), _postgres(psycopg.errors.DiskFull), AWAY),
        (DatabaseError("x"), _postgres(psycopg.errors.ReadOnlySqlTransaction), AWAY),
        (ProgrammingError("x"), _postgres(psycopg.errors.UndefinedTable), UPDATED),
        (ProgrammingError("x"), _postgres(psycopg.errors.UndefinedColumn), UPDATED),
        (OperationalError("x"), _sqlite(sqlite3.SQLITE_BUSY, "database is locked"), AWAY),
        (OperationalError("x"), _sqlite(sqlite3.SQLITE_FULL, "disk is full"), AWAY),
        (OperationalError("x"), _sqlite(sqlite3.SQLITE_READONLY | 256, "read-only"), AWAY),
        (OperationalError("x"), _sqlite(sqlite3.SQLITE_ERROR, "no such table: runs_run"), UPDATED),
    ],
)
def test_a_database_that_is_away_or_updated_is_trouble(
    upload, reader, monkeypatch, error, cause, words
):
    monkeypatch.setattr("webapp.runs.scope.jobs_of", _raising(error, cause))
    monkeypatch.setattr("webapp.ingest.own_runs.find_owners", _raising(error, cause))
    _is_trouble(upload.put(upload.segment(0)), words)
    page = reader.get(reverse("dashboard:jobs"))
    assert (page.status_code, page.headers["Retry-After"]) == (503, "30")
    assert words.replace("'", "&#x27;") in read_page(page)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (RuntimeError("secret"), None),
        (OSError(errno.ENOENT, "secret"), None),
        (ProgrammingError("x"), _postgres(psycopg.errors.SyntaxError)),
        (OperationalError("x"), _sqlite(sqlite3.SQLITE_ERROR, 'near "secret": syntax error')),
        (DatabaseError("x"), _postgres(psycopg.errors.NumericValueOutOfRange)),
    ],
)
def test_an_error_in_the_code_stays_500(upload, reader, monkeypatch, error, cause):
    monkeypatch.setattr("webapp.runs.scope.jobs_of", _raising(error, cause))
    monkeypatch.setattr("webapp.ingest.own_runs.find_owners", _raising(error, cause))
    for answer in (upload.put(upload.segment(0)), reader.get(reverse("dashboard:jobs"))):
        assert answer.status_code == 500
        assert b"secret" not in answer.content


def test_tables_that_are_missing_are_told_before_any_view(reader, upload):
    """Sessions are looked up before the page's own view is called."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE django_session RENAME TO gone_session")
        cursor.execute("ALTER TABLE accounts_token RENAME TO gone_token")
    page = reader.get(reverse("dashboard:jobs"))
    assert page.status_code == 503
    assert UPDATED in read_page(page)


def test_tables_that_are_missing_are_told_to_agents(upload):
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE accounts_token RENAME TO gone_token")
    _is_trouble(upload.put(upload.segment(0)), UPDATED)


def test_trouble_is_logged_once_a_minute_and_an_error_each_time(upload, monkeypatch, caplog):
    now = time.monotonic()
    clock = SimpleNamespace(monotonic=lambda: now)
    monkeypatch.setattr(trouble, "time", clock)
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr("advisor.store.folder.FolderStore.put_file", _raising(full))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            _is_trouble(upload.put(upload.segment(0)), "disk is full")
        now += 61
        _is_trouble(upload.put(upload.segment(0)), "disk is full")
    said = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert [record.message for record in said] == ["The service's disk is full."] * 2
    assert "No space left" in said[0].error  # type: ignore[attr-defined]
