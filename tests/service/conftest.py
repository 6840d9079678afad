from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from tests.s3 import bucket_url, s3_endpoint
from tests.service.machines import Machine
from tests.service.uploads import FakeAgent
from webapp.accounts.models import Token, Workspace

__all__ = ["bucket_url", "s3_endpoint"]

# SQLite has one writer at a time: there is nothing to wait for in a circle.
AT_ONCE = ["test_edits_at_once.py", "test_uploads_at_once.py"]
# Nor does it count the rows that it reads.
COUNTED = ["test_many_runs.py"]
collect_ignore = [] if connection.vendor == "postgresql" else [*AT_ONCE, *COUNTED]


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


@pytest.fixture(params=[False, True], ids=["alone", "gathered"])
def both_ways(request, agent) -> None:
    """Let the agent's segments take the way of a single request, and that of many."""
    agent.is_gathered = request.param


@pytest.fixture
def stranger(db) -> FakeAgent:
    theirs = Workspace.objects.create(name="Theirs")
    return FakeAgent(Client(), Token.make(theirs, "agent", ["ingest"])[1])


@pytest.fixture
def machine(token: str) -> Any:
    return lambda **more: Machine(Client(), token, **more)


@pytest.fixture
def told(client: Client, workspace: Any) -> Any:
    """Return the API's answer, with the minutes of each label."""
    _, plain = Token.make(workspace, "all", [Token.READ])

    def ask(reference: Any) -> tuple[dict[str, float], dict[str, Any]]:
        headers = {"Authorization": f"Bearer {plain}"}
        answer = client.get("/api/v1/training", {"training": str(reference)}, headers=headers)
        assert answer.status_code == 200, answer.content
        document = answer.json()
        usd = [line["usd"] for line in document["ledger"]]
        assert sum(map(Decimal, usd)) == Decimal(document["cost_usd"]), "to the nano-dollar"
        minutes = {line["label"]: line["seconds"] / 60 for line in document["ledger"]}
        return minutes, document

    return ask
