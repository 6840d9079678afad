"""Several segments in one request: each is answered as if it had come by itself."""

from __future__ import annotations

import gzip
import json
import os
import secrets
from dataclasses import replace
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from django.test import Client
from django.utils import timezone
from trimtab.wire import FIRST_PIECE, LIMITS, Event, encode_segment

from advisor.store.opening import open_store
from tests.service.uploads import FakeAgent
from webapp.accounts.models import Token
from webapp.analysis.models import Analysis
from webapp.directives import issue
from webapp.http import trouble
from webapp.ingest import bounds, resend, segment_rows
from webapp.quotas import counters
from webapp.runs.models import Run, Segment, Session

pytestmark = pytest.mark.django_db


def _bodies(agent: FakeAgent, numbers: range | list[int]) -> list[bytes]:
    return [encode_segment(agent.segment(seq)) for seq in numbers]


def _rows(answer) -> list[dict]:  # type: ignore[no-untyped-def]
    assert answer.status_code == 200, answer.content
    return answer.json()["answers"]


def _statuses(answer) -> list[int]:  # type: ignore[no-untyped-def]
    return [row["status"] for row in _rows(answer)]


def _kept() -> list[int]:
    return sorted(Segment.objects.values_list("seq", flat=True))


def _objects(settings) -> set[str]:  # type: ignore[no-untyped-def]
    return {path.name for path in Path(settings.OBJECTS_URL).rglob("*") if path.is_file()}


def test_a_backlog_leaves_what_single_uploads_leave(agent, token, settings):
    other = FakeAgent(agent.client, token, started_at_ns=agent.started_at_ns)
    every = [agent.segment(seq, last=seq == 5) for seq in reversed(range(6))]
    answers = _rows(agent.post([encode_segment(segment) for segment in every]))
    assert [(row["status"], row["duplicate"], row["refused"]) for row in answers] == [
        (200, False, [])
    ] * 6
    for seq in reversed(range(6)):
        assert other.put(other.segment(seq, last=seq == 5)).status_code == 200
    found = []
    for each in (agent, other):
        run, session = Run.objects.get(pk=each.run_id), Session.objects.get(pk=each.session_id)
        rows = [*session.segments.order_by("seq").values_list("seq", "start_ms", "sample_count")]
        assert Analysis.objects.get(run=run).wanted > 0
        ends = (run.started_at, run.ended_at, session.last_ms, session.final_seq)
        found.append((run.state, *ends, rows))
    assert found[0] == found[1]
    assert len(_objects(settings)) == 12


def test_many_take_hardly_more_statements_than_one(agent, django_assert_max_num_queries):
    agent.post(_bodies(agent, range(2)))
    with django_assert_max_num_queries(10):
        assert _statuses(agent.post(_bodies(agent, range(2, 32)))) == [200] * 30


def test_the_same_again_is_all_duplicates(agent):
    bodies = _bodies(agent, range(4))
    agent.post(bodies[:3])
    again = _rows(agent.post([*bodies, bodies[3]]))
    assert [row["duplicate"] for row in again[:3]] == [True, True, True]
    assert sorted(row["duplicate"] for row in again[3:]) == [False, True]
    assert _kept() == [0, 1, 2, 3]


def test_one_that_is_refused_fails_no_other_and_says_why(agent, settings):
    agent.put(agent.segment(0))
    stranger = replace(agent, session_id=uuid4())
    bodies = [
        encode_segment(agent.segment(1)),
        encode_segment(agent.segment(0, duration_ms=9_000)),
        b"noise",
        encode_segment(stranger.segment(2)),
        encode_segment(agent.segment(3, start_ms=2_000 * 86_400_000)),
        encode_segment(agent.segment(4)),
    ]
    rows = _rows(agent.post(bodies))
    kinds = [row["problem"]["type"].partition("#")[2] for row in rows if row["problem"]]
    assert [row["status"] for row in rows] == [200, 409, 400, 400, 400, 200]
    assert kinds[:3] == ["segment-conflict", "unreadable-body", "invalid-upload"]
    assert rows[3]["problem"]["field"] == "session_id"
    assert _kept() == [0, 1, 4]
    assert len(_objects(settings)) == 3


