"""The upload API, as an agent meets it."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from trimtab.wire import Event, encode_segment

from webapp.analysis.models import Analysis
from webapp.runs.models import Run, Segment

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("both_ways")]


def test_it_takes_a_run_whose_segments_come_before_its_declaration(agent):
    assert agent.put(agent.segment(0)).status_code == 200
    assert agent.declare(owner="ada").status_code == 200
    run = Run.objects.get(pk=agent.run_id)
    assert (run.job.name, run.number, run.owner, run.state) == ("digits", 1, "ada", Run.RUNNING)


def test_it_answers_a_replay_as_duplicate_and_counts_nothing_twice(agent):
    body = encode_segment(agent.segment(0))
    first, second = agent.put_body(0, body), agent.put_body(0, body)
    assert (first.json()["duplicate"], second.json()["duplicate"]) == (False, True)
    assert Segment.objects.count() == 1


def test_it_refuses_the_same_seq_with_another_body(agent):
    agent.put(agent.segment(0))
    answer = agent.put(agent.segment(0, duration_ms=9_000))
    assert answer.status_code == 409
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["field"] == "seq"
    assert Segment.objects.get().duration_ms == 10_000


def test_it_refuses_the_session_of_another_run_for_a_new_run(agent):
    agent.put(agent.segment(0))
    agent.run_id = uuid4()
    answer = agent.put(agent.segment(1))
    assert (answer.status_code, answer.json()["field"]) == (409, "session_id")
    assert Run.objects.count() == 1


def test_it_queues_the_first_segment_of_a_run_once(agent):
    agent.put(agent.segment(0))
    agent.put(agent.segment(1))
    (analysis,) = Analysis.objects.all()
    assert (analysis.run_id, analysis.wanted, analysis.done) == (agent.run_id, 2, 0)
    assert analysis.waiting_since is not None


def test_it_keeps_the_rest_of_a_segment_with_one_bad_series(agent):
    segment = agent.segment(0)
    document = json.loads(gzip.decompress(encode_segment(segment)))
    document["blocks"][0]["columns"]["host.swap_used_bytes"] = [1, 2, 3]
    document["blocks"][0]["columns"]["Not A Name"] = {"k": 1, "n": 20}
    answer = agent.put_body(0, gzip.compress(json.dumps(document).encode()))
    assert answer.status_code == 200
    assert {refusal["name"] for refusal in answer.json()["refused"]} == {
        "host.swap_used_bytes",
        "Not A Name",
    }
    assert Segment.objects.get().sample_count == segment.sample_count


def test_it_keeps_a_run_with_nan_metrics(agent):
    event = Event(5, "metric", {"name": "loss", "value": float("nan"), "step": 3})
    assert agent.put(agent.segment(0, events=[event])).status_code == 200


@pytest.mark.parametrize(
    ("body", "field", "status"),
    [
        (b"not gzip", "body", 400),
        (gzip.compress(b"{"), "body", 400),
        (gzip.compress(b"[]"), "body", 400),
        (gzip.compress(b"[" * 100_000), "body", 400),
        (gzip.compress(b"{}")[:-4], "body", 400),
        (gzip.compress(b'{"version": 1}'), "session_id", 400),
        (gzip.compress(b" " * 50_000_000), "body", 413),
    ],
    ids=["not gzip", "not JSON", "a list", "deep", "cut off", "empty", "bomb"],
)
def test_it_names_the_field_and_the_fix_of_a_bad_body(agent, body, field, status):
    agent.put(agent.segment(0))
    answer = agent.put_body(1, body)
    assert answer.status_code == status
    assert answer.json()["field"] == field
    assert answer.json()["fix"]
    assert Segment.objects.count() == 1


def test_it_refuses_a_body_that_says_another_run_than_its_address(agent):
    answer = agent.put_body(0, encode_segment(replace(agent.segment(0), run_id=uuid4())))
    assert (answer.status_code, answer.json()["field"]) == (400, "run_id")


def test_it_needs_a_token_that_may_ingest(agent, workspace):
    from webapp.accounts.models import Token

    agent.token = "tt_wrong"
    assert agent.put(agent.segment(0)).status_code == 401
    agent.token = Token.make(workspace, "reader", ["read"])[1]
    assert agent.put(agent.segment(0)).status_code == 403
    assert not Run.objects.exists()


def test_it_refuses_a_revoked_token(agent):
    from django.utils import timezone

    from webapp.accounts.models import Token

    Token.objects.update(revoked_at=timezone.now())
    assert agent.put(agent.segment(0)).status_code == 401


def test_it_never_lets_a_stranger_write_into_a_run(agent, stranger):
    agent.put(agent.segment(0))
    stranger.run_id = agent.run_id
    assert stranger.put(stranger.segment(0)).status_code == 404
    assert stranger.declare(owner="mallory").status_code == 404
    stranger.session_id = agent.session_id
    assert stranger.put_body(0, encode_segment(agent.segment(0))).status_code == 404
    run = Run.objects.get()
    assert (run.owner, Segment.objects.count()) == ("", 1)


def test_it_never_lets_a_session_wander_to_another_run(agent):
    agent.put(agent.segment(0))
    agent.run_id = uuid4()
    assert agent.put(agent.segment(1)).status_code == 409


def test_it_joins_nodes_of_one_run_and_ends_it_with_the_last(agent, token):
    from tests.service.uploads import FakeAgent

    other = FakeAgent(agent.client, token, run_id=agent.run_id, machine_id="machine-2")
    for segment in agent.segments(2):
        agent.put(segment)
    other.put(other.segment(0))
    assert Run.objects.get().state == Run.RUNNING
    other.put(other.segment(1, last=True))
    run = Run.objects.get()
    assert (run.state, run.attempts.get().nodes.count()) == (Run.FINISHED, 2)


def test_it_corrects_two_days_of_skew_and_ignores_the_noise_of_an_upload(agent, token):
    from tests.service.uploads import FakeAgent

    skewed = FakeAgent(agent.client, token, started_at_ns=agent.started_at_ns)
    skewed.skew_seconds = 2 * 86_400
    for each in (agent, skewed):
        each.put(each.segment(0, last=True))
    right, wrong = (Run.objects.get(pk=each.run_id) for each in (agent, skewed))
    assert abs(right.started_at - wrong.started_at) <= timedelta(seconds=1)
    assert right.duration == wrong.duration == timedelta(seconds=10)


def test_it_numbers_the_runs_of_a_job_and_never_twice(agent, token):
    from tests.service.uploads import FakeAgent

    for _ in range(3):
        each = FakeAgent(agent.client, token)
        each.put(each.segment(0))
        each.declare()
    assert sorted(Run.objects.values_list("number", flat=True)) == [1, 2, 3]


def test_it_finds_a_run_again_that_was_lost(agent, settings):
    from django.utils import timezone

    from webapp.runs import progress

    agent.put(agent.segment(0))
    progress.mark_lost_runs(timezone.now() + timedelta(minutes=6))
    assert Run.objects.get().state == Run.LOST
    agent.put(agent.segment(1))
    assert Run.objects.get().state == Run.RUNNING
