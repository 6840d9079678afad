"""The cause of a run's failure, its stages and its last lines, from the upload to API and page."""

from __future__ import annotations

import itertools
import re

import pytest
from django.urls import reverse
from trimtab.wire import Event

from tests.html import read_page
from tests.service.uploads import FakeAgent
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db
GIB = 2**30
FULL = {
    "signal": 9,
    "oom_kills": 1,
    "oom_scope": "container",
    "memory_bytes": 34_252_783_616,
    "memory_limit_bytes": 32 * GIB,
}


def answered(agent: FakeAgent) -> dict:
    headers = {"Authorization": f"Bearer {agent.token}"}
    return agent.client.get(f"/api/v1/runs/{agent.run_id}", headers=headers).json()


def ended(agent: FakeAgent, code: int | None, state: str = "failed", **facts: object) -> dict:
    agent.declare()
    data = {"state": state, "exit_code": code, "final_seq": 0, **facts}
    agent.put(agent.segment(0, events=[Event(10_000, "session_end", data)]))
    return answered(agent)


@pytest.mark.parametrize(
    ("code", "facts", "words"),
    [
        (3, {}, "Exit code 3"),
        (127, {"signal": None}, "Exit code 127: command not found"),
        (137, {"signal": None}, "Exit code 137: a command was ended by SIGKILL"),
        (139, {"signal": 11}, "Ended by SIGSEGV: invalid memory access"),
        (137, FULL, "Killed by the kernel for memory: 31.9 of 32 GiB"),
        (137, FULL | {"signal": None}, "Killed by the kernel for memory: 31.9 of 32 GiB"),
        (
            1,
            FULL | {"signal": None, "oom_process": "pt_data_worker"},
            "The kernel killed process pt_data_worker for memory: 31.9 of 32 GiB, then exit code 1",
        ),
        (
            137,
            FULL | {"oom_scope": "machine"},
            "Killed by the kernel, probably for memory: 31.9 of 32 GiB",
        ),
        (1, FULL | {"oom_scope": "machine", "signal": None}, "Exit code 1"),
        (137, {"signal": 9, "oom_kills": 0}, "Ended by SIGKILL: sent by a person"),
        (137, FULL | {"memory_bytes": None}, "Killed by the kernel for memory: limit 32 GiB"),
        (None, {}, "The exit code is not known"),
    ],
)  # fmt: skip
def test_a_failure_is_told_in_words(agent, code, facts, words):
    failure = ended(agent, code, **facts)["failure"]
    assert failure["words"].startswith(words)
    assert failure["exit_code"] == code


@pytest.mark.parametrize("state", ["finished", "stopped"])
def test_only_a_failed_run_has_a_failure(agent, state):
    assert ended(agent, 0, state)["failure"] is None


@pytest.mark.parametrize(
    "wrong",
    [{"signal": "9"}, {"signal": 10_000}, {"oom_kills": -1}, {"oom_kills": True},
     {"memory_bytes": 1e30}, {"oom_scope": "moon"}, {"oom_process": 3}],
    ids=str,
)  # fmt: skip
def test_facts_that_make_no_sense_are_left_out(agent, wrong):
    assert ended(agent, 3, **wrong)["failure"]["words"] == "Exit code 3"


def test_of_several_nodes_the_first_failure_is_the_cause(agent, token):
    other = FakeAgent(agent.client, token, run_id=agent.run_id, machine_id="machine-2")
    agent.declare()
    other.declare()
    for each, at, code in ((agent, 9_000, 1), (other, 4_000, 77)):
        data = {"state": "failed", "exit_code": code, "final_seq": 0}
        each.put(each.segment(0, events=[Event(at, "session_end", data)]))
    assert answered(agent)["failure"]["words"] == "Exit code 77"


LINES = [
    "Traceback (most recent call last):",
    "<script>alert(1)</script>",
    "\x1b[31mRuntimeError\x07",
]


