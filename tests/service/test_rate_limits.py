"""Rate limits: they are enforced, say when to retry, and never lose an upload."""

from __future__ import annotations

import logging
import secrets
import socket
from dataclasses import replace

import pytest
from django.test import Client, RequestFactory
from trimtab.wire import encode_segment

from tests.service.uploads import FakeAgent, together
from webapp.accounts.models import Token
from webapp.http import rate_limits, redis_outage
from webapp.http.addresses import client_address
from webapp.runs.models import Segment

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _forget(monkeypatch):
    """Forget all that was counted or remembered before."""
    rate_limits._limiter.cache_clear()
    monkeypatch.setattr(rate_limits, "guesses", rate_limits.Guesses())
    monkeypatch.setattr(rate_limits, "_outage", rate_limits._Outage())


@pytest.fixture
def network() -> str:
    """Return a network that no other test counts for."""
    return f"2001:db8:{secrets.token_hex(2)}:{secrets.token_hex(2)}:"


@pytest.fixture
def address(network) -> str:
    return f"{network}:1"


def _agent(token: str, address: str) -> FakeAgent:
    return FakeAgent(Client(REMOTE_ADDR=address), token)


def _is_refused(answer, about: str) -> None:  # type: ignore[no-untyped-def]
    assert answer.status_code == 429
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert 1 <= int(answer.headers["Retry-After"]) <= 60
    assert about in answer.json()["detail"]
    assert answer.json()["fix"]


def test_a_token_that_asks_too_often_is_told_when_to_come_back(workspace, address, settings):
    settings.TOKEN_REQUESTS_A_MINUTE = 3
    busy, calm = (Token.make(workspace, name, ["ingest"])[1] for name in ("busy", "calm"))
    agent = _agent(busy, address)
    assert [agent.put(agent.segment(seq)).status_code for seq in range(3)] == [200] * 3
    _is_refused(agent.put(agent.segment(3)), "token")
    agent.token = calm
    assert agent.put(agent.segment(3)).status_code == 200
    assert Segment.objects.count() == 4


def test_a_limit_counts_all_tokens_of_an_address_and_of_its_network(workspace, network, settings):
    settings.ADDRESS_REQUESTS_A_MINUTE = 2
    for host in (f"{network}:1", f"{network}:2"):
        agent = _agent(Token.make(workspace, host, ["ingest"])[1], host)
        assert agent.put(agent.segment(0)).status_code == 200
    _is_refused(agent.put(agent.segment(1)), "address")
    elsewhere = _agent(agent.token, f"2001:db8:0:{network.split(':')[2]}::1")
    assert elsewhere.put(elsewhere.segment(0)).status_code == 200


def test_an_address_can_not_guess_tokens_and_its_neighbours_still_upload(
    token, workspace, address, settings, django_assert_num_queries
):
    settings.WRONG_TOKENS_A_MINUTE = 5
    known = _agent(token, address)
    assert known.put(known.segment(0)).status_code == 200
    answers = [_agent(f"tt_{i}", address).declare() for i in range(5)]
    assert [answer.status_code for answer in answers] == [401] * 5
    _is_refused(_agent("tt_5", address).declare(), "invalid tokens")
    right = Token.make(workspace, "guessed", ["ingest"])[1]
    with django_assert_num_queries(0):
        _is_refused(_agent(right, address).declare(), "invalid tokens")
    assert known.put(known.segment(1)).status_code == 200
    assert _agent(right, "192.0.2.77").declare().status_code == 200


def test_the_limits_of_a_fleet_behind_one_address_are_never_met_by_default(settings):
    """1000 nodes send 6 segments a minute; a backlog drains five times as fast."""
    assert settings.TOKEN_REQUESTS_A_MINUTE >= 5 * 6 * 1000
    assert settings.ADDRESS_REQUESTS_A_MINUTE >= settings.TOKEN_REQUESTS_A_MINUTE


def test_those_that_come_at_once_are_counted_one_by_one(token, address, settings):
    settings.ADDRESS_REQUESTS_A_MINUTE = 3
    agent = _agent(token, address)
    asked = [agent.asked(seq, encode_segment(agent.segment(seq))) for seq in range(5)]
    answers = together([replace(each, address=address) for each in asked])
    assert [each.status_code for each in answers[:3]] == [200] * 3
    for each in answers[3:]:
        _is_refused(each, "Too many requests from this IP address")


def test_zero_is_no_limit(agent, settings):
    settings.TOKEN_REQUESTS_A_MINUTE = settings.ADDRESS_REQUESTS_A_MINUTE = 0
    settings.WRONG_TOKENS_A_MINUTE = 0
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert agent.put(agent.segment(0)).status_code == 200


def test_without_redis_every_upload_is_taken_and_it_is_said_once(agent, settings, caplog):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    settings.TOKEN_REQUESTS_A_MINUTE = 1
    with caplog.at_level(logging.WARNING, logger="webapp.http.rate_limits"):
        for seq in range(3):
            rate_limits._outage._over_at = 0.0
            assert agent.put(agent.segment(seq)).status_code == 200
    assert [record.name for record in caplog.records].count("webapp.http.rate_limits") == 1


def test_a_redis_that_hangs_is_asked_once_and_then_left_alone(agent, settings, monkeypatch):
    monkeypatch.setattr(rate_limits, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(redis_outage, "LEFT_ALONE_SECONDS", 3600)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings.REDIS_URL = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        assert agent.put(agent.segment(0)).status_code == 200
        asked = []
        monkeypatch.setattr(rate_limits, "_seconds_to_wait", lambda *of: asked.append(of))
        assert agent.put(agent.segment(1)).status_code == 200
        assert asked == []


@pytest.mark.parametrize(
    ("proxies", "forwarded", "found"),
    [
        (0, "203.0.113.9", "192.0.2.1"),
        (1, None, "192.0.2.1"),
        (1, "203.0.113.9", "203.0.113.9"),
        (1, "198.51.100.66, 203.0.113.9", "203.0.113.9"),
        (2, "198.51.100.66, 203.0.113.9, 10.0.0.1", "203.0.113.9"),
        (2, "203.0.113.9", "192.0.2.1"),
        (1, "nonsense", "192.0.2.1"),
        (1, "2001:DB8::0:1", "2001:db8::1"),
    ],
)
def test_an_address_is_believed_as_far_as_our_own_proxies_wrote_it(
    proxies, forwarded, found, settings
):
    settings.TRUSTED_PROXIES = proxies
    headers = {"X-Forwarded-For": forwarded} if forwarded else {}
    request = RequestFactory(REMOTE_ADDR="192.0.2.1").get("/", headers=headers)
    assert client_address(request) == found
