"""Files that belong to a run: taken once, bounded, handed out to be saved and never to be shown."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from uuid import uuid4

import pytest
from django.utils import timezone

from advisor.store.opening import open_store
from webapp.accounts.models import Token
from webapp.ingest import artefacts
from webapp.retention import deletion, orphans
from webapp.runs.models import Artefact, Run

pytestmark = pytest.mark.django_db
BODY = b"\x1f\x8b a trace" * 1000
SHA256 = hashlib.sha256(BODY).hexdigest()


@pytest.fixture(params=["folder", "s3"])
def store(request, settings):
    """Return a store, in both places that objects can be in."""
    if request.param == "s3":
        settings.OBJECTS_URL = request.getfixturevalue("bucket_url")
    return open_store(settings.OBJECTS_URL)


@pytest.fixture
def reader(workspace) -> dict[str, str]:
    return {"Authorization": f"Bearer {Token.make(workspace, 'reader', ['read'])[1]}"}


def address(agent, *more: str) -> str:
    return "/".join([f"/api/v1/runs/{agent.run_id}/artefacts", *more])


def test_it_is_kept_once_and_handed_out_as_it_came(agent, store, reader):
    first, again = agent.put_artefact(BODY), agent.put_artefact(BODY, name="other.gz")
    assert (first.json()["duplicate"], again.json()["duplicate"]) == (False, True)
    (listed,) = agent.client.get(address(agent), headers=reader).json()["artefacts"]
    assert (listed["sha256"], listed["size_bytes"]) == (SHA256, len(BODY))
    assert (listed["kind"], listed["name"]) == ("profile", "rank0-step5.trace.json.gz")
    answer = agent.client.get(address(agent, SHA256), headers=reader)
    assert b"".join(answer.streaming_content) == BODY
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Length"] == str(len(BODY))
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Disposition"].startswith("attachment; ")


def test_the_same_content_belongs_to_each_run_that_sent_it(agent, token):
    from tests.service.uploads import FakeAgent

    other = FakeAgent(agent.client, token)
    assert not agent.put_artefact(BODY).json()["duplicate"]
    assert not other.put_artefact(BODY).json()["duplicate"]


def test_it_may_come_before_everything_else_of_its_run(agent):
    agent.put_artefact(BODY)
    agent.put(agent.segment(0))
    assert Run.objects.get().job.name == agent.job
    agent.job = ""
    assert agent.put_artefact(b"more").status_code == 200
    agent.run_id = uuid4()
    answer = agent.put_artefact(BODY)
    assert (answer.status_code, answer.json()["field"]) == (400, "X-Trimtab-Job")


@pytest.mark.parametrize(
    ("changes", "field", "status"),
    [
        ({"sha256": "0" * 64}, "sha256", 400),
        ({"sha256": "nonsense"}, "path.sha256", 422),
        ({"kind": ""}, "X-Trimtab-Kind", 400),
        ({"kind": "<b>"}, "X-Trimtab-Kind", 400),
        ({"name": ""}, "X-Trimtab-Name", 400),
        ({"name": "../../etc/passwd"}, "X-Trimtab-Name", 400),
        ({"name": "a\r\nSet-Cookie: b"}, "X-Trimtab-Name", 400),
        ({"name": "nul \0"}, "X-Trimtab-Name", 400),
        ({"name": "n" * 201}, "X-Trimtab-Name", 400),
        ({"Content-Encoding": "gzip"}, "Content-Encoding", 415),
        ({"Content-Length": str(artefacts.MOST_BYTES + 1)}, "body", 413),
    ],
    ids=str,
)
def test_what_is_wrong_is_refused_by_name_and_leaves_nothing(
    agent, settings, changes, field, status
):
    answer = agent.put_artefact(BODY, **changes)
    assert (answer.status_code, answer.json()["field"]) == (status, field)
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["fix"]
    assert not Artefact.objects.exists()
    assert list(open_store(settings.OBJECTS_URL).list("")) == []


def test_a_name_in_any_language_survives_the_headers(agent, reader):
    agent.put_artefact(BODY, name='größe "1".json')
    answer = agent.client.get(address(agent, SHA256), headers=reader)
    assert "filename*=utf-8''gr%C3%B6%C3%9Fe" in answer.headers["Content-Disposition"]


def test_a_run_takes_so_many_and_no_more(agent, monkeypatch):
    monkeypatch.setattr(artefacts, "MOST_OF_A_RUN", 2)
    answers = [agent.put_artefact(bytes([number])) for number in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 409]
    assert agent.put_artefact(bytes([1])).json()["duplicate"]


def test_a_stranger_can_neither_add_nor_read(agent, stranger):
    agent.put_artefact(BODY)
    stranger.run_id = agent.run_id
    assert stranger.put_artefact(BODY).status_code == 404
    assert stranger.put_artefact(b"theirs").status_code == 404
    theirs = Token.make(stranger_workspace(stranger), "reader", ["read"])[1]
    headers = {"Authorization": f"Bearer {theirs}"}
    assert agent.client.get(address(agent), headers=headers).status_code == 404
    assert agent.client.get(address(agent, SHA256), headers=headers).status_code == 404


def stranger_workspace(stranger):  # type: ignore[no-untyped-def]
    return Token.objects.get(workspace__name="Theirs").workspace


def test_an_object_that_is_gone_is_missing_and_no_error(agent, store, reader):
    agent.put_artefact(BODY)
    store.delete(Artefact.objects.get().object_key)
    assert agent.client.get(address(agent, SHA256), headers=reader).status_code == 404


def in_days(days: float):  # type: ignore[no-untyped-def]
    return timezone.now() + timedelta(days=days)


@pytest.fixture
def ended_run(agent, store) -> Run:
    """Return a run with an artefact, and nothing left to analyse."""
    for segment in agent.segments(2):
        agent.put(segment)
    agent.put_artefact(BODY)
    run = Run.objects.get()
    run.analysis.delete()
    return run


def names(store) -> set[str]:  # type: ignore[no-untyped-def]
    return {listed.key for listed in store.list("") if "artefacts" in listed.key}


def test_retention_takes_it_with_the_tiers_and_nothing_before(ended_run, store):
    days = ended_run.workspace.keep_tiers_days
    assert not [
        item for item in deletion.plan_deletions(in_days(days - 1)) if item.kind == "artefact"
    ]
    deletion.delete_all_expired(in_days(days + 1))
    assert (Artefact.objects.count(), names(store)) == (0, set())


def test_it_goes_with_its_workspace(ended_run, store):
    workspace = ended_run.workspace
    workspace.deleted_at = timezone.now()
    workspace.save()
    deletion.delete_all_expired(in_days(8))
    assert (Artefact.objects.count(), names(store)) == (0, set())


def test_one_whose_row_was_never_written_is_an_orphan_and_others_are_not(ended_run, store):
    store.put(f"runs/{uuid4()}/artefacts/{SHA256}", BODY)
    (orphan,) = orphans.orphans(store, in_days(2))
    deletion.delete_orphans(in_days(2))
    assert names(store) == {Artefact.objects.get().object_key}
    assert orphan.size_bytes == len(BODY)
