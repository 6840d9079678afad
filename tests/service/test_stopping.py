"""A rule stops a run that allows it, while it hangs and not afterwards, for runs of any length."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from datetime import timedelta

import pytest
from django.db.models import F
from django.utils import timezone
from trimtab.wire import Block, Segment, StepBlock

from tests.service.uploads import FakeAgent
from webapp.analysis import queue
from webapp.analysis.judging import tails
from webapp.analysis.models import Analysis, Judgement
from webapp.analysis.tasks import evaluate
from webapp.directives.models import Directive
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db
MINUTE_MS = 60_000


EVIDENCE = ("tree.cpu_seconds_total", "tree.requested_bytes_total", "tree.suspended_count")


def minute(agent: FakeAgent, number: int, works: bool, seen: tuple[str, ...] = EVIDENCE) -> Segment:
    """Return a minute of one node without GPUs, a sample in five seconds, a step a second."""
    times = list(range(0, MINUTE_MS, 5000))
    used = [number * 120.0 + at / 500 if works else 10.0**6 for at in times]
    read = [10**6 * (60 * number + at // 1000) if works else 10**12 for at in times]
    columns = {
        "tree.cpu_seconds_total": used,
        "tree.requested_bytes_total": read,
        "tree.suspended_count": [0] * len(times),
    }
    steps = StepBlock(
        rank=0,
        phase="train",
        start_us=[i * 1_000_000 for i in range(60)],
        duration_us=[1_000_000] * 60,
        data_wait_us=[10_000] * 60,
        samples=[8] * 60,
    )
    return agent.segment(
        number,
        start_ms=number * MINUTE_MS,
        duration_ms=MINUTE_MS,
        resolution_ms=5000,
        blocks=[Block(times, {name: columns[name] for name in seen})],  # type: ignore[misc]
        steps=[steps] if works else [],
    )


def live(agent: FakeAgent, minutes: Iterable[bool], first: int = 0, **declared: object) -> None:
    """Send what a running run sends: minutes in which it works or rests."""
    if first == 0:
        agent.declare(**{"allow_stop": True, **declared})
    for number, works in enumerate(minutes, first):
        assert agent.put(minute(agent, number, works)).status_code == 200


def time_passes(seconds: float) -> None:
    """Let time pass for the schedule alone."""
    ago = timedelta(seconds=seconds)
    Analysis.objects.update(
        finished_at=F("finished_at") - ago, looked_at=F("looked_at") - ago, due_at=F("due_at") - ago
    )


def asked(agent: FakeAgent) -> list[str]:
    rows = Directive.objects.filter(attempt__run=agent.run_id, kind="stop")
    return list(rows.values_list("rule", flat=True))


WORKS, RESTS = [True], [False]


@pytest.fixture
def hung(agent):
    live(agent, WORKS * 5 + RESTS * 11)
    return agent


def test_a_run_that_hangs_past_the_threshold_is_asked_to_end(hung):
    evaluate(str(hung.run_id))
    assert Judgement.objects.get(rule="hung").state == "fired"
    (said,) = hung.put(minute(hung, 16, works=False)).json()["directives"]
    assert (said["kind"], said["rule"], said["grace_seconds"]) == ("stop", "hung", 30)


def test_it_is_asked_once_however_often_the_run_is_analysed(hung):
    for number in (16, 17):
        evaluate(str(hung.run_id))
        hung.put(minute(hung, number, works=False))
        time_passes(1000)
    assert asked(hung) == ["hung"]


def test_short_of_the_threshold_nothing_is_asked(agent):
    live(agent, WORKS * 5 + RESTS * 9)
    evaluate(str(agent.run_id))
    assert asked(agent) == []


def test_without_permission_it_is_found_and_never_asked(agent):
    live(agent, WORKS * 5 + RESTS * 30, allow_stop=False)
    evaluate(str(agent.run_id))
    assert Judgement.objects.get(rule="hung").state == "fired"
    assert asked(agent) == []


@pytest.mark.parametrize("unseen", EVIDENCE[1:])
def test_without_all_evidence_of_its_processes_it_is_found_and_never_asked(agent, unseen):
    agent.declare(allow_stop=True)
    seen = tuple(name for name in EVIDENCE if name != unseen)
    for number, works in enumerate(WORKS * 5 + RESTS * 30):
        agent.put(minute(agent, number, works, seen))
    evaluate(str(agent.run_id))
    assert Judgement.objects.get(rule="hung").state == "fired"
    assert asked(agent) == []


def test_a_run_that_hung_and_works_again_goes_on(agent):
    live(agent, WORKS * 5 + RESTS * 11 + WORKS)
    evaluate(str(agent.run_id))
    assert Judgement.objects.get(rule="hung").state == "fired"
    assert asked(agent) == []


def test_a_second_hang_ends_it_although_the_rule_had_fired(agent):
    live(agent, WORKS * 5 + RESTS * 11 + WORKS)
    evaluate(str(agent.run_id))
    live(agent, RESTS * 11, first=17)
    time_passes(60)
    evaluate(str(agent.run_id))
    assert asked(agent) == ["hung"]


def test_a_run_that_has_ended_is_asked_nothing(hung):
    last = minute(hung, 16, works=False)
    last.events += hung.segment(16, last=True).events
    hung.put(last)
    evaluate(str(hung.run_id))
    assert asked(hung) == []


@pytest.fixture
def long_run(agent) -> FakeAgent:
    """Return a run that is 40 minutes in, and analysed a moment ago: the next whole analysis is 4
    minutes away.
    """
    live(agent, WORKS * 40)
    evaluate(str(agent.run_id))
    return agent


def test_a_long_run_is_looked_at_with_each_upload_and_analysed_when_it_shows_something(long_run):
    live(long_run, RESTS * 9, first=40)
    time_passes(10)
    before = Analysis.objects.get()
    evaluate(str(long_run.run_id))
    seen = Analysis.objects.get()
    assert (seen.finished_at, seen.done) == (before.finished_at, before.done)
    assert seen.looked_at is not None
    assert seen.due_at > timezone.now(), "not again at once"
    live(long_run, RESTS * 2, first=49)
    time_passes(10)
    evaluate(str(long_run.run_id))
    assert Analysis.objects.get().done == Analysis.objects.get().wanted
    assert asked(long_run) == ["hung"]


@pytest.mark.parametrize("memory", ["kept", "of another worker", "too small"])
def test_looks_find_the_same_whatever_the_worker_still_holds_and_however_late_minutes_come(
    long_run, monkeypatch, memory
):
    if memory == "too small":
        monkeypatch.setattr(tails, "MOST_BYTES", 0)
    late = 44
    for number in range(40, 50):
        if number != late:
            live(long_run, RESTS, first=number)
        time_passes(10)
        evaluate(str(long_run.run_id))
        if memory == "of another worker" and number % 2:
            monkeypatch.setattr(tails, "_tails", OrderedDict())
    assert asked(long_run) == []
    live(long_run, RESTS, first=late)
    live(long_run, RESTS, first=50)
    time_passes(10)
    evaluate(str(long_run.run_id))
    assert asked(long_run) == ["hung"]


def test_what_a_look_sees_is_found_however_long_the_analysis_before_took(long_run):
    """A busy machine, or a run of many hours: an analysis takes a minute."""
    Analysis.objects.update(seconds=60)
    live(long_run, RESTS * 11, first=40)
    time_passes(10)
    evaluate(str(long_run.run_id))
    assert asked(long_run) == ["hung"]


def test_looks_call_for_whole_analyses_a_tenth_of_the_time_at_most(long_run):
    """The run hangs, and goes on so: each look calls for another analysis that could stop it."""
    called = []
    live(long_run, RESTS * 11, first=40)
    for number in range(51, 57):
        time_passes(30)
        evaluate(str(long_run.run_id))
        called.append(Analysis.objects.get().done == Analysis.objects.get().wanted)
        Analysis.objects.update(seconds=6, called_at=F("called_at") - timedelta(seconds=30))
        Directive.objects.all().delete()
        live(long_run, RESTS, first=number)
    assert called == [True, False, True, False, True, False]


def test_what_an_analysis_was_not_called_for_is_found_however_long_it_took(long_run):
    """A look had called for a long one a moment ago, for the sake of another rule."""
    now = timezone.now()
    Analysis.objects.update(seconds=60, called_at=now, called_for=["gpu_memory_increase"])
    live(long_run, RESTS * 11, first=40)
    time_passes(10)
    evaluate(str(long_run.run_id))
    assert asked(long_run) == ["hung"]
    assert Analysis.objects.get().called_for == ["gpu_memory_increase", "hung"]


def test_what_a_look_left_is_analysed_in_its_time_if_nothing_more_comes(long_run):
    live(long_run, WORKS, first=40)
    time_passes(10)
    evaluate(str(long_run.run_id))
    time_passes(15 * 60)
    assert Analysis.objects.get().due_at <= timezone.now()
    held = queue.claim(long_run.run_id)
    assert held is not None
    assert not held.is_look


def test_only_the_whole_run_ends_a_run_that_rests_within_its_long_steps(agent):
    """The last minutes alone look like a hang: the one step in them took a second."""
    agent.declare(allow_stop=True)
    lengths = dict.fromkeys(range(0, 60, 10), 600) | {61: 1}
    for number in range(74):
        each = minute(agent, number, works=False)
        if number in lengths:
            each.steps = [StepBlock(0, "train", [0], [lengths[number] * 1_000_000], [None], [8])]
        agent.put(each)
        if number == 60:
            evaluate(str(agent.run_id))
            before = Analysis.objects.get().finished_at
    time_passes(60)
    evaluate(str(agent.run_id))
    assert Analysis.objects.get().finished_at > before, "the look asked for a whole analysis"
    assert asked(agent) == []
    assert Run.objects.get().state == Run.RUNNING
