"""Segments of known sessions take the short way: with the same answers as the careful one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from django.db import OperationalError
from django.test import Client
from django.utils import timezone
from trimtab.wire import FIRST_PIECE, Event, encode_segment

from tests.service.uploads import FakeAgent
from webapp.accounts import bearer
from webapp.accounts.models import Token
from webapp.analysis.models import Analysis
from webapp.directives import issue
from webapp.http import postponed
from webapp.http.postponed import Postponed
from webapp.ingest import accept, appending, known_sessions, resend
from webapp.ingest.upload import Upload
from webapp.runs.models import Run, Segment, Session

pytestmark = pytest.mark.django_db


@pytest.fixture
def known(agent: FakeAgent) -> FakeAgent:
    """An agent whose session this process knows."""
    for seq in range(2):
        assert agent.put(agent.segment(seq)).status_code == 200
    return agent


def test_it_leaves_the_rows_that_the_careful_way_leaves(agent, token, monkeypatch):
    careful = FakeAgent(agent.client, token, started_at_ns=agent.started_at_ns)
    for seq in (0, 3, 1):
        assert agent.put(agent.segment(seq)).status_code == 200
        with monkeypatch.context() as patched:
            patched.setattr(known_sessions, "began_at", lambda *_: None)
            assert careful.put(careful.segment(seq)).status_code == 200
    found = []
    for each in (agent, careful):
        run = Run.objects.get(pk=each.run_id)
        session = Session.objects.get(pk=each.session_id)
        segments = session.segments.values_list("seq", "start_ms", "sample_count", "refused")
        wanted = Analysis.objects.get(run=run).wanted
        found.append(
            (run.state, run.started_at, run.ended_at, session.last_ms, [*segments], wanted)
        )
    assert found[0] == found[1]


def test_it_takes_few_statements(known, django_assert_max_num_queries):
    with django_assert_max_num_queries(10):
        assert known.put(known.segment(2)).status_code == 200


def test_a_known_session_is_still_of_its_own_run_node_and_workspace(known, stranger):
    others = {"run_id": uuid4(), "machine_id": "machine-2", "attempt": 1}
    for name, value in others.items():
        other = replace(known, **{name: value})
        assert other.put(other.segment(2)).status_code == 409, name
    stranger.run_id, stranger.session_id = known.run_id, known.session_id
    assert stranger.put(stranger.segment(2)).status_code == 404
    assert Segment.objects.count() == 2


def test_a_run_that_was_deleted_for_good_is_made_again(known):
    Run.objects.all().delete()
    assert known.put(known.segment(2)).status_code == 200
    assert Session.objects.get().segments.get().seq == 2


def test_another_body_or_the_time_of_a_piece_is_refused_and_leaves_no_object(known, settings):
    assert known.put(known.segment(FIRST_PIECE, start_ms=20_000)).status_code == 200
    objects = set(accept.open_store(settings.OBJECTS_URL).list("runs/"))
    assert known.put(known.segment(1, duration_ms=9_000)).status_code == 409
    assert known.put(known.segment(2)).status_code == 409
    assert set(accept.open_store(settings.OBJECTS_URL).list("runs/")) == objects


def test_a_late_segment_of_an_ended_run_has_it_analysed_again(known):
    known.put(known.segment(3, last=True))
    Analysis.objects.update(done=3, attempts=2, given_up_at=timezone.now())
    assert known.put(known.segment(2)).status_code == 200
    row = Analysis.objects.get()
    assert (row.wanted, row.attempts, row.given_up_at) == (4, 0, None)
    assert Run.objects.get().state == Run.FINISHED


def test_facts_about_the_session_are_kept_at_once(known):
    lines = [Event(5, "stderr", {"number": 1, "text": "out of memory"})]
    assert known.put(known.segment(2, events=lines)).status_code == 200
    assert Session.objects.get().stderr == ["out of memory"]


def test_a_token_is_refused_at_once_where_it_is_revoked_and_soon_elsewhere(known, monkeypatch):
    Token.objects.update(revoked_at=timezone.now())  # As another process does
    assert known.put(known.segment(2)).status_code == 200
    monkeypatch.setattr(bearer, "REMEMBERED_SECONDS", 0.0)
    bearer._found.clear()
    assert known.put(known.segment(3)).status_code == 401
    token = Token.objects.get()
    token.revoked_at = None
    token.save()
    monkeypatch.undo()
    assert known.put(known.segment(3)).status_code == 200
    token.revoked_at = timezone.now()
    token.save()
    assert known.put(known.segment(4)).status_code == 401


def test_one_row_that_cant_be_written_fails_no_other(known, monkeypatch):
    """All of them wait while the first one's rows are committed."""
    entries = []
    for seq in range(2, 6):
        upload = Upload(known.segment(seq), f"body {seq}".encode(), None)
        workspace = Run.objects.get().workspace
        began_at = known_sessions.began_at(workspace, upload.segment)
        entries.append(accept._entry(workspace, upload, began_at))
    entries[1] = replace(entries[1], sha256=None)  # type: ignore[arg-type]
    waiting = [appending._Waiting(entry) for entry in entries]
    appending._write_all(waiting)
    failed = [isinstance(each.outcome, Exception) for each in waiting]
    assert failed == [False, True, False, False]
    assert sorted(Segment.objects.values_list("seq", flat=True)) == [0, 1, 2, 4, 5]


