"""A profile of some steps that an agent uploads shows its operators on the run's page."""

from __future__ import annotations

import pytest
from django.test import Client

from advisor.importers.stated_facts import StatedFacts
from advisor.offline.importing import import_path
from tests.html import read_page
from tests.imports.test_mutated import trace
from tests.imports.test_torch_trace import written
from tests.service.uploads import FakeAgent
from webapp.accounts.models import Membership, Token, User, Workspace
from webapp.background.models import Claimable
from webapp.imports import tasks
from webapp.imports.models import Import
from webapp.runs.models import Chunk, Node, Run, Session

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent(db, settings, tmp_path) -> FakeAgent:
    """Return the agent of a run with some samples."""
    settings.OBJECTS_URL = str(tmp_path / "objects")
    workspace = Workspace.objects.create(name="Ours")
    agent = FakeAgent(Client(), Token.make(workspace, "agent", ["ingest"])[1])
    agent.declare()
    for segment in agent.segments(3):
        assert agent.put(segment).status_code == 200
    return agent


def work() -> Claimable:
    row = Import.objects.get()
    tasks.convert(row.artefact_id)
    row.refresh_from_db()
    return row


def page(client: Client, part: str = "") -> str:
    run = Run.objects.get()
    user = User.objects.get_or_create(email="ada@example.org")[0]
    Membership.objects.get_or_create(user=user, workspace=run.workspace, role=Membership.OWNER)
    client.force_login(user)
    return read_page(client.get(f"/runs/{run.pk}/{part}"))


def test_its_operators_are_on_the_page_and_in_the_report(agent, tmp_path, client):
    path = written(tmp_path, list(trace()), host_name="a")
    before = Node.objects.count(), Session.objects.count(), Chunk.objects.count()
    body = path.read_bytes()
    assert agent.put_artefact(body, name="rank0-step5.trace.json").status_code == 200
    assert "its operators wait to be read: 1st in line" in page(client)
    assert work().error == ""
    there = import_path(path, StatedFacts()).imported
    shown = page(client)
    assert f"{there.tally.records['operations']} operations" in shown
    for operator in there.operators:
        assert f"<code>{operator['name']}</code>" in shown
    assert "aten::mm" in page(client, "report/")
    assert (Node.objects.count(), Session.objects.count(), Chunk.objects.count()) == before
    row = Import.objects.get()
    assert row.result["operators"] == there.operators
    assert agent.put_artefact(body, name="rank0-step5.trace.json").status_code == 200
    assert work().finished_at == row.finished_at, "the same again changes nothing"


@pytest.mark.parametrize(
    "body", [b"a trace", b'{"schemaVersion": 1, "traceEvents": [', b"\x1f\x8bx"]
)
def test_what_is_no_trace_is_said_and_is_no_failure(agent, body, client):
    agent.put_artefact(body, name="rank0-step5.trace.json.gz")
    row = work()
    assert (row.given_up_at, row.wanted) == (None, row.done)
    shown = page(client)
    assert "This file is no trace" in shown or "This file can&#x27;t be read" in shown
    assert "No files." not in shown
