"""An import that fails says so: as its run's state, with counted reasons, and it can be retried."""

from __future__ import annotations

import gzip
import io
import tarfile
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from tests.service.uploads import FakeAgent
from webapp.accounts.models import Membership, Token, User, Workspace
from webapp.analysis.tasks import mark_lost
from webapp.background import claims
from webapp.imports import queue, tasks
from webapp.imports.models import Import
from webapp.runs.models import Artefact, Run

pytestmark = pytest.mark.django_db

HEAD = "timestamp, index, utilization.gpu [%]\n"
BROKEN = HEAD + "2026/01/01 00:00:00.000, x, 7 %\n2026/01/01, 0, 7 %\nhalf a li"
WHOLE = HEAD + "2026/01/01 00:00:00.000, 0, 7 %\n2026/01/01 00:00:01.000, 0, 7 %\n"


@pytest.fixture(autouse=True)
def objects_in_a_folder_of_their_own(settings, tmp_path):
    settings.OBJECTS_URL = str(tmp_path / "objects")


@pytest.fixture
def workspace(db) -> Workspace:
    return Workspace.objects.create(name="Ours")


@pytest.fixture
def agent(workspace) -> FakeAgent:
    return FakeAgent(Client(), Token.make(workspace, "agent", ["ingest"])[1], job="vision")


@pytest.fixture
def member(workspace, client) -> Client:
    user = User.objects.create_user("ada@example.org")
    Membership.objects.create(user=user, workspace=workspace, role=Membership.MEMBER)
    client.force_login(user)
    return client


def upload(agent: FakeAgent, text: str) -> Run:
    """Upload a recording, which nobody converts yet."""
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w") as archive:
        info = tarfile.TarInfo("gpus.csv")
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text.encode()))
    packed = gzip.compress(body.getvalue(), mtime=0)
    answer = agent.put_artefact(packed, kind="import", name="gpus.csv.tar.gz")
    assert answer.status_code == 200, answer.content
    return Run.objects.get()


def work(run: Run) -> Import:
    """Do what a worker does with the only import."""
    row = Import.objects.get()
    tasks.convert(row.artefact_id)
    run.refresh_from_db()
    row.refresh_from_db()
    return row


def answer(agent: FakeAgent, run: Run) -> dict[str, object]:
    """Return what the API says of the only import, to the token that uploaded it."""
    url = f"/api/v1/runs/{run.pk}/imports"
    said = agent.client.get(url, headers={"Authorization": f"Bearer {agent.token}"})
    assert said.status_code == 200, said.content
    (only,) = said.json()
    return dict(only)


def test_a_run_is_importing_until_its_files_are_converted(agent, member):
    run = upload(agent, WHOLE)
    assert run.state == Run.IMPORTING
    Run.objects.update(last_received_at=timezone.now() - timedelta(hours=1))
    mark_lost()
    run.refresh_from_db()
    assert run.state == Run.IMPORTING, "it waits for a worker, and no agent is silent"
    assert "Importing" in member.get("/runs/?state=importing").content.decode()
    work(run)
    assert run.state == Run.FINISHED


def test_a_failed_import_is_the_runs_state_with_its_counted_reasons(agent, member):
    run = upload(agent, BROKEN)
    row = work(run)
    assert run.state == Run.IMPORT_FAILED
    assert row.error == "no line with a time and a GPU"
    said = answer(agent, run)
    assert (said["state"], said["stage"], said["error"]) == ("failed", "", row.error)
    assert said["reasons"] == [
        {"what": "lines", "why": "no time, GPU or values", "count": 3, "first": "gpus.csv"}
    ]
    assert (said["records"], said["skipped"]) == (0, 3)
    page = member.get(f"/runs/{run.pk}/").content.decode()
    assert "Failed to import" in page
    assert "No line with a time and a GPU." in page
    assert "lines (no time, GPU or values): 3" in page
    assert "Retry the import" in page
    for address in ("/runs/?state=import_failed", "/jobs/"):
        assert "Failed to import" in member.get(address).content.decode()
    assert Artefact.objects.count() == 1, "the file is kept"


