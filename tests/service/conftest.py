from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client

from tests.s3 import bucket_url, s3_endpoint
from tests.service.uploads import FakeAgent
from webapp.accounts.models import Token, Workspace

__all__ = ["bucket_url", "s3_endpoint"]

# SQLite has one writer at a time: there is nothing to wait for in a circle.
AT_ONCE = ["test_edits_at_once.py", "test_uploads_at_once.py"]
collect_ignore = [] if connection.vendor == "postgresql" else AT_ONCE


@pytest.fixture(autouse=True)
def objects_in_a_folder_of_their_own(settings, tmp_path):
    settings.OBJECTS_URL = str(tmp_path / "objects")


@pytest.fixture
def workspace(db) -> Workspace:
    return Workspace.objects.create(name="Ours")


@pytest.fixture
def token(workspace) -> str:
    return Token.make(workspace, "agent", ["ingest"])[1]


@pytest.fixture
def agent(token) -> FakeAgent:
    return FakeAgent(Client(), token)


@pytest.fixture
def stranger(db) -> FakeAgent:
    theirs = Workspace.objects.create(name="Theirs")
    return FakeAgent(Client(), Token.make(theirs, "agent", ["ingest"])[1])
