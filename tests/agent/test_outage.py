"""Agents that are killed, several on one spool, and a service that is away while they run."""

from __future__ import annotations

import random
import subprocess
import sys
import time

import pytest

from tests.agent.conftest import trimtab_command
from tests.agent.service import Reply

pytestmark = pytest.mark.long

TRAINING = """
import time, trimtab
until = time.monotonic() + {seconds}
while time.monotonic() < until:
    time.sleep(0.05)
    trimtab.step(samples=1)
print(trimtab.run().id)
"""


def _start(environment: dict[str, str], seconds: float) -> subprocess.Popen[str]:
    words = ("run", "--", sys.executable, "-c", TRAINING.format(seconds=seconds))
    return subprocess.Popen(
        trimtab_command(*words),
        env=environment,
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def test_agents_killed_at_random_moments_lose_at_most_the_unsealed_ten_seconds(
    trimtab, online, service
):
    """Six share a spool; the service is mad. What they sealed arrives once, and unchanged."""
    chance = random.Random(11)
    service.answer = lambda request: Reply(status=chance.choice([200, 500, 429, 401, 503]))
    lives = {}
    agents = [_start(online, 30) for _ in range(6)]
    began = time.monotonic()
    for agent in agents:
        time.sleep(max(0.0, chance.uniform(4, 26) - (time.monotonic() - began)))
        agent.kill()
        agent.wait()
        lives[agent.pid] = time.monotonic() - began
    outputs = [agent.communicate(timeout=40)[0] for agent in agents]
    assert all(len(output.strip()) == 36 for output in outputs), "the trainings ended as ever"
    service.answer = lambda request: Reply()
    assert trimtab(online, "sync").returncode == 0
    runs: dict[str, list] = {}
    for segment in service.segments:
        runs.setdefault(str(segment.run_id), []).append(segment)
    for agent, output in zip(agents, outputs, strict=True):
        segments = runs.get(output.strip(), [])
        assert [s.seq for s in segments] == list(range(len(segments)))
        measured_seconds = sum(s.duration_ms for s in segments) / 1000
        assert measured_seconds > lives[agent.pid] - 13
    by_key: dict[tuple, set[bytes]] = {}
    for request in service.requests:
        if "/segments/" in request.path:
            by_key.setdefault(request.path, set()).add(request.body)
    assert all(len(bodies) == 1 for bodies in by_key.values()), "a number is one body for ever"


def test_an_outage_of_the_whole_run_costs_nothing(trimtab, online, service):
    service.answer = lambda request: Reply(status=503, headers={"Retry-After": "1"})
    agent = _start(online, 21)
    output, _ = agent.communicate(timeout=60)
    assert agent.returncode == 0
    service.answer = lambda request: Reply()
    trimtab(online, "sync")
    steps = sum(len(b.duration_us) for s in service.segments for b in s.steps)
    untimed = len(service.events("step_untimed"))
    ended = service.events("session_end")[0].data["final_seq"]
    assert ended == 2
    assert 21 / 0.05 * 0.7 < steps + untimed <= 21 / 0.05
    assert output.strip() == str(service.segments[0].run_id)
