"""Segments of known sessions take the short way: with the same answers as the careful one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Thread
from uuid import uuid4

import pytest
from django.utils import timezone
from trimtab.wire import FIRST_PIECE, Event

from tests.running_service import wait_until
from tests.service.uploads import FakeAgent
from webapp.accounts import bearer
from webapp.accounts.models import Token
from webapp.analysis.models import Analysis
from webapp.ingest import accept, appending, known_sessions
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
def commits(monkeypatch) -> list[int]:
    """How many rows each commit has; nothing is written."""
    sizes: list[int] = []

    def write(batch: list[appending._Waiting]) -> None:
        sizes.append(len(batch))
        for each in batch:
            each.outcome = appending.Appended(is_new=True, may_be_asked=False)

    monkeypatch.setattr(appending, "_write_all", write)
    return sizes


def append_at_once(together: appending.Together, uploads: int) -> None:
    with ThreadPoolExecutor(uploads) as threads:
        for answers in threads.map(lambda _: together.append([object()]), range(uploads)):  # type: ignore[list-item]
            assert [type(answer) for answer in answers] == [appending.Appended]


def test_uploads_of_a_moment_share_a_commit(commits, monkeypatch):
    """An hour is not waited for: so many are enough, also when the next ones come together."""
    monkeypatch.setattr(appending, "WINDOW_SECONDS", 3600.0)
    together = appending.Together()
    for _ in range(3):
        append_at_once(together, appending.ENOUGH)
    assert commits == [appending.ENOUGH] * 3


def test_an_upload_alone_waits_for_the_window_only(commits, monkeypatch):
    monkeypatch.setattr(appending, "WINDOW_SECONDS", 0.01)
    together = appending.Together()
    for _ in range(3):
        append_at_once(together, 1)
    assert commits == [1, 1, 1]


def test_a_backlog_waits_for_nobody(commits, monkeypatch):
    monkeypatch.setattr(appending, "WINDOW_SECONDS", 3600.0)
    appending.Together().append([object()] * 32)  # type: ignore[list-item]
    assert commits == [32]


def test_what_a_training_waits_for_is_committed_at_once(commits, monkeypatch):
    """Together with what waits already."""
    monkeypatch.setattr(appending, "WINDOW_SECONDS", 3600.0)
    together = appending.Together()
    patient = Thread(target=together.append, args=([object()],), daemon=True)
    patient.start()
    wait_until(lambda: together._turn.locked(), 30, "it waits for others")
    urgent = Thread(target=together.append, args=([object()], True), daemon=True)
    urgent.start()
    for each in (patient, urgent):
        each.join(60)
        assert not each.is_alive()
    assert commits == [2]
