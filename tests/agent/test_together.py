"""The agent sends a backlog in few requests, whatever the service makes of them."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trimtab import together
from trimtab.identity import ServiceAccess
from trimtab.spool import Spool
from trimtab.uploader import Courier
from trimtab.wire import (
    LENGTH_BYTES,
    LIMITS,
    Segment,
    SessionClock,
    WireError,
    encode_segment,
    join_bodies,
    split_bodies,
)

from tests.agent.conftest import TOKEN
from tests.agent.lying_proxy import LIES, LyingProxy
from tests.agent.service import Reply, Service

RUN = uuid4()


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool.sqlite3")


@pytest.fixture
def new(service: Service) -> Service:
    service.takes_several = True
    return service


def _session(spool: Spool, count: int) -> str:
    session = str(uuid4())
    spool.add_session(session, str(RUN), "")
    _add(spool, session, range(count))
    return session


def _add(spool: Spool, session: str, numbers: range) -> None:
    clock = SessionClock(UUID(session), "boot", 10**18, 0)
    for seq in numbers:
        spool.add(session, seq, encode_segment(_segment(clock, seq)))


def _segment(clock: SessionClock, seq: int) -> Segment:
    return Segment(RUN, "job", 0, "machine", clock, seq, seq * 10_000, 10_000, 500)


def _courier(spool: Spool, url: str) -> Courier:
    return Courier(spool, ServiceAccess(url, TOKEN), lambda problem: None)


def _drain(courier: Courier, session: str, seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while (sent := courier.send_one([session])) is not None:
        assert time.monotonic() < until, courier.problem
        if not sent:
            courier.not_before = 0.0


def _numbers(service: Service) -> list[int]:
    return [int(request.path.rsplit("/", 1)[1]) for request in service.requests]


def test_a_backlog_goes_in_few_requests_the_newest_first(spool, new):
    session = _session(spool, 2 * together.MOST_SEGMENTS)
    _drain(_courier(spool, new.url), session)
    assert _numbers(new) == list(reversed(range(2 * together.MOST_SEGMENTS)))
    assert len(new.posts) == 2
    assert spool.contents().taken == 2 * together.MOST_SEGMENTS


def test_what_is_sealed_meanwhile_goes_before_the_rest_of_the_backlog(spool, new):
    session = _session(spool, 40)
    courier = _courier(spool, new.url)
    assert courier.send_one([session])
    _add(spool, session, range(40, 41))
    _drain(courier, session)
    assert _numbers(new)[together.MOST_SEGMENTS] == 40


def test_a_single_segment_goes_by_itself(spool, new):
    session = _session(spool, 1)
    _drain(_courier(spool, new.url), session)
    assert (new.posts, _numbers(new)) == ([], [0])


def test_an_older_service_is_asked_once(spool, service):
    """An older service answers 404 in the form of its time, and takes one segment a request."""
    session = _session(spool, 5)
    courier = _courier(spool, service.url)
    _drain(courier, session)
    assert _numbers(service) == [4, 3, 2, 1, 0]
    _add(spool, session, range(5, 9))
    _drain(courier, session)
    assert len(service.posts) == 1
    assert spool.contents().taken == 9


@pytest.mark.parametrize(
    ("reply", "dead"),
    [
        (Reply(400, problem="invalid-upload"), 2),
        (Reply(409, problem="segment-conflict"), 2),
        (Reply(500), 0),
        (Reply(404), 0),
    ],
)
def test_those_that_are_not_accepted_fail_no_others_and_are_then_sent_one_by_one(
    spool, new, reply, dead
):
    session = _session(spool, 6)
    new.answer = lambda request: reply if request.path.endswith(("/3", "/4")) else Reply()
    courier = _courier(spool, new.url)
    courier.send_one([session])
    assert spool.contents().taken == 4
    for _ in range(2):
        courier.send_one([session])
    held = spool.contents()
    assert (held.dead, held.waiting) == (dead, 2 - dead)
    assert [_numbers(new)[-2] in (3, 4), _numbers(new)[-1] in (3, 4)] == [True, True]
    assert (len(new.posts), len(new.requests)) == (1, 6 + 2)


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_service_is_left_alone_and_then_gets_the_rest_together(spool, new, status):
    session = _session(spool, 8)
    busy = Reply(status, document={"retry_after": 7.0})
    new.answer = lambda request: Reply() if int(request.path[-1]) > 5 else busy
    courier = _courier(spool, new.url)
    assert courier.send_one([session]) is False
    assert courier.not_before > time.monotonic()
    assert spool.contents().taken == 2
    new.answer = lambda request: Reply()
    _drain(courier, session)
    assert (len(new.posts), spool.contents().taken) == (2, 8)


def test_a_proxy_that_takes_smaller_bodies_gets_smaller_ones(spool, new):
    session = _session(spool, 32)
    whole = 32 * (len(spool.waiting([session]).body) + LENGTH_BYTES)
    most_bytes = whole // 2
    new.answer_to_several = lambda r: Reply(413, text="no") if len(r.body) > most_bytes else None
    _drain(_courier(spool, new.url), session)
    assert sorted(_numbers(new)) == list(range(32))
    assert len(new.posts) < 16


@pytest.mark.parametrize("status", [200, 403, 404, 405, 500, 502])
def test_a_proxy_that_lets_only_single_segments_through_stops_nothing(spool, new, status):
    new.answer_to_several = lambda request: Reply(status, text="<html>no</html>")
    session = _session(spool, 6)
    _drain(_courier(spool, new.url), session)
    assert sorted(_numbers(new)) == list(range(6))
    assert len(new.posts) == 1


def test_answers_that_name_too_few_segments_settle_none(spool, new):
    few = Reply(document={"answers": [{"status": 200, "duplicate": False}] * 2})
    new.answer_to_several = lambda request: few
    session = _session(spool, 3)
    courier = _courier(spool, new.url)
    courier.send_one([session])
    assert (spool.contents().taken, _numbers(new)) == (1, [2])
    _drain(courier, session)
    assert _numbers(new) == [2, 1, 0]


@pytest.mark.parametrize(
    "row",
    [
        {"status": 200},
        {"status": 200, "duplicate": "no"},
        {"status": "200", "duplicate": False},
        {"status": 409},
        [],
        None,
    ],
)
def test_a_row_that_is_no_receipt_settles_nothing(spool, new, row):
    rows = [row, {"status": 200, "duplicate": True}]
    new.answer_to_several = lambda request: Reply(document={"answers": rows})
    session = _session(spool, 2)
    _courier(spool, new.url).send_one([session])
    held = spool.contents()
    assert (held.taken, held.waiting, held.dead) == (1, 1, 0)


def test_a_killed_agent_sends_again_what_it_knows_no_answer_of(spool, new):
    session = _session(spool, 4)
    new.answer_to_several = lambda request: Reply(status=500, text="cut off")
    _courier(spool, new.url).send_one([session])
    assert spool.contents().waiting == 4
    new.answer_to_several = lambda request: None
    _drain(_courier(spool, new.url), session)
    assert sorted(_numbers(new)) == [0, 1, 2, 3]
    first, second = (split_bodies(post.body) for post in new.posts)
    assert first == second


def test_it_says_what_was_answered_and_does_what_is_asked(spool, new):
    session = _session(spool, 3)
    spool.acknowledge(session, 0)
    obeyed: list = []
    courier = Courier(spool, ServiceAccess(new.url, TOKEN), lambda p: None, session, obeyed.append)
    directives = [{"id": str(uuid4()), "kind": "stop"}]
    again = {"resend": [[session, 0]], "directives": directives}
    new.answer = lambda r: Reply(document=again if r.path.endswith("/2") else {})
    courier.send_one([session])
    assert new.posts[0].headers["X-Trimtab-Answered"] == "0"
    assert obeyed == [directives]
    new.answer = lambda request: Reply()
    _drain(courier, session)
    assert _numbers(new) == [2, 1, 0]


def test_lies_of_a_proxy_settle_nothing(spool, new):
    proxy = LyingProxy(new.url)
    proxy.is_lying = True
    session = _session(spool, 10)
    courier = _courier(spool, proxy.url)
    for _ in range(3 * len(LIES)):
        courier.send_one([session])
        courier._together._rests_until = 0.0
    assert (spool.contents().waiting, spool.contents().dead) == (10, 0)
    proxy.is_lying = False
    _drain(_courier(spool, proxy.url), session)
    assert sorted(set(_numbers(new))) == list(range(10))
    proxy.close()


@given(st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=LIMITS.bodies))
def test_bodies_come_apart_as_they_were_joined(bodies):
    assert split_bodies(join_bodies(bodies)) == bodies


@given(st.binary(max_size=300) | st.lists(st.binary(max_size=9), max_size=5).map(join_bodies))
def test_whatever_comes_is_split_or_refused(joined):
    with suppress(WireError):
        assert join_bodies(split_bodies(joined)) == joined
