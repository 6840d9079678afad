"""The requests of a service to a running agent: the interval, a profile, the end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import psutil
import pytest
from trimtab.directives import Actions, Directives

from tests.agent.conftest import trimtab_command
from tests.agent.service import Reply

STOP = {"id": "d1", "kind": "stop", "rule": "hung_job", "grace_seconds": 1}


def _asking(*directives: dict):
    """Make the service say the same with every answer, until it is done and after."""
    return lambda request: Reply(document={"directives": list(directives)})


def _running(environment: dict[str, str], *options: str, script: str) -> subprocess.Popen[str]:
    """Start a run. Its first segment, at which it hears the directives, leaves after ten
    seconds.
    """
    words = ("run", *options, "--", "bash", "-c", script)
    return subprocess.Popen(
        trimtab_command(*words),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _answers(service) -> dict[str, tuple[str, str]]:
    return {
        e.data["id"]: (e.data["outcome"], e.data["reason"]) for e in service.events("directive")
    }


def test_a_rule_stops_a_run_that_allows_it_and_the_run_says_which(online, service):
    service.answer = _asking(STOP)
    agent = _running(online, "--allow-stop", script="exec sleep 60")
    assert agent.wait(30) == 128 + signal.SIGTERM
    ended = service.events("session_end")[0].data
    assert (ended["state"], ended["rule"], ended["exit_code"]) == ("stopped", "hung_job", 143)
    assert _answers(service) == {"d1": ("done", "")}


@pytest.mark.long
def test_what_does_not_heed_the_request_is_killed_with_all_it_started(online, service, tmp_path):
    """A process that made a group of its own is killed, too, such as a launcher's worker."""
    service.answer = _asking(STOP)
    marks = [tmp_path / "worker", tmp_path / "child"]
    stubborn = f"trap '' TERM; echo $$ > {marks[0]}; while :; do sleep 0.1; done"
    script = (
        f'setsid bash -c "{stubborn.replace("$", chr(92) + "$")}" & trap "" TERM; '
        f"(trap '' TERM; sleep 100) & echo $! > {marks[1]}; while :; do sleep 0.1; done"
    )
    agent = _running(online, "--allow-stop", script=script)
    assert agent.wait(40) == 128 + signal.SIGKILL
    time.sleep(0.3)
    assert [_lives(int(mark.read_text())) for mark in marks] == [False, False]
    assert service.events("session_end")[0].data["state"] == "stopped"


def _lives(pid: int) -> bool:
    """Return whether the process lives. A zombie whose parent is gone waits for a container's init,
    which may never look.
    """
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.long
def test_without_permission_nothing_is_stopped(online, service):
    service.answer = _asking(STOP)
    agent = _running(online, script="sleep 12; echo trained")
    output, _ = agent.communicate(timeout=40)
    assert (output, agent.returncode) == ("trained\n", 0)
    assert service.events("session_end")[0].data["state"] == "finished"
    outcome, reason = _answers(service)["d1"]
    assert outcome == "refused"
    assert "--allow-stop" in reason


@pytest.mark.long
def test_the_interval_changes_under_way(online, service):
    service.answer = _asking({"id": "d2", "kind": "interval", "seconds": 0.1})
    agent = _running(online, "--interval", "2", script="sleep 13")
    assert agent.wait(40) == 0
    first, last = service.segments[0], service.segments[-1]
    assert len(first.blocks[0].times_ms) <= 5
    assert len(last.blocks[0].times_ms) >= 8
    assert last.resolution_ms == 100


NONSENSE = [
    None,
    "stop",
    [None, 7, {"kind": "stop"}, {"id": 3, "kind": "stop"}],
]


@pytest.mark.parametrize("said", NONSENSE, ids=str)
def test_nonsense_is_left_alone(said):
    told: list = []
    Directives(Actions(), lambda kind, data: told.append(data)).handle(said)
    assert told == []


REFUSED = [
    {"kind": "reboot"},
    {"kind": "interval", "seconds": 0.001},
    {"kind": "interval", "seconds": "fast"},
    {"kind": "interval", "seconds": float("nan")},
    {"kind": "profile", "steps": 10_000},
    {"kind": "profile", "rank": True},
    {"kind": "profile", "bytes": 10**12},
    {"kind": "stop"},
    {"kind": "stop", "rule": "r", "grace_seconds": -1},
]


@pytest.mark.parametrize("directive", REFUSED, ids=json.dumps)
def test_what_is_out_of_bounds_is_refused_with_the_reason_and_done_to_nothing(directive):
    done: list = []
    actions = Actions(done.append, done.append, lambda rule, grace: done.append(rule))
    told: list = []
    directives = Directives(actions, lambda kind, data: told.append((kind, data)))
    for _ in range(3):
        directives.handle([directive | {"id": "a"}])
    ((kind, data),) = told
    assert (kind, data["outcome"], done) == ("directive", "refused", [])
    assert data["reason"]


def test_directives_in_responses_to_the_backlog_are_ignored(online, service, environment, trimtab):
    """Words to an earlier run must not stop this one."""
    trimtab(environment, "run", "--", "true")
    service.answer = _asking(STOP)
    done = trimtab(online, "sync")
    assert done.returncode == 0


def test_profile_steps_are_refused_by_name_when_they_are_none(trimtab, online):
    for steps in ("50", "x:y", "55:50", "0:5", "1:1000"):
        done = trimtab(online, "run", "--profile-steps", steps, "--", sys.executable, "-V")
        assert done.returncode == 2
        assert "--profile-steps" in done.stderr
