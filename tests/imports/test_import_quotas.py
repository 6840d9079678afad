"""Quotas of imports: what a workspace may convert in 24 hours, and what is said beyond it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from tests.html import read_page
from tests.service.uploads import FakeAgent
from webapp.accounts.models import AuditEntry, Membership, Token, User, Workspace
from webapp.background import claims
from webapp.imports import allowance, queue, tasks, waiting
from webapp.imports.models import Import
from webapp.quotas.models import ImportUse
from webapp.retention.tasks import run_retention
from webapp.runs.models import Artefact, Run

pytestmark = pytest.mark.django_db
HOUR = 3600
DAY = 24 * HOUR
SETTINGS = {
    "imports": "WORKSPACE_IMPORTS_A_DAY",
    "unpacked_bytes": "WORKSPACE_UNPACKED_BYTES_A_DAY",
    "import_cpu_seconds": "WORKSPACE_IMPORT_CPU_SECONDS_A_DAY",
}
NAMES = sorted(SETTINGS)


@dataclass
class Clock:
    """Unix seconds that quotas read from their clock: half past an hour."""

    now: float

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    now = timezone.now().timestamp()
    clock = Clock(now - now % HOUR + 1800)
    monkeypatch.setattr("webapp.quotas.counters.time.time", clock)
    return clock


@pytest.fixture(autouse=True)
def small_quotas(settings, tmp_path):
    settings.OBJECTS_URL = str(tmp_path / "objects")
    settings.WORKSPACE_IMPORTS_A_DAY = 3
    settings.WORKSPACE_UNPACKED_BYTES_A_DAY = 1_000
    settings.WORKSPACE_IMPORT_CPU_SECONDS_A_DAY = 60


def agent_of(name: str) -> FakeAgent:
    workspace = Workspace.objects.get_or_create(name=name)[0]
    return FakeAgent(Client(), Token.make(workspace, "agent", ["ingest"])[1], job="vision")


@pytest.fixture
def agent(db) -> FakeAgent:
    return agent_of("Ours")


@pytest.fixture
def stranger(db) -> FakeAgent:
    return agent_of("Theirs")


def begin(agent: FakeAgent, body: bytes = b"") -> Any:
    """Return the answer to an archive of an earlier agent. By default it is a new one of a new
    run.
    """
    run = FakeAgent(agent.client, agent.token, job=agent.job)
    return run.put_artefact(body or uuid4().bytes, kind="import", name="notes.tar.gz")


def use_up(agent: FakeAgent, name: str) -> None:
    """Use up all of a quota by one attempt, or by as many as there may be."""
    assert begin(agent).status_code == 200
    row = Import.objects.latest("pk")
    tasks.convert(row.artefact_id)
    uses: dict[str, Callable[[], None]] = {
        "imports": lambda: [allowance.charge(row, 0.01, 1) for _ in range(3)] and None,
        "unpacked_bytes": lambda: allowance.charge(row, 0.01, 1_000),
        "import_cpu_seconds": lambda: allowance.charge(row, 60.0, 1),
    }
    uses[name]()


def is_refused(answer: Any, name: str) -> int:
    """Check that the quota refused it, and return the seconds to wait."""
    assert answer.status_code == 429, answer.content
    problem = answer.json()
    assert problem["type"].endswith("/problems/#import-quota")
    assert problem["field"] == name
    assert "may" in problem["detail"]
    assert "Nothing is lost" in problem["fix"]
    return int(answer.headers["Retry-After"])


@pytest.mark.parametrize("name", NAMES)
def test_it_refuses_an_upload_beyond_each_quota_before_anything_is_written(
    agent, stranger, clock, name
):
    use_up(agent, name)
    runs, artefacts = Run.objects.count(), Artefact.objects.count()
    assert is_refused(begin(agent), name) == HOUR
    assert (Run.objects.count(), Artefact.objects.count()) == (runs, artefacts)
    assert begin(stranger).status_code == 200, "another workspace isn't affected"


@pytest.mark.parametrize("name", NAMES)
def test_it_takes_uploads_again_the_next_day(agent, clock, name):
    use_up(agent, name)
    clock.now += DAY - HOUR
    assert is_refused(begin(agent), name) == 1800, "until the hour ends"
    clock.now += HOUR
    assert begin(agent).status_code == 200


@pytest.mark.parametrize("name", NAMES)
def test_it_counts_while_redis_is_down(agent, settings, name):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    use_up(agent, name)
    is_refused(begin(agent), name)


@pytest.mark.parametrize("name", NAMES)
def test_zero_is_no_limit(agent, settings, name):
    for setting in SETTINGS.values():
        setattr(settings, setting, 0)
    use_up(agent, name)
    assert begin(agent).status_code == 200
    left = allowance.remaining_allowance(Workspace.objects.get())
    assert left.cpu_seconds > 10**9
    assert left.unpacked_bytes > 10**15


@pytest.mark.parametrize("name", NAMES)
def test_it_refuses_an_import_from_s3_by_api_and_page(agent, client, settings, name):
    workspace = Workspace.objects.get()
    settings.IMPORT_S3 = [("*", "s3://bucket/jobs")]
    use_up(agent, name)
    token = Token.make(workspace, "script", [Token.WRITE])[1]
    headers = {"Authorization": f"Bearer {token}"}
    said = {"source": "s3://bucket/jobs/x"}
    is_refused(client.post("/api/v1/imports", said, "application/json", headers=headers), name)
    sign_in(client, Membership.OWNER)
    assert "in 24 hours" in read_page(client.post("/settings/imports/", said))
    assert Run.objects.count() == 1


def test_it_counts_what_is_queued_as_imports(agent):
    """Thousands could be queued otherwise, before the first attempt ends."""
    assert [begin(agent).status_code for _ in range(5)] == [200] * 3 + [429] * 2


def test_it_counts_every_attempt(agent):
    """A failed one that somebody tries again is another attempt, in the same row."""
    assert begin(agent).status_code == 200
    row = Import.objects.get()
    used = []
    for _ in range(2):
        tasks.convert(row.artefact_id)
        used.append(ImportUse.objects.get().cpu_seconds)
        claims.retry_failed(queue.KIND, Import.objects.all())
    assert 0 < used[0] < used[1]
    assert allowance.pause(Workspace.objects.get()) is None
    tasks.convert(row.artefact_id)
    assert allowance.pause(Workspace.objects.get()) is not None


def test_it_begins_no_conversion_while_a_quota_is_used_up(agent, clock):
    assert begin(agent).status_code == 200
    row = Import.objects.get()
    allowance.charge(row, 60.0, 0)
    assert tasks.convert(row.artefact_id)
    row.refresh_from_db()
    assert (row.wanted > row.done, row.attempts, row.error, row.lease) == (True, 0, "", None)
    assert row.due_at > timezone.now() + timedelta(minutes=50)
    clock.now += DAY
    tasks.convert(row.artefact_id)
    row.refresh_from_db()
    assert row.given_up_at is not None, "it is no archive"


def test_it_gives_nothing_back_for_a_deleted_run(agent):
    use_up(agent, "unpacked_bytes")
    Run.objects.all().delete()
    is_refused(begin(agent), "unpacked_bytes")


def test_it_answers_what_is_stored_already_while_the_quota_is_used_up(agent):
    agent.put_artefact(b"a", kind="import", name="notes.tar.gz")
    Import.objects.update(done=1, operator_times={}, result={"format": "x"})
    allowance.charge(Import.objects.get(), 60.0, 1)
    again = agent.put_artefact(b"a", kind="import", name="notes.tar.gz")
    assert (again.status_code, again.json()["duplicate"]) == (200, True)


def test_it_refuses_a_failed_upload_that_is_sent_again(agent, clock):
    agent.put_artefact(b"a", kind="import", name="notes.tar.gz")
    row = Import.objects.get()
    tasks.convert(row.artefact_id)
    allowance.charge(row, 60.0, 1)
    is_refused(agent.put_artefact(b"a", kind="import", name="notes.tar.gz"), "import_cpu_seconds")
    clock.now += DAY
    assert agent.put_artefact(b"a", kind="import", name="notes.tar.gz").status_code == 200
    row.refresh_from_db()
    assert row.given_up_at is None


def test_it_keeps_a_profile_that_waits_for_the_quota(agent, clock, client):
    """The agent uploads it unasked: it must neither be refused for hours nor be lost."""
    use_up(agent, "import_cpu_seconds")
    assert agent.put_artefact(b"{}", name="rank0-step5.trace.json").status_code == 200
    row = Import.objects.latest("pk")
    held = claims.claim(queue.KIND, row.artefact_id)
    assert held is not None
    assert waiting.wait_for_quota(held)
    row.refresh_from_db()
    assert timedelta(minutes=50) < row.due_at - timezone.now() <= timedelta(hours=1)
    sign_in(client, Membership.VIEWER)
    page = read_page(client.get(f"/runs/{agent.run_id}/"))
    free = datetime.fromtimestamp(clock.now - 1800 + DAY, UTC)
    assert "its operators wait to be read: the workspace&#x27;s imports may take 1 m of" in page
    assert f"It continues at {free:%Y-%m-%d %H:%M} UTC." in page
    clock.now += DAY
    again = claims.claim(queue.KIND, row.artefact_id)
    assert again is not None
    assert not waiting.wait_for_quota(again)


def test_it_deletes_counts_after_35_days(agent, clock):
    use_up(agent, "imports")
    clock.now += 35 * DAY
    run_retention()
    assert ImportUse.objects.exists()
    clock.now += HOUR
    run_retention()
    assert not ImportUse.objects.exists()


def test_it_lets_the_operator_set_another_limit(agent, stranger):
    use_up(agent, "import_cpu_seconds")
    use_up(stranger, "import_cpu_seconds")
    out = StringIO()
    call_command("quota", "Ours", "import_cpu_seconds=7200", stdout=out)
    assert "import_cpu_seconds  2 h  " in out.getvalue()
    assert begin(agent).status_code == 200
    is_refused(begin(stranger), "import_cpu_seconds")
    (entry,) = AuditEntry.objects.filter(action="quota.changed")
    assert entry.workspace.name == "Ours"
    assert entry.change == {"import_cpu_seconds": [None, 7200]}


def sign_in(client: Client, role: str, name: str = "Ours") -> None:
    user = User.objects.create_user(f"{role}-{uuid4().hex[:6]}@example.org")
    workspace = Workspace.objects.get(name=name)
    Membership.objects.create(user=user, workspace=workspace, role=role)
    client.force_login(user)


@pytest.fixture
def line(agent, stranger) -> list[FakeAgent]:
    """Runs in the order of their turn: two of Theirs came first, then one of Ours, which is third
    by time and second by turn."""
    runs = [FakeAgent(each.client, each.token) for each in (stranger, agent, stranger)]
    for place in (0, 2, 1):
        runs[place].put_artefact(uuid4().bytes, kind="import", name=f"notes{place}.tar.gz")
    return runs


def document(run: FakeAgent, name: str = "Ours") -> dict[str, Any]:
    token = Token.make(Workspace.objects.get(name=name), "reader", [Token.READ])[1]
    headers = {"Authorization": f"Bearer {token}"}
    (found,) = Client().get(f"/api/v1/runs/{run.run_id}/imports", headers=headers).json()
    return dict(found)


@pytest.mark.parametrize("role", [Membership.OWNER, Membership.MEMBER, Membership.VIEWER])
def test_the_runs_page_shows_the_place_in_the_order_of_turns(line, client, role):
    sign_in(client, role)
    page = read_page(client.get(f"/runs/{line[1].run_id}/"))
    assert "notes1.tar.gz waits to be imported: 2nd in line." in page
    assert "Theirs" not in page
    assert "notes0" not in page
    assert client.get(f"/runs/{line[0].run_id}/").status_code == 404


def test_the_page_says_how_many_imports_are_under_way(line, client):
    sign_in(client, Membership.VIEWER)
    first = Import.objects.get(artefact__run=line[0].run_id)
    assert claims.claim(queue.KIND, first.artefact_id) is not None
    page = read_page(client.get(f"/runs/{line[1].run_id}/"))
    assert "1st in line; 1 import is under way." in page


def test_the_api_tells_the_place_and_when_it_continues(agent, line, clock):
    assert [document(line[1])[key] for key in ("place", "continues_at")] == [2, None]
    assert document(line[2], "Theirs")["place"] == 3
    allowance.charge(Import.objects.get(artefact__run=line[1].run_id), 60.0, 1)
    waits = document(line[1])
    free = datetime.fromtimestamp(clock.now - 1800 + DAY, UTC)
    assert (waits["state"], waits["place"]) == ("due", None)
    assert datetime.fromisoformat(waits["continues_at"]) == free


def test_the_page_is_news_when_the_place_changes(line, client):
    sign_in(client, Membership.VIEWER)
    address = f"/runs/{line[1].run_id}/"
    page = read_page(client.get(address))
    said = page.partition('data-version="')[2].partition('"')[0].replace("&quot;", '"')
    headers = {"Trimtab-Live": "1", "If-None-Match": said}
    assert client.get(address, headers=headers).status_code == 304
    first = Import.objects.get(artefact__run=line[0].run_id)
    assert claims.claim(queue.KIND, first.artefact_id) is not None
    assert client.get(address, headers=headers).status_code == 200


def test_owners_see_what_waits_and_what_is_under_way(line, client):
    sign_in(client, Membership.OWNER)
    page = read_page(client.get("/settings/imports/"))
    assert "notes1.tar.gz" in page
    assert "2nd in line" in page
    assert "notes0" not in page
    assert claims.claim(queue.KIND, Import.objects.get(artefact__run=line[1].run_id).artefact_id)
    assert "Under way" in read_page(client.get("/settings/imports/"))
    for role in (Membership.MEMBER, Membership.VIEWER):
        sign_in(client, role)
        assert "notes1" not in read_page(client.get("/settings/imports/"))


def test_an_upload_that_lacks_parts_is_not_in_line(agent, client):
    body = json.dumps({"version": 1, "name": "late", "parts": ["0" * 64]}).encode()
    agent.put_artefact(body, kind="import", name="late.import.json")
    tasks.convert(Import.objects.get().artefact_id)
    sign_in(client, Membership.VIEWER)
    page = read_page(client.get(f"/runs/{agent.run_id}/"))
    assert "late waits to be imported: 1 of 1 parts haven&#x27;t arrived" in page
    assert document(agent)["place"] is None
