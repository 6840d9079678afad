"""Headers and times of uploads: what is refused, and what is only put right."""

from __future__ import annotations

import gzip
import json
import time
from datetime import timedelta

import pytest
from django.utils import timezone
from trimtab.wire import encode_segment

from webapp.ingest.bodies import DECLARATION_TYPE, SEGMENT_TYPE
from webapp.runs.models import Run, Segment, Session

pytestmark = pytest.mark.django_db


def _put(agent, body=None, content_type=SEGMENT_TYPE, **headers: str):  # type: ignore[no-untyped-def]
    environ = {"HTTP_AUTHORIZATION": f"Bearer {agent.token}"} | headers
    address = f"/api/v1/runs/{agent.run_id}/segments/{agent.session_id}/0"
    body = encode_segment(agent.segment(0)) if body is None else body
    return agent.client.put(address, body, content_type=content_type, **environ)


def _is_problem(answer, status: int, field: str) -> None:  # type: ignore[no-untyped-def]
    assert (answer.status_code, answer.json()["field"]) == (status, field)
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["fix"]
    assert not Run.objects.exists()


@pytest.mark.parametrize("length", ["abc", "-1", "1.5", "0x10", "1 2", "²"])
def test_a_length_that_is_no_number_is_refused_by_its_name(agent, length):
    _is_problem(_put(agent, CONTENT_LENGTH=length), 400, "Content-Length")


@pytest.mark.parametrize("length", ["2097153", "104857600", "9" * 40])
def test_a_body_that_is_said_to_be_too_large_is_not_read(agent, length):
    _is_problem(_put(agent, CONTENT_LENGTH=length), 413, "body")


def test_a_body_in_chunks_is_asked_to_say_its_length(agent):
    answer = _put(agent, CONTENT_LENGTH="", HTTP_TRANSFER_ENCODING="chunked")
    _is_problem(answer, 411, "Content-Length")


@pytest.mark.parametrize("encoding", ["br", "deflate", "identity", "gzip, gzip", "zstd"])
def test_only_gzip_is_unpacked(agent, encoding):
    _is_problem(_put(agent, HTTP_CONTENT_ENCODING=encoding), 415, "Content-Encoding")


@pytest.mark.parametrize("content_type", ["text/html", "application/x-www-form-urlencoded", "x"])
def test_another_type_of_content_is_refused(agent, content_type):
    _is_problem(_put(agent, content_type=content_type), 415, "Content-Type")


@pytest.mark.parametrize(
    "content_type", [SEGMENT_TYPE, DECLARATION_TYPE, "application/json; charset=utf-8", ""]
)
def test_a_type_that_fits_or_none_is_taken(agent, content_type):
    assert _put(agent, content_type=content_type).status_code == 200


def test_an_empty_body_is_refused(agent):
    _is_problem(_put(agent, b""), 400, "body")


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ({"host.a_pct": [1, 2]}, "host.a_pct"),
        ({f"host.{'a' * 300}": [1]}, f"host.{'a' * 75}"),
    ],
    ids=["wrong length", "name of 300 characters"],
)
def test_a_segment_with_nothing_but_a_bad_series_is_refused_by_its_name(agent, columns, named):
    document = json.loads(gzip.decompress(encode_segment(agent.segment(0, steps=[]))))
    document["blocks"] = [{"t": [0], "columns": columns}]
    _is_problem(_put(agent, gzip.compress(json.dumps(document).encode())), 400, named)


def test_a_segment_of_nothing_is_taken_since_it_says_that_the_node_lives(agent):
    assert agent.put(agent.segment(0, blocks=[], steps=[])).status_code == 200


@pytest.mark.parametrize("sent_at", [None, "", "yesterday", "-5", "9" * 30, "now"])
@pytest.mark.parametrize("ahead", [timedelta(days=2), timedelta(days=365 * 200)], ids=str)
def test_a_clock_far_ahead_is_taken_and_put_right_by_the_time_of_arrival(agent, sent_at, ahead):
    agent.started_at_ns = time.time_ns() + int(ahead.total_seconds()) * 10**9
    said = str(time.time_ns()) if sent_at == "now" else sent_at
    headers = {} if said is None else {"HTTP_X_TRIMTAB_SENT_AT": said}
    assert _put(agent, **headers).status_code == 200
    run, session = Run.objects.get(), Session.objects.get()
    assert run.ended_at - timezone.now() < timedelta(seconds=6)
    assert run.duration == timedelta(seconds=10)
    assert session.clock_offset_ms <= -ahead.total_seconds() * 1000 + 60_000


def test_a_machine_without_a_clock_is_taken_and_put_right_by_what_it_says_when_sending(agent):
    agent.started_at_ns = 5 * 10**9
    answer = _put(agent, HTTP_X_TRIMTAB_SENT_AT=str(20 * 10**9))
    assert answer.status_code == 200
    assert timezone.now() - Run.objects.get().started_at < timedelta(seconds=60)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("session_started_at_ns", -1),
        ("session_started_at_ns", 2**63),
        ("start_ms", -1),
        ("start_ms", 10**13),
        ("duration_ms", -1),
        ("duration_ms", 86_400_001),
        ("resolution_ms", 0),
    ],
)
def test_a_time_that_no_clock_can_show_is_refused(agent, field, value):
    document = json.loads(gzip.decompress(encode_segment(agent.segment(0))))
    body = gzip.compress(json.dumps(document | {field: value}).encode())
    _is_problem(_put(agent, body), 400, field)


def test_labels_of_a_run_stay_bounded_however_often_it_is_declared(agent):
    for part in range(5):
        tags = {f"tag-{part}-{i}": "x" for i in range(100)}
        assert agent.declare(tags=tags).status_code == 200
    answer = agent.declare(tags={"one more": "x"}, owner="mallory")
    assert (answer.status_code, answer.json()["field"]) == (400, "tags")
    run = Run.objects.get()
    assert (len(run.tags), run.owner) == (500, "")
    assert agent.declare(tags={"tag-0-0": "y"}).status_code == 200


def test_no_object_comes_to_lie_beside_those_of_another_workspace(agent, stranger, settings):
    from pathlib import Path

    assert agent.put(agent.segment(0)).status_code == 200
    objects = Path(settings.OBJECTS_URL)
    before = {path: path.read_bytes() for path in objects.rglob("*") if path.is_file()}
    stranger.run_id = agent.run_id
    assert stranger.put(stranger.segment(0)).status_code == 404
    stranger.session_id = agent.session_id
    assert stranger.put(stranger.segment(1)).status_code == 404
    after = {path: path.read_bytes() for path in objects.rglob("*") if path.is_file()}
    assert after == before
    assert Segment.objects.count() == 1