def test_facts_of_the_session_and_pieces_are_kept_as_ever(agent):
    told = agent.segment(1, events=[Event(5, "stderr", {"number": 1, "text": "out of memory"})])
    piece = agent.segment(FIRST_PIECE, start_ms=20_000, duration_ms=5_000)
    bodies = [encode_segment(each) for each in (agent.segment(0), told, piece, agent.segment(2))]
    assert _statuses(agent.post(bodies)) == [200, 200, 200, 409]
    assert Session.objects.get().stderr == ["out of memory"]
    assert _kept() == [0, 1, FIRST_PIECE]


def test_another_workspaces_run_is_refused_for_each(agent, stranger):
    agent.put(agent.segment(0))
    stranger.run_id, stranger.session_id = agent.run_id, agent.session_id
    assert _statuses(stranger.post(_bodies(stranger, range(1, 3)))) == [404, 404]
    assert _kept() == [0]


def test_the_url_names_run_and_session(agent):
    bodies = _bodies(agent, range(2))
    agent.run_id = uuid4()
    rows = _rows(agent.post(bodies))
    assert [row["problem"]["field"] for row in rows] == ["run_id"] * 2
    assert not Run.objects.exists()


@pytest.mark.parametrize("body", [b"", b"\0\0\0\0", b"\0\0\0\5abc", b"\0\0", b"\xff\xff\xff\xffa"])
def test_a_body_that_does_not_come_apart_is_refused(agent, body):
    answer = agent.post_body(body)
    assert answer.status_code == 400
    assert answer.json()["type"].endswith("#unreadable-body")


def test_too_many_and_too_large_ones_are_refused_before_they_are_read(agent, monkeypatch):
    body = encode_segment(agent.segment(0))
    assert agent.post([body] * (LIMITS.bodies + 1)).status_code == 413
    assert agent.post([os.urandom(LIMITS.body_bytes)]).status_code == 413
    assert not Segment.objects.exists()