@pytest.mark.parametrize("how", ["page", "api", "upload", "owner"])
def test_it_is_converted_again_when_somebody_asks_for_it(how, agent, member, workspace):
    run = upload(agent, BROKEN)
    row = work(run)
    if how == "page":
        assert member.post(f"/runs/{run.pk}/imports/retry/").status_code == 302
    elif how == "api":
        token = Token.make(workspace, "script", ["write"])[1]
        url = f"/api/v1/runs/{run.pk}/imports/retry"
        said = Client().post(url, headers={"Authorization": f"Bearer {token}"})
        assert (said.status_code, said.json()[0]["state"]) == (202, "due")
        again = Client().post(url, headers={"Authorization": f"Bearer {token}"})
        assert (again.status_code, again.json()["field"]) == (409, "run_id")
    elif how == "upload":
        upload(agent, BROKEN)
    else:
        claims.retry_failed(queue.KIND, Import.objects.all())
        tasks.tidy()
    run.refresh_from_db()
    row.refresh_from_db()
    assert (run.state, row.given_up_at) == (Run.IMPORTING, None)
    work(run)
    assert run.state == Run.IMPORT_FAILED


def test_the_run_of_an_import_that_kills_workers_fails_as_well(agent):
    run = upload(agent, WHOLE)
    Import.objects.update(given_up_at=timezone.now(), error="Given up: 10 workers died.")
    tasks.tidy()
    run.refresh_from_db()
    assert run.state == Run.IMPORT_FAILED


def test_a_run_that_was_imported_keeps_its_state_if_another_upload_fails(agent):
    run = upload(agent, WHOLE)
    work(run)
    body = io.BytesIO(b"nothing")
    agent.put_artefact(body.getvalue(), kind="import", name="other.tar.gz")
    tasks.convert(Artefact.objects.latest("pk").pk)
    run.refresh_from_db()
    assert run.state == Run.FINISHED


def test_an_upload_with_other_options_takes_the_place_of_one_that_failed(agent, member):
    """`trimtab import` derives the run from the content: corrected options come to the same run."""
    run = upload(agent, BROKEN)
    work(run)
    upload(agent, WHOLE)
    tasks.convert(Artefact.objects.latest("pk").pk)
    run.refresh_from_db()
    assert run.state == Run.FINISHED
    assert answer(agent, run)["state"] == "done"
    assert "failed" not in member.get(f"/runs/{run.pk}/").content.decode().partition("charts")[0]
    assert member.post(f"/runs/{run.pk}/imports/retry/", follow=True).status_code == 200
    assert not Import.objects.filter(given_up_at=None, artefact__sha256=first_sha(run)).exists()


def first_sha(run: Run) -> str:
    return str(run.artefacts.earliest("pk").sha256)


def test_a_viewer_cannot_retry_and_strangers_see_nothing(agent, workspace, client):
    run = upload(agent, BROKEN)
    work(run)
    user = User.objects.create_user("eve@example.org")
    client.force_login(user)
    other = Workspace.objects.create(name="Others")
    membership = Membership.objects.create(user=user, workspace=other, role=Membership.OWNER)
    assert client.post(f"/runs/{run.pk}/imports/retry/").status_code == 404
    stranger = Token.make(workspace, "another agent", ["ingest"])[1]
    url = f"/api/v1/runs/{run.pk}/imports"
    said = Client().get(url, headers={"Authorization": f"Bearer {stranger}"})
    assert said.status_code == 404
    membership.delete()
    Membership.objects.create(user=user, workspace=workspace, role=Membership.VIEWER)
    assert client.post(f"/runs/{run.pk}/imports/retry/").status_code == 403
    run.refresh_from_db()
    assert run.state == Run.IMPORT_FAILED
