"""What is left of many requests is done at once: the web server, with an application that postpones
what it is sent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import OperationalError
from django.http import HttpResponse

from tests.running_service import wait_until
from tests.service.test_front import PATIENCE_SECONDS, Running, running
from webapp.http import postponed
from webapp.http.front import gathering
from webapp.http.postponed import Postponed


class Writing:
    """Writes once it may, and remembers what it wrote at once."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()
        self.batches: list[list[str]] = []

    def __call__(self, parts: Sequence[str]) -> list[Any]:
        self.batches.append(list(parts))
        assert self.may_go_on.wait(PATIENCE_SECONDS)
        if "away" in parts:
            raise OperationalError("on purpose")
        return [ValueError(part) if part == "broken" else part.upper() for part in parts]


def _answer(result: Any) -> HttpResponse:
    if isinstance(result, Exception):
        raise result
    return HttpResponse(f"{result}!", status=201, headers={"X-Both": "of the part"})


@pytest.fixture
def writing() -> Writing:
    return Writing()


@pytest.fixture
def front(writing: Writing, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """Postpones what it is sent: all of the query is the part."""
    monkeypatch.setattr(gathering, "WINDOW_SECONDS", 0.0)
    with running(threads=3) as started:
        plain = started.application

        def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
            if environ["PATH_INFO"] != "/postponed":
                return plain(environ, start_response)
            environ[postponed._KEY] = Postponed(environ["QUERY_STRING"], writing, _answer)
            fields = [("X-Both", "of middleware"), ("X-Frame", "of middleware")]
            start_response("200 OK", [*fields, ("Content-Length", "0")])
            return [b""]

        started.front._application = application
        yield started


def _send(front: Running, part: str) -> tuple[int, bytes]:
    status, said = front.ask(f"/postponed?{part}", method="PUT", body=b"x")
    return status, said["content"]


def test_what_comes_while_others_are_written_is_written_at_once(front, writing):
    """More than there are threads; pages are answered meanwhile, and each gets its own answer."""
    names = [f"part{number}" for number in range(20)]
    with ThreadPoolExecutor(21) as clients:
        first = clients.submit(_send, front, "first")
        wait_until(lambda: writing.batches, PATIENCE_SECONDS, "the first is written")
        others = [clients.submit(_send, front, name) for name in names]
        wait_until(lambda: len(front.front._gathering._waiting) == 20, PATIENCE_SECONDS, "all wait")
        assert front.ask("/")[0] == 200
        writing.may_go_on.set()
        assert first.result() == (201, b"FIRST!")
        assert [each.result() for each in others] == [
            (201, f"{n.upper()}!".encode()) for n in names
        ]
    assert [sorted(batch) for batch in writing.batches] == [["first"], sorted(names)]


def test_one_that_comes_alone_waits_for_nobody(front, writing, monkeypatch):
    """And the next one at most until the moment is over."""
    monkeypatch.setattr(gathering, "WINDOW_SECONDS", 3600.0)
    writing.may_go_on.set()
    assert _send(front, "first") == (201, b"FIRST!")
    with ThreadPoolExecutor(1) as clients:
        next_one = clients.submit(_send, front, "next")
        with pytest.raises(TimeoutError):
            next_one.result(0.3)
        front.begin_to_end()  # The service ends, and takes it along


def test_what_comes_within_a_moment_of_another_is_written_together(front, writing, monkeypatch):
    monkeypatch.setattr(gathering, "WINDOW_SECONDS", 2.0)
    writing.may_go_on.set()
    assert _send(front, "first")[0] == 201
    with ThreadPoolExecutor(2) as clients:
        others = [clients.submit(_send, front, "a")]
        wait_until(lambda: front.front._gathering._waiting, PATIENCE_SECONDS, "it waits")
        others.append(clients.submit(_send, front, "b"))
        assert [each.result()[0] for each in others] == [201, 201]
    assert writing.batches == [["first"], ["a", "b"]]


def test_whatever_goes_wrong_in_between_the_next_ones_are_written(front, writing, monkeypatch):
    """A database that can't be reached when its connection is looked at, or too few results."""
    writing.may_go_on.set()

    def away() -> None:
        raise OperationalError("on purpose")

    with monkeypatch.context() as patched:
        patched.setattr(gathering, "close_old_connections", away)
        assert _send(front, "unlucky")[0] == 503
    monkeypatch.setattr(Writing, "__call__", lambda *_: [])
    assert _send(front, "forgotten")[0] == 500
    monkeypatch.undo()
    assert _send(front, "later") == (201, b"LATER!")


@pytest.mark.parametrize(("bad", "status"), [("broken", 500), ("away", 503)])
def test_trouble_is_answered_and_the_next_ones_are_written(front, writing, bad, status):
    """A part that fails fails no other; if none can be written, each is told."""
    with ThreadPoolExecutor(3) as clients:
        first = clients.submit(_send, front, "first")
        wait_until(lambda: writing.batches, PATIENCE_SECONDS, "the first is written")
        others = [clients.submit(_send, front, name) for name in (bad, "good")]
        wait_until(lambda: len(front.front._gathering._waiting) == 2, PATIENCE_SECONDS, "both wait")
        writing.may_go_on.set()
        assert first.result()[0] == 201
        found = [each.result()[0] for each in others]
    assert found == [status, 503 if bad == "away" else 201]
    assert _send(front, "later") == (201, b"LATER!")


def test_headers_of_middleware_stay(front, writing):
    writing.may_go_on.set()
    with front.connect() as client:
        client.sendall(b"PUT /postponed?x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
        answer = client.recv(65536).decode("latin-1")
    head, _, content = answer.partition("\r\n\r\n")
    lines = {line.lower() for line in head.split("\r\n")}
    assert {"x-frame: of middleware", "x-both: of the part", "content-length: 2"} <= lines
    assert not lines & {"x-both: of middleware", "content-length: 0"}
    assert content == "X!"
