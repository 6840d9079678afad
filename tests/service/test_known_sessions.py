"""Segments of known sessions: written with few statements, and refused or refreshed where something
isn't as this process remembers it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from django.db import OperationalError
from django.utils import timezone
from trimtab import wire
from trimtab.wire import FIRST_PIECE, LIMITS, Event, encode_segment

from advisor.store.opening import open_store
from tests.service.uploads import FakeAgent, together
from webapp.accounts import bearer
from webapp.accounts.models import Token
from webapp.analysis.models import Analysis
from webapp.directives import issue
from webapp.http.gathered import WholeRequest
from webapp.ingest import known_sessions, resend, segment_requests, segment_rows
from webapp.ingest.upload import Upload
from webapp.runs.models import Run, Segment, Session

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("both_ways")]


@pytest.fixture
def known(agent: FakeAgent) -> FakeAgent:
    """Return an agent whose session this process knows."""
    for seq in range(2):
        assert agent.put(agent.segment(seq)).status_code == 200
    return agent


def test_a_session_that_no_process_remembers_gets_the_same_rows(agent, token):
    other = FakeAgent(agent.client, token, started_at_ns=agent.started_at_ns)
    for seq in (0, 3, 1):
        assert agent.put(agent.segment(seq)).status_code == 200
        known_sessions.forget_session(other.session_id)
        assert other.put(other.segment(seq)).status_code == 200
    found = []
    for each in (agent, other):
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
    objects = set(open_store(settings.OBJECTS_URL).list("runs/"))
    assert known.put(known.segment(1, duration_ms=9_000)).status_code == 409
    assert known.put(known.segment(2)).status_code == 409
    assert set(open_store(settings.OBJECTS_URL).list("runs/")) == objects


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
    workspace = Run.objects.get().workspace
    uploads = [Upload(workspace, known.segment(seq), f"{seq}".encode()) for seq in range(2, 6)]
    uploads[1].__dict__["sha256"] = None
    failed = [isinstance(each, Exception) for each in segment_rows.write_rows(uploads)]
    assert failed == [False, True, False, False]
    assert sorted(Segment.objects.values_list("seq", flat=True)) == [0, 1, 2, 4, 5]


def _told(answer: Any) -> tuple[int, dict[str, Any]]:
    return answer.status_code, {k: v for k, v in answer.json().items() if k != "server_time_ns"}


def _asked(agent: FakeAgent, *segments: wire.Segment, **headers: str) -> list[WholeRequest]:
    return [agent.asked(each.seq, encode_segment(each), **headers) for each in segments]


def test_those_that_come_at_once_are_written_together(
    known, django_assert_max_num_queries, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        known.put(known.segment(1))  # Who uploads is remembered from here on
    with django_assert_max_num_queries(10):
        answers = together(_asked(known, *(known.segment(seq) for seq in range(2, 22))))
    assert [each.status_code for each in answers] == [200] * 20
    assert Segment.objects.count() == 22


def test_one_that_comes_twice_at_once_is_a_duplicate_once(known):
    told = [_told(each) for each in together(_asked(known, known.segment(2), known.segment(2)))]
    assert [status for status, _ in told] == [200, 200]
    assert sorted(said["duplicate"] for _, said in told) == [False, True]
    assert Segment.objects.filter(seq=2).count() == 1


def test_one_that_is_refused_fails_no_other_and_leaves_no_object(known, settings):
    objects = set(open_store(settings.OBJECTS_URL).list("runs/"))
    bad = known.segment(1, duration_ms=9_000)
    first, (status, problem), last = (
        _told(each) for each in together(_asked(known, known.segment(2), bad, known.segment(3)))
    )
    assert (first[0], last[0]) == (200, 200)
    assert (status, problem["field"]) == (409, "seq")
    new = set(open_store(settings.OBJECTS_URL).list("runs/")) - objects
    assert len(new) == 2


@pytest.mark.parametrize(("error", "status"), [(OperationalError, 503), (KeyError, 500)])
def test_trouble_is_told_and_what_comes_again_is_taken(known, monkeypatch, error, status):
    asked = _asked(known, known.segment(2), known.segment(3))
    with monkeypatch.context() as patched:
        errors = [error("on purpose"), error("on purpose")]
        patched.setattr(segment_rows, "write_rows", lambda uploads: errors[: len(uploads)])
        assert [each.status_code for each in together(asked)] == [status] * 2
    assert [each.status_code for each in together(asked)] == [200] * 2
    assert Segment.objects.count() == 4


def test_trouble_of_the_store_is_told_to_all_and_nothing_is_counted(known, monkeypatch):
    asked = _asked(known, known.segment(2), known.segment(3))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("advisor.store.folder.FolderStore.put", full)
        assert [each.status_code for each in together(asked)] == [503] * 2
    assert [each.status_code for each in together(asked)] == [200] * 2


def test_those_that_come_at_once_are_told_the_directives_of_their_attempt(known):
    known.declare(allow_stop=True)
    issue.stop(Run.objects.get(), "hung")
    for answer in together(_asked(known, known.segment(2), known.segment(3))):
        assert _told(answer)[1]["directives"][0]["rule"] == "hung"


def test_what_takes_longer_holds_up_no_other(known, monkeypatch):
    """Listing a session's objects, facts that are kept with it, a large document."""
    checked = _asked(known, known.segment(2), **{resend.HEADER: "0-1"})
    facts = _asked(known, known.segment(3, last=True))
    answers = segment_requests.SegmentRequests().answers([*checked, *facts])
    monkeypatch.setattr(segment_requests, "_SMALL", replace(LIMITS, document_bytes=1_000))
    large = _asked(known, known.segment(4))
    answers += segment_requests.SegmentRequests().answers(large)
    assert all(callable(each) for each in answers)
    assert Segment.objects.count() == 2
    assert [each().status_code for each in answers if callable(each)] == [200] * 3
    assert Segment.objects.count() == 5
    assert Run.objects.get().state == Run.FINISHED


@pytest.mark.parametrize(
    ("changes", "status", "field"),
    [
        ({"authorization": ""}, 401, "Authorization"),
        ({"authorization": "Bearer wrong"}, 401, "Authorization"),
        ({"content-encoding": "br"}, 415, "Content-Encoding"),
        ({"content-type": "text/html"}, 415, "Content-Type"),
    ],
)
def test_headers_are_checked_as_of_one_alone(known, changes, status, field):
    body = encode_segment(known.segment(2))
    asked = known.asked(2, body)
    answer, good = together(
        [replace(asked, headers={**asked.headers, **changes}), known.asked(3, body)]
    )
    told = _told(answer)
    assert (told[0], told[1]["field"]) == (status, field)
    named = {name.title(): value for name, value in changes.items() if name != "content-type"}
    if named:
        assert told == _told(known.put_body(2, body, **named))
    assert good.status_code == 400  # Its number is another one


def test_a_valid_token_in_another_scheme_is_none(known):
    body = encode_segment(known.segment(2))
    basic = {"Authorization": f"Basic {known.token}"}
    assert together([known.asked(2, body, **basic)])[0].status_code == 401
    assert known.put_body(2, body, **basic).status_code == 401


def test_a_token_without_the_scope_is_refused(known, workspace):
    reader = replace(known, token=Token.make(workspace, "reads", [Token.READ])[1])
    wrong, right = together([*_asked(reader, known.segment(2)), *_asked(known, known.segment(2))])
    assert (wrong.status_code, right.status_code) == (403, 200)
