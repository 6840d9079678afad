"""The page about quotas, and the notices on other pages."""

from __future__ import annotations

import re
import secrets

import pytest
from django.test import Client
from django.utils import timezone

from tests.html import read_page
from tests.service.uploads import FakeAgent
from tests.web import factories
from webapp.accounts.models import Membership, Token
from webapp.quotas import counters, import_use, storage
from webapp.runs.models import Run

PAGE = "/settings/usage/"


@pytest.fixture(autouse=True)
def _forget(settings, monkeypatch):
    """Forget all that was counted before."""
    caches = {"default": {**settings.CACHES["default"], "KEY_PREFIX": secrets.token_hex(8)}}
    monkeypatch.setattr(settings, "CACHES", caches)
    monkeypatch.setattr("webapp.quotas.admission._seen", {})
    monkeypatch.setattr(counters, "_outage", counters.Outage("quotas are off"))


@pytest.fixture
def agent(owner) -> FakeAgent:
    return FakeAgent(Client(), Token.make(owner.workspace, "cluster", ["ingest"])[1])


def _rows(page: str) -> dict[str, list[str]]:
    """Return first cell -> texts of the others, of all tables."""
    found = {}
    for row in re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL):
        cells = [" ".join(re.sub(r"<[^>]+>", " ", cell).split()) for cell in _cells(row)]
        if cells:
            found[cells[0]] = cells[1:]
    return found


def _cells(row: str) -> list[str]:
    return re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)


def test_a_workspace_that_has_sent_nothing_says_so(owner):
    rows = _rows(owner.page(PAGE))
    assert rows["Uploaded in 24 hours"][2:4] == ["0 bytes", "200.0 GB"]
    assert rows["Stored"][:3] == ["unknown", "", "unknown"]
    page = owner.page(PAGE)
    assert "No token has uploaded anything in the last 24 hours." in page
    assert "Not counted yet." in page


def test_it_shows_use_limits_tokens_and_jobs(owner, agent, settings):
    settings.WORKSPACE_SERIES_A_DAY = 0
    agent.declare()
    agent.put(agent.segment(0))
    storage.count(timezone.now())
    rows = _rows(owner.page(PAGE))
    assert rows["New runs in 24 hours"][2] == "1 run"
    assert rows["Different series in 24 hours"][0] == "no limit"
    assert rows["Different series in 24 hours"][2:4] == ["3 series", "no limit"]
    assert rows["Stored"][4] == "after deletion"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:00", rows["Uploaded in 24 hours"][4])
    (cluster,) = [cells for name, cells in rows.items() if name.startswith("cluster")]
    assert cluster[2] == "1 run of 150,000 runs"
    assert "bytes" in rows["digits"][0]


def test_it_shows_what_imports_used_without_redis(owner, stranger, settings):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    import_use.add(owner.workspace.pk, 3_600.5, 3 * 2**30)
    import_use.add(owner.workspace.pk, 12_000.0, 2**30)
    rows = _rows(owner.page(PAGE))
    assert rows["Imports in 24 hours"][2:4] == ["2 imports", "2,000 imports"]
    assert rows["Unpacked by imports in 24 hours"][:1] == ["2 % used"]
    assert rows["Unpacked by imports in 24 hours"][2:4] == ["4.0 GB", "200.0 GB"]
    assert rows["CPU time of imports in 24 hours"][0] == "Limit reached"
    assert rows["CPU time of imports in 24 hours"][2:4] == ["4 h 20 m", "4 h"]
    assert _rows(stranger.page(PAGE))["Imports in 24 hours"][2] == "0 imports"


def test_another_workspace_sees_nothing_of_it(stranger, owner, agent):
    agent.declare()
    agent.put(agent.segment(0))
    storage.count(timezone.now())
    rows = _rows(stranger.page(PAGE))
    assert rows["New runs in 24 hours"][2] == "0 runs"
    assert rows["Stored"][2] == "0 bytes"
    assert not any(name.startswith("cluster") or name == "digits" for name in rows)


def test_owners_are_told_from_80_percent_on_and_members_when_it_is_reached(owner, agent, settings):
    member = Client()
    user = factories.member(email="kim@example.org")
    Membership.objects.create(workspace=owner.workspace, user=user, role=Membership.MEMBER)
    member.force_login(user)
    settings.WORKSPACE_RUNS_A_DAY = 6
    for number in range(6):
        told = [read_page(client.get("/")) for client in (owner.client, member)]
        assert not any("new runs in 24 hours, " in page for page in told[: 1 if number < 5 else 0])
        FakeAgent(agent.client, agent.token).declare()
    settings.WORKSPACE_RUNS_A_DAY = 7
    assert "Close to a limit: new runs in 24 hours, 6 of 7 runs" in owner.page("/")
    assert "new runs in" not in read_page(member.get("/"))
    settings.WORKSPACE_RUNS_A_DAY = 6
    for page in (owner.page("/"), read_page(member.get("/")), owner.page(PAGE)):
        assert "New runs are refused: new runs in 24 hours, 6 of 6 runs" in page


def test_a_run_whose_uploads_are_refused_does_not_look_complete(owner, agent, settings):
    agent.declare()
    agent.put(agent.segment(0))
    run = Run.objects.get()
    address = f"/runs/{run.pk}/"
    assert "Uploads of this run are refused" not in owner.page(address)
    settings.WORKSPACE_STORAGE_BYTES = 1
    assert agent.put(agent.segment(1, last=True)).status_code == 429
    Run.objects.update(state=Run.LOST)
    page = owner.page(address)
    assert "Uploads of this run are refused" in page
    assert "The workspace may store 1 byte" in page
    assert "No contact with the agent" not in page
    settings.WORKSPACE_STORAGE_BYTES = 0
    assert agent.put(agent.segment(1, last=True)).status_code == 200
    assert "Uploads of this run are refused" not in owner.page(address)


def test_an_owner_has_no_way_to_raise_a_limit(owner):
    assert owner.client.post(PAGE, {"storage_bytes": "0"}).status_code == 405
    owner.client.post("/settings/general/", {"name": "x", "quotas": '{"storage_bytes": 0}'})
    owner.workspace.refresh_from_db()
    assert owner.workspace.quotas == {}


def test_pages_answer_without_redis(owner, settings):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert _rows(owner.page(PAGE))["Uploaded in 24 hours"][2] == "unknown"
    assert "are refused" not in owner.page("/")
