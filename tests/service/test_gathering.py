"""Many requests are answered at once: the web server, with an operation that remembers what it was
asked at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import OperationalError
from django.http import HttpResponse
from django.test import override_settings

from tests.running_service import wait_until
from tests.service.test_web_server import PATIENCE_SECONDS, Running, running
from webapp.http.gathered import AnswerOrWork, WholeRequest, is_own_host, middleware_headers
from webapp.web_server import gathering
from webapp.web_server.application import PIECE_BYTES


class Shouting:
    """Says what it is told once it may; `part=slow` in a thread of its own."""

    def __init__(self) -> None:
        self.may_go_on, self.slow_may_go_on = threading.Event(), threading.Event()
        self.batches: list[list[str]] = []

    def takes(self, method: str, target: str) -> bool:
        return method == "PUT" and target.startswith("/shout?")

    def answers(self, asked: Sequence[WholeRequest]) -> list[AnswerOrWork]:
        parts = [parse_qs(urlsplit(each.target).query)["part"][0] for each in asked]
        self.batches.append(parts)
        assert self.may_go_on.wait(PATIENCE_SECONDS)
        if "away" in parts:
            raise OperationalError("on purpose")
        if "forgotten" in parts:
            return []
        return [self._answer(part, each) for part, each in zip(parts, asked, strict=True)]

    def _answer(self, part: str, asked: WholeRequest) -> AnswerOrWork:
        said = HttpResponse(f"{part.upper()}! {asked.body.decode()}", status=201)
        if not part.startswith("slow"):
            return said

        def later() -> HttpResponse:
            assert self.slow_may_go_on.wait(PATIENCE_SECONDS)
            if part == "slow-broken":
                raise ValueError("on purpose")
            return said

        return later


@pytest.fixture
def shouting() -> Shouting:
    return Shouting()


@pytest.fixture
def front(shouting: Shouting, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr(gathering, "WINDOW_SECONDS", 0.0)
    with running(threads=3, gathered=shouting) as started:
        yield started


def _send(front: Running, part: str, body: bytes = b"x") -> tuple[int, bytes]:
    status, said = front.ask(f"/shout?part={part}", method="PUT", body=body)
    return status, said.get("content", b"")


def _waiting(front: Running) -> int:
    return len(front.answering.gathering._waiting)


def _answer_at_once(front: Running, shouting: Shouting, count: int) -> None:
    """Send one, and so many that come while it is answered."""
    known = len(shouting.batches)
    shouting.may_go_on.clear()
    with ThreadPoolExecutor(1 + count) as clients:
        sent = [clients.submit(_send, front, "first")]
        wait_until(lambda: len(shouting.batches) > known, PATIENCE_SECONDS, "one is answered")
        sent += [clients.submit(_send, front, "part") for _ in range(count)]
        wait_until(lambda: _waiting(front) == count, PATIENCE_SECONDS, "all wait")
        shouting.may_go_on.set()
        assert [each.result()[0] for each in sent] == [201] * (1 + count)


def test_what_comes_while_others_are_answered_is_answered_at_once(front, shouting):
    """More than there are threads; pages are answered meanwhile, and each gets its own answer."""
    names = [f"part{number}" for number in range(20)]
    with ThreadPoolExecutor(21) as clients:
        first = clients.submit(_send, front, "first")
        wait_until(lambda: shouting.batches, PATIENCE_SECONDS, "the first is answered")
        others = [clients.submit(_send, front, name, name.encode()) for name in names]
        wait_until(lambda: _waiting(front) == 20, PATIENCE_SECONDS, "all wait")
        assert front.ask("/")[0] == 200
        shouting.may_go_on.set()
        assert first.result() == (201, b"FIRST! x")
        assert [each.result() for each in others] == [
            (201, f"{name.upper()}! {name}".encode()) for name in names
        ]
    assert [sorted(batch) for batch in shouting.batches] == [["first"], sorted(names)]


def test_of_very_many_the_first_neednt_wait_for_the_last(front, shouting, monkeypatch):
    monkeypatch.setattr(gathering, "MOST_TOGETHER", 3)
    _answer_at_once(front, shouting, 7)
    assert [len(batch) for batch in shouting.batches] == [1, 3, 3, 1]


def test_what_takes_longer_holds_up_no_other(front, shouting):
    shouting.may_go_on.set()
    with ThreadPoolExecutor(2) as clients:
        slow = [clients.submit(_send, front, part) for part in ("slow", "slow-broken")]
        wait_until(lambda: sum(map(len, shouting.batches)) == 2, PATIENCE_SECONDS, "they came")
        assert _send(front, "next") == (201, b"NEXT! x")
        assert not any(each.done() for each in slow)
        shouting.slow_may_go_on.set()
        assert [each.result()[0] for each in slow] == [201, 500]


def test_one_that_comes_alone_waits_for_nobody(front, shouting, monkeypatch):
    """The next one waits at most until the moment is over."""
    monkeypatch.setattr(gathering, "WINDOW_SECONDS", 3600.0)
    shouting.may_go_on.set()
    assert _send(front, "first") == (201, b"FIRST! x")
    with ThreadPoolExecutor(1) as clients:
        next_one = clients.submit(_send, front, "next")
        with pytest.raises(TimeoutError):
            next_one.result(0.3)
        front.begin_to_end()  # The service ends, and takes it along


def test_what_comes_within_a_moment_of_another_is_answered_together(front, shouting, monkeypatch):
    monkeypatch.setattr(gathering, "WINDOW_SECONDS", 2.0)
    shouting.may_go_on.set()
    assert _send(front, "first")[0] == 201
    with ThreadPoolExecutor(2) as clients:
        others = [clients.submit(_send, front, "a")]
        wait_until(lambda: _waiting(front), PATIENCE_SECONDS, "it waits")
        others.append(clients.submit(_send, front, "b"))
        assert [each.result()[0] for each in others] == [201, 201]
    assert shouting.batches == [["first"], ["a", "b"]]


def test_after_many_at_once_the_moment_is_longer(front, shouting, monkeypatch):
    """Few don't make it longer, also where there were many before them."""
    monkeypatch.setattr(gathering, "BUSY", 3)
    _answer_at_once(front, shouting, 3)
    _answer_at_once(front, shouting, 2)
    monkeypatch.setattr(gathering, "BUSY_WINDOW_SECONDS", 3600.0)
    _answer_at_once(front, shouting, 3)
    assert [len(batch) for batch in shouting.batches] == [1, 3, 1, 2, 1, 3]
    with ThreadPoolExecutor(1) as clients:
        next_one = clients.submit(_send, front, "next")
        with pytest.raises(TimeoutError):
            next_one.result(0.3)
        front.begin_to_end()