def test_together_they_may_be_unpacked_as_large_as_one(agent):
    """The first two take all the room, whether or not they can be read."""
    padding = {"version": 1, "more": " " * (LIMITS.document_bytes // 2)}
    large = gzip.compress(json.dumps(padding).encode())
    broken = large[:-1]
    for first in (large, broken):
        statuses = _statuses(agent.post([first, first, encode_segment(agent.segment(0))]))
        assert (statuses[0], statuses[-1]) == (400, 413)
    assert not Segment.objects.exists()
    assert _statuses(agent.post(_bodies(agent, range(2)))) == [200, 200]


def test_headers_say_what_it_is(agent):
    body = _bodies(agent, range(1))
    assert agent.post(body, **{"Content-Encoding": "gzip"}).status_code == 415
    assert agent.put_body(0, body[0]).status_code == 200
    path = f"/api/v1/runs/{agent.run_id}/segments/{agent.session_id}"
    bearer = {"Authorization": f"Bearer {agent.token}"}
    told = agent.client.post(path, body[0], content_type="application/json", headers=bearer)
    assert told.status_code == 415
    assert agent.client.put(path, body[0], headers=bearer).status_code == 405


def test_it_needs_the_scope_of_an_agent(agent, workspace):
    agent.token = Token.make(workspace, "reader", ["read"])[1]
    assert agent.post(_bodies(agent, range(2))).status_code == 403
    agent.token = "tt_wrong"
    assert agent.post(_bodies(agent, range(2))).status_code == 401


def test_directives_and_what_is_lost_come_with_the_answer(agent, monkeypatch):
    monkeypatch.setattr(resend, "_check_at", {})
    agent.post(_bodies(agent, range(3)))
    issue.profile(Run.objects.get(), Token.objects.get())
    Segment.objects.filter(seq=1).delete()
    answer = agent.post(_bodies(agent, range(3, 5)), **{resend.HEADER: "0-2"}).json()
    assert [directive["kind"] for directive in answer["directives"]] == ["profile"]
    assert [UUID(session) for session, _ in answer["resend"]] == [agent.session_id]
    assert [seq for _, seq in answer["resend"]] == [1]


# Quotas and trouble


@pytest.fixture
def quotas(settings, monkeypatch):
    caches = {"default": {**settings.CACHES["default"], "KEY_PREFIX": secrets.token_hex(8)}}
    monkeypatch.setattr(settings, "CACHES", caches)
    monkeypatch.setattr("webapp.quotas.admission._seen", {})
    monkeypatch.setattr(counters, "_outage", counters.Outage("quotas are off"))
    return settings


def test_each_counts_for_the_quota_and_those_beyond_it_wait(agent, quotas):
    bodies = _bodies(agent, range(6))
    quotas.WORKSPACE_UPLOAD_BYTES_A_DAY = sum(map(len, bodies[:4])) + 10
    rows = _rows(agent.post(bodies))
    assert [row["status"] for row in rows] == [200] * 4 + [429] * 2
    assert rows[4]["problem"]["type"].endswith("#quota")
    assert 60 <= rows[4]["retry_after"] <= 3600
    assert (_kept(), len(_objects(quotas))) == ([0, 1, 2, 3], 4)
    again = _rows(agent.post(bodies))
    assert [row["status"] for row in again] == [200] * 4 + [429] * 2
    quotas.WORKSPACE_UPLOAD_BYTES_A_DAY *= 2
    assert _statuses(agent.post(bodies)) == [200] * 6
    assert _kept() == list(range(6))


def test_what_is_refused_is_not_counted(agent, quotas):
    bodies = _bodies(agent, range(4))
    quotas.WORKSPACE_UPLOAD_BYTES_A_DAY = sum(map(len, bodies)) + 10
    agent.post(bodies[:2])
    other = [encode_segment(agent.segment(seq, duration_ms=9_000)) for seq in (0, 1)] * 10
    assert _statuses(agent.post(other)) == [409] * 20
    assert _statuses(agent.post(bodies)) == [200] * 4


def test_trouble_is_said_for_the_rest_and_what_was_kept_stays(agent, monkeypatch, settings):
    monkeypatch.setattr(trouble, "_logged_at", {})
    agent.post(_bodies(agent, range(2)))
    store, tried = "advisor.store.folder.FolderStore.put", []
    real = open_store(settings.OBJECTS_URL).put

    def full(_, key: str, body: bytes) -> None:
        tried.append(key)
        if len(tried) > 2:
            raise OSError(28, "No space left on device")
        real(key, body)

    with monkeypatch.context() as broken:
        broken.setattr(store, full)
        rows = _rows(agent.post(_bodies(agent, range(2, 8))))
    assert [row["status"] for row in rows] == [200, 200, 503, 503, 503, 503]
    assert rows[5]["retry_after"] == trouble.RETRY_SECONDS
    assert "disk is full" in rows[5]["problem"]["detail"]
    assert len(tried) == 3, "the rest isn't tried"
    assert _kept() == [0, 1, 2, 3]
    assert _statuses(agent.post(_bodies(agent, range(2, 8)))) == [200] * 6


def test_an_error_in_the_code_costs_one_segment(agent, monkeypatch):
    client = Client(raise_request_exception=False)
    agent.client = client
    agent.post(_bodies(agent, range(2)))
    real = bounds.check_bounds

    def broken(segment):  # type: ignore[no-untyped-def]
        if segment.seq == 3:
            raise KeyError("on purpose")
        real(segment)

    monkeypatch.setattr(bounds, "check_bounds", broken)
    rows = _rows(agent.post(_bodies(agent, range(2, 5))))
    assert [row["status"] for row in rows] == [200, 500, 200]
    assert "on purpose" not in json.dumps(rows)


def test_a_row_that_cant_be_written_fails_no_other(agent, monkeypatch):
    agent.post(_bodies(agent, range(2)))
    real = segment_rows._insert

    def insert(uploads):  # type: ignore[no-untyped-def]
        if any(upload.segment.seq == 3 for upload in uploads):
            raise ValueError("on purpose")
        return real(uploads)

    monkeypatch.setattr(segment_rows, "_insert", insert)
    assert _statuses(agent.post(_bodies(agent, range(2, 6)))) == [200, 500, 200, 200]
    monkeypatch.undo()
    assert _statuses(agent.post(_bodies(agent, range(2, 6)))) == [200] * 4
    assert _kept() == list(range(6))


def test_a_run_that_ended_is_judged_again(agent):
    agent.post([encode_segment(agent.segment(seq, last=seq == 3)) for seq in (0, 3)])
    Analysis.objects.update(done=9, wanted=9, attempts=2, given_up_at=timezone.now())
    assert _statuses(agent.post(_bodies(agent, range(1, 3)))) == [200, 200]
    row = Analysis.objects.get()
    assert row.wanted > 9
    assert row.given_up_at is None
    assert Run.objects.get().state == Run.FINISHED
