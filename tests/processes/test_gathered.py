"""A segment is answered the same, whether or not the web server gathers it: a real service."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from trimtab.wire import encode_segment

from tests.running_service import Service
from tests.service.uploads import FakeAgent

pytestmark = pytest.mark.processes
OF_THE_MOMENT = {"date", "content-length"}
GATHERED, ALONE = "", "?"
"""The texts that are added to the target: with a query it takes the way of any request."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    started = Service(Path(tmp_path_factory.mktemp("gathered")) / "data").start()
    yield started
    started.stop()


@pytest.fixture
def agent(service: Service) -> FakeAgent:
    return FakeAgent(Client(), service.token)


def _asked(
    service: Service, agent: FakeAgent, seq: int, way: str, body: bytes, **headers: str
) -> tuple[int, dict[str, str], dict[str, Any]]:
    """Return the status, the headers and what is said, without what differs from moment to
    moment.
    """
    asked = agent.asked(seq, body, **headers)
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=20)
    with closing(connection):
        connection.request("PUT", asked.target + way, body, dict(asked.headers))
        answer = connection.getresponse()
        said = json.loads(answer.read())
    named = {name.lower(): value for name, value in answer.getheaders()}
    kept = {name: value for name, value in named.items() if name not in OF_THE_MOMENT}
    return answer.status, kept, {k: v for k, v in said.items() if k != "server_time_ns"}


def test_what_is_taken_is_answered_the_same(service, agent):
    told = {}
    for way in (GATHERED, ALONE):
        own = replace(agent, run_id=FakeAgent(Client(), "").run_id)
        own.session_id = FakeAgent(Client(), "").session_id
        told[way] = [
            _asked(service, own, seq, way, encode_segment(own.segment(seq, last=seq == 3)))
            for seq in (0, 1, 1, 2, 3)  # New, known, a replay, known, the end
        ]
    assert told[GATHERED] == told[ALONE]
    assert [(status, said["duplicate"]) for status, _, said in told[GATHERED]] == [
        (200, seq == 2) for seq in range(5)
    ]


def test_what_is_refused_is_answered_the_same(service, agent):
    good = encode_segment(agent.segment(0))
    assert _asked(service, agent, 0, GATHERED, good)[0] == 200
    other = encode_segment(agent.segment(0, duration_ms=9_000))
    refused: list[tuple[int, int, bytes, dict[str, str]]] = [
        (409, 0, other, {}),
        (400, 1, good, {}),
        (400, 0, b"nonsense", {}),
        (401, 0, good, {"Authorization": "Bearer wrong"}),
        (401, 0, good, {"Authorization": ""}),
        (415, 0, good, {"Content-Encoding": "br"}),
        (415, 0, good, {"Content-Type": "text/html"}),
        (400, 0, good, {"Host": "elsewhere.example"}),
    ]
    for status, seq, body, headers in refused:
        one, both = (_asked(service, agent, seq, way, body, **headers) for way in (GATHERED, ALONE))
        assert one == both
        assert one[0] == status, one