def test_whatever_goes_wrong_in_between_the_next_ones_are_answered(front, shouting, monkeypatch):
    """A database that can't be reached, or too few answers."""
    shouting.may_go_on.set()

    def away() -> None:
        raise OperationalError("on purpose")

    with monkeypatch.context() as patched:
        patched.setattr(gathering, "close_old_connections", away)
        assert _send(front, "unlucky")[0] == 503
    assert _send(front, "away")[0] == 503
    assert _send(front, "forgotten")[0] == 500
    assert _send(front, "later") == (201, b"LATER! x")


def test_what_takes_longer_has_its_threads_old_connections_closed(front, shouting, monkeypatch):
    """A thread that only does such work would keep one that the database has closed."""
    closed: list[str] = []
    shouting.may_go_on.set()
    shouting.slow_may_go_on.set()
    monkeypatch.setattr(
        gathering, "close_old_connections", lambda: closed.append(threading.current_thread().name)
    )
    assert _send(front, "slow")[0] == 201
    gathered, web = closed
    assert gathered.startswith("gathered")
    assert web.startswith("web")


@pytest.mark.parametrize(
    ("target", "headers", "length"),
    [
        ("/other?part=a", {}, 1),
        ("/shout?part=a", {}, PIECE_BYTES + 1),
        ("/shout?part=a", {"Host": "elsewhere.example"}, 1),
    ],
    ids=["another operation", "a large body", "another host"],
)
def test_what_is_unusual_takes_the_way_of_any_request(front, shouting, target, headers, length):
    """Django says what is wrong with it."""
    status, said = front.ask(target, method="PUT", body=b"x" * length, headers=headers)
    assert (status, said["length"]) == (200, length)
    assert shouting.batches == []


def test_a_body_in_chunks_takes_the_way_of_any_request(front, shouting):
    with front.connect() as client:
        head = (
            b"PUT /shout?part=a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        client.sendall(head + b"1\r\nx\r\n0\r\n\r\n")
        assert client.recv(65_536).startswith(b"HTTP/1.1 200")
    assert shouting.batches == []


def test_the_middleware_headers_are_there(front, shouting):
    shouting.may_go_on.set()
    with front.connect() as client:
        client.sendall(
            b"PUT /shout?part=x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx"
        )
        answer = client.recv(65_536).decode("latin-1")
    head, _, content = answer.partition("\r\n\r\n")
    lines = {line.lower() for line in head.split("\r\n")}
    assert {"x-content-type-options: nosniff", "content-length: 4"} <= lines
    assert content == "X! x"


def test_a_proxy_that_was_reached_by_https_is_told_to_stay_with_it():
    https = {"SECURE_PROXY_SSL_HEADER": ("HTTP_X_FORWARDED_PROTO", "https")}
    middleware_headers.cache_clear()
    try:
        with override_settings(SECURE_HSTS_SECONDS=60, **https):
            names = {name for name, _ in middleware_headers("https")}
            assert "Strict-Transport-Security" in names
            assert "Strict-Transport-Security" not in dict(middleware_headers("http"))
    finally:
        middleware_headers.cache_clear()


def test_hosts_are_those_that_django_knows():
    assert is_own_host("localhost:8000")
    assert is_own_host("127.0.0.1")
    assert not is_own_host("")
    assert not is_own_host("localhost:8000:1")
    assert not is_own_host("elsewhere.example")