def test_the_last_lines_are_shown_in_order_without_control_characters(agent, django_user_model):
    agent.declare()
    told = [Event(5, "stderr", {"number": n, "text": text}) for n, text in enumerate(LINES)]
    data = {"state": "failed", "exit_code": 1, "final_seq": 0}
    agent.put(agent.segment(0, events=[*told[::-1], Event(10, "session_end", data)]))
    assert answered(agent)["stderr"] == [*LINES[:2], "RuntimeError"]


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory.", 1, "Out of memory, exit code 1"),
        ("slurmstepd: CANCELLED DUE TO TIME LIMIT", 1, "Timeout, exit code 1"),
        ("KeyError: 'loss'", 1, "Exit code 1"),
        ("loss is nan", 124, "Timeout, exit code 124"),
        ("TimeoutError", 137, "Timeout, exit code 137: a command was ended by SIGKILL"),
    ],
)
def test_a_cause_that_standard_error_names_is_told_first(agent, line, code, words):
    agent.declare()
    data = {"state": "failed", "exit_code": code, "final_seq": 0}
    told = Event(5, "stderr", {"number": 0, "text": line})
    agent.put(agent.segment(0, events=[told, Event(10, "session_end", data)]))
    assert answered(agent)["failure"]["words"] == words


def test_too_many_and_too_long_lines_are_cut(agent):
    agent.declare()
    told = [Event(5, "stderr", {"number": n, "text": f"{n} " + "é" * 1_990}) for n in range(90)]
    agent.put(agent.segment(0, events=told))
    lines = answered(agent)["stderr"]
    assert lines[-1].startswith("89 ")
    assert len(lines) <= 50
    assert sum(map(len, lines)) <= 64 * 1024


STAGES = (("prepare.py", 1.0, 60.0), ("train.py", 61.0, 200.0), ("evaluate.py", 261.0, None))


def stage_segments(agent: FakeAgent) -> list:
    """Begins and ends as the agent says them: a second or two later."""
    events = []
    for number, (name, began, seconds) in enumerate(STAGES, 1):
        of = {"number": number, "name": name}
        events.append((began + 1, "stage_begin", of | {"seconds": 1.0}))
        if seconds is not None:
            data = of | {"seconds": seconds, "ago_seconds": 2.0}
            events.append((began + seconds + 2, "stage_end", data))
    by_segment: dict[int, list[Event]] = {}
    for at, kind, data in events:
        seq, ms = divmod(round(at * 1000), 10_000)
        by_segment.setdefault(seq, []).append(Event(ms, kind, data))
    return [agent.segment(seq, events=found) for seq, found in by_segment.items()]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_stages_have_their_times_in_whatever_order_they_arrive(agent, order):
    agent.declare()
    segments = stage_segments(agent)
    for place in order:
        assert agent.put(segments[place]).status_code == 200
    found = [(s["name"], s["start_seconds"], s["seconds"]) for s in answered(agent)["stages"]]
    assert found == list(STAGES)


def test_a_single_command_is_no_stage(agent):
    agent.declare()
    agent.put(stage_segments(agent)[0])
    assert answered(agent)["stages"] == []


def test_the_page_shows_them_to_members_and_to_nobody_else(agent, workspace, client):
    from tests.web import factories

    ended(agent, 137, **FULL)
    told = [Event(5, "stderr", {"number": n, "text": text}) for n, text in enumerate(LINES)]
    agent.put(agent.segment(1, events=told))
    for segment in stage_segments(agent):
        segment.seq += 10
        segment.start_ms += 100_000
        agent.put(segment)
    address = reverse("dashboard:run", args=[agent.run_id])
    client.force_login(factories.member(workspace, email="member@example.org"))
    page = read_page(client.get(address))
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    for shown in ("for memory: 31.9 of 32 GiB", "Traceback (most", "prepare.py", "evaluate.py"):
        assert shown in text
    assert "<script>alert" not in page
    failure = page.partition('id="failure"')[2].partition("</pre>")[0]
    for shown in ("failed: exit code 137, signal SIGKILL.", "Traceback (most"):
        assert shown in failure
    stranger = factories.workspace("Other")
    client.force_login(factories.member(stranger, email="stranger@example.org"))
    assert client.get(address).status_code == 404
    assert Run.objects.get(pk=agent.run_id).state == Run.FAILED