@pytest.fixture
def postponing(known: FakeAgent) -> FakeAgent:
    """Its uploads may be postponed."""
    known.client.defaults[postponed._KEY] = None
    return known


def _left(answer) -> Postponed:  # type: ignore[no-untyped-def]
    left = answer.wsgi_request.META[postponed._KEY]
    assert isinstance(left, Postponed)
    return left


def _finished(left: Postponed):  # type: ignore[no-untyped-def]
    (result,) = left.write([left.part])
    return left.answer(result)


def _told(answer) -> tuple[int, dict[str, Any]]:  # type: ignore[no-untyped-def]
    said = answer.json() if hasattr(answer, "json") else json.loads(answer.content)
    return answer.status_code, {k: v for k, v in said.items() if k != "server_time_ns"}


def test_a_postponed_upload_gets_its_row_and_its_answer_later(postponing, token):
    left = _left(postponing.put(postponing.segment(2)))
    assert Segment.objects.count() == 2
    at_once = FakeAgent(Client(), token, started_at_ns=postponing.started_at_ns)
    for seq in range(2):
        at_once.put(at_once.segment(seq))
    assert _told(_finished(left)) == _told(at_once.put(at_once.segment(2)))
    assert Segment.objects.filter(session=postponing.session_id).count() == 3


def test_a_postponed_upload_that_came_twice_is_a_duplicate_once(postponing):
    left = _left(postponing.put(postponing.segment(2)))
    again = postponing.put(postponing.segment(2))
    assert _told(again)[1]["duplicate"] is False  # Its row is the first
    assert _told(_finished(left))[1]["duplicate"] is True
    assert Segment.objects.filter(seq=2).count() == 1


def test_a_postponed_upload_is_refused_as_any_other(postponing, settings):
    """And leaves no object."""
    objects = set(accept.open_store(settings.OBJECTS_URL).list("runs/"))
    left = _left(postponing.put(postponing.segment(1, duration_ms=9_000)))
    status, problem = _told(_finished(left))
    assert (status, problem["field"]) == (409, "seq")
    assert set(accept.open_store(settings.OBJECTS_URL).list("runs/")) == objects


def test_a_postponed_upload_that_meets_trouble_is_told_to_come_again(postponing, monkeypatch):
    left = _left(postponing.put(postponing.segment(2)))
    status, _ = _told(left.answer(OperationalError("on purpose")))
    assert status == 503
    left = _left(postponing.put(postponing.segment(3)))
    assert _told(left.answer(KeyError("on purpose")))[0] == 500


def test_a_postponed_upload_is_told_the_directives_of_its_attempt(postponing):
    postponing.declare(allow_stop=True)
    left = _left(postponing.put(postponing.segment(2)))
    issue.stop(Run.objects.get(), "hung")
    assert _told(_finished(left))[1]["directives"][0]["rule"] == "hung"


def test_an_upload_whose_session_is_checked_isnt_postponed(postponing):
    """Listing its objects would hold up the others."""
    body = encode_segment(postponing.segment(2))
    answer = postponing.put_body(2, body, **{resend.HEADER: "0-1"})
    assert answer.json()["duplicate"] is False
    assert Segment.objects.count() == 3
    assert _left(postponing.put_body(3, encode_segment(postponing.segment(3))))
