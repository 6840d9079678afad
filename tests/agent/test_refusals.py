"""Only the service's own final refusal settles an upload: everybody else's answer is tried again.

What the service refuses for good is kept, shown and sent again on demand, and expires with a count.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from trimtab.identity import ServiceAccess
from trimtab.spool import Spool
from trimtab.spool.eviction import make_room
from trimtab.uploader import ANSWERED_HEADER, Courier
from trimtab.wire import (
    Block,
    Declaration,
    NodeFacts,
    Segment,
    SessionClock,
    encode_declaration,
    encode_segment,
)

from tests.agent.conftest import TOKEN, trimtab_command
from tests.agent.lying_proxy import LIES, LyingProxy
from tests.agent.service import DECLARATION, Reply, Service

FINAL = Reply(status=400, problem="invalid-upload")
NEVER_FINAL = {
    **{name: Reply(lie[0], None, lie[1], text=lie[2].decode()) for name, lie in LIES.items()},
    "an earlier service, 400": Reply(status=400),
    "an earlier service, 409": Reply(status=409),
    "an earlier service, 422": Reply(status=422),
    "our own 404": Reply(status=404, problem="run-in-another-workspace"),
    "our own 404 of a final type": Reply(status=404, problem="segment-conflict"),
    "our own 400, changed on the way": Reply(status=400, problem="unreadable-body"),
    "a later service's type": Reply(status=400, problem="something-new"),
    "a type that is no URI": Reply(status=400, document={"type": ["http://["]}),
    "a receipt without the time": Reply(document={"server_time_ns": None}),
    "another 2xx": Reply(status=202),
}


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    (tmp_path / "state").mkdir(mode=0o700)
    return Spool(tmp_path / "state" / "spool.sqlite3")


@pytest.fixture
def courier(spool: Spool, service: Service) -> Courier:
    return Courier(spool, ServiceAccess(service.url, TOKEN), lambda text: None)


def _segment(session: str, run: str, seq: int) -> bytes:
    clock = SessionClock(UUID(session), "boot", 10**18, 0)
    block = Block([0, 500], {"host.cpu_busy_pct": [1, 2]})
    start_ms = seq * 10_000
    return encode_segment(
        Segment(UUID(run), "job", 0, "m", clock, seq, start_ms, 10_000, 500, [block])
    )


def _filled(spool: Spool, destination: str = "", segments: int = 2) -> str:
    session, run = str(uuid4()), str(uuid4())
    spool.add_session(session, run, destination)
    declaration = Declaration(UUID(run), "job", 0, UUID(session), NodeFacts("m"))
    spool.declare(session, encode_declaration(declaration))
    for seq in range(segments):
        spool.add(session, seq, _segment(session, run, seq))
    return session


def _with_artefact(spool: Spool, tmp_path: Path) -> str:
    session, file = _filled(spool), tmp_path / "trace.json.gz"
    file.write_bytes(b"a trace")
    assert spool.artefacts.add(session, "profile", file, file.name)
    return session


def _drain(courier: Courier, session: str, times: int = 50) -> None:
    for _ in range(times):
        if courier.send_one([session]) is None:
            return


def _a_month_later(spool: Spool) -> None:
    with sqlite3.connect(spool.path) as rows:
        rows.execute("UPDATE dead SET created = created - 31 * 86400")
        rows.execute("UPDATE postponed SET since = since - 31 * 86400")


@pytest.mark.parametrize("name", NEVER_FINAL)
def test_nothing_is_settled_by_an_answer_that_is_not_the_services_final_one(
    spool, courier, service, tmp_path, name
):
    session = _with_artefact(spool, tmp_path)
    service.answer = lambda request: NEVER_FINAL[name]
    _drain(courier, session, times=12)
    held = spool.contents()
    assert (held.waiting, held.undeclared, held.artefacts) == (2, 1, 1)
    assert (held.dead, courier.refused, courier.taken) == (0, 0, 0)
    service.requests.clear()
    service.answer = lambda request: Reply()
    spool.postponed.retry([session])
    _drain(courier, session)
    assert spool.contents().unsent == 0
    assert (len(service.bodies), len(service.declarations), len(service.artefacts)) == (2, 1, 1)


def test_a_redirect_is_not_followed_with_the_token(spool, courier, service):
    session = _filled(spool)
    elsewhere = Service()
    place = {"Location": f"{elsewhere.url}/login?token=secret"}
    service.answer = lambda request: Reply(status=307, text="<html></html>", headers=place)
    courier.send_one([session])
    assert elsewhere.requests == []
    assert courier.problem == f"307 Temporary Redirect to {elsewhere.url}/login"
    elsewhere.close()


@pytest.mark.parametrize(
    "reply", [Reply(status=500), Reply(status=404, problem="not-found"), Reply(status=413), FINAL]
)
def test_a_declaration_that_is_never_taken_does_not_block_the_segments(
    spool, courier, service, reply
):
    session = _filled(spool)
    service.answer = lambda r: Reply() if "/segments/" in r.path else reply
    _drain(courier, session, times=8)
    assert (spool.contents().taken, spool.contents().waiting) == (2, 0)


def test_a_problem_of_one_upload_does_not_delay_the_next_ones(spool, courier, service):
    """The upload is tried again after a minute at first, then less and less often."""
    session = _filled(spool)
    service.answer = lambda r: Reply(status=404 if r.path.endswith("/0") else 200)
    _drain(courier, session)
    for seq in range(2, 6):
        spool.add(session, seq, _segment(session, str(uuid4()), seq))
        _drain(courier, session)
    sent = [r.path.rsplit("/", 1)[1] for r in service.requests if "/segments/" in r.path]
    assert sent == ["1", "0", "2", "3", "4", "5"]
    assert "404" in spool.contents().last_error


def test_an_upload_that_was_postponed_goes_when_its_time_has_come(spool, courier, service):
    session = _filled(spool, segments=1)
    service.answer = lambda r: Reply(status=404 if "/segments/" in r.path else 200)
    _drain(courier, session)
    service.answer = lambda r: Reply()
    _drain(courier, session)
    assert spool.contents().waiting == 1
    with sqlite3.connect(spool.path) as rows:
        (seconds,) = rows.execute("SELECT until - since FROM postponed").fetchone()
        rows.execute("UPDATE postponed SET until = until - ?", (seconds,))
    assert seconds == 60
    _drain(courier, session)
    assert spool.contents().unsent == 0


def test_status_shows_what_was_refused_and_sync_dead_sends_it(
    trimtab, online, spool, service, tmp_path
):
    session = _with_artefact(spool, tmp_path)
    destination = ServiceAccess(service.url, TOKEN).destination
    with sqlite3.connect(spool.path) as rows:
        rows.execute("UPDATE sessions SET destination = ?, owner = ''", (destination,))
    service.answer = lambda request: FINAL
    refused = trimtab(online, "sync")
    assert "4 refused by the service and set apart" in refused.stdout
    shown = trimtab(online, "status").stdout
    size = sum(len(body) for body in service.bodies.values())
    assert f"refused    2 segments, {size} bytes, the oldest since 20" in shown
    assert "2: 400 Bad Request: No." in shown
    assert "1 declaration: 400 Bad Request: No." in shown
    assert "1 file, " in shown
    assert "trimtab sync --dead" in shown
    service.answer = lambda request: Reply()
    assert "0 segments uploaded, 4 refused" in trimtab(online, "sync").stdout
    service.requests.clear()
    again = trimtab(online, "sync", "--dead")
    assert (again.stdout, again.returncode) == ("2 segments uploaded\n", 0)
    assert set(service.bodies) == {(session, 0), (session, 1)}
    assert (len(service.declarations), len(service.artefacts)) == (1, 1)
    assert "refused    0 segments, 0 bytes\n" in trimtab(online, "status").stdout


def test_dead_letters_of_an_earlier_agent_can_be_sent(trimtab, online, spool, service):
    """The earlier agent deleted their session, so nobody knows any more which service they were
    for.
    """
    session = _filled(spool)
    for seq in (0, 1):
        spool.dead.bury(session, seq, "404 Not Found")
    with sqlite3.connect(spool.path) as rows:
        rows.execute("DELETE FROM sessions")
    trimtab(online, "sync", "--dead")
    assert service.bodies == {}
    assert trimtab(online, "sync", "--dead", "--all").returncode == 0
    assert set(service.bodies) == {(session, 0), (session, 1)}


def test_refused_uploads_expire_and_their_number_is_told(
    trimtab, online, spool, courier, service, tmp_path
):
    session = _with_artefact(spool, tmp_path)
    service.answer = lambda r: Reply() if DECLARATION.fullmatch(r.path) else FINAL
    _drain(courier, session)
    assert (spool.dead.contents().segments, len(spool.dead.contents().others)) == (2, 1)
    spool.tidy()
    assert spool.dead.contents().expired == 0
    _a_month_later(spool)
    spool.tidy()
    dead = spool.dead.contents()
    assert (dead.segments, dead.others, dead.expired) == (0, [], 3)
    assert not list((tmp_path / "state" / "artefacts").iterdir())
    _drain(courier, session)
    assert [d.expired_uploads for d in service.declarations] == [0, 3]
    assert "expired    3 refused uploads deleted unsent" in trimtab(online, "status").stdout


def test_a_refused_declaration_expires_too(spool, courier, service):
    session = _filled(spool, segments=0)
    service.answer = lambda request: FINAL
    _drain(courier, session)
    _a_month_later(spool)
    spool.tidy()
    assert (spool.dead.contents().others, spool.dead.contents().expired) == ([], 1)
    assert spool.contents().undeclared == 0


def test_dead_letters_leave_a_full_spool_before_any_sample_is_thinned(tmp_path):
    spool = Spool(tmp_path / "spool.sqlite3")
    session = _filled(spool, segments=40)
    for seq in range(20):
        spool.dead.bury(session, seq, "400")
    make_room(spool._database, 1, spool._database.used_bytes())
    assert spool.dead.contents().segments == 0
    assert (spool.dead.contents().expired, spool.contents().waiting) == (20, 20)
    with sqlite3.connect(spool.path) as rows:
        assert rows.execute("SELECT MAX(level) FROM segments").fetchone() == (0,)


def test_each_segment_says_how_far_its_session_was_answered(spool, courier, service):
    session = _filled(spool, segments=0)
    run = str(uuid4())
    for seq in (0, 1, 2, 5, 7, 8):
        spool.add(session, seq, _segment(session, run, seq))
        _drain(courier, session)
    told = [r.headers.get(ANSWERED_HEADER) for r in service.requests if "/segments/" in r.path]
    assert told == [None, "0", "0-1", "0-2", "5,0-2", "7,5,0-2"]


def test_what_is_asked_for_again_is_sent_again_with_the_declaration(spool, courier, service):
    session = _filled(spool, segments=3)
    _drain(courier, session)
    service.requests.clear()
    service.answer = lambda r: Reply(document={"resend": [[session, 0], [session, 2]]})
    spool.add(session, 3, _segment(session, str(uuid4()), 3))
    courier.send_one([session])
    service.answer = lambda r: Reply()
    _drain(courier, session)
    sent = sorted(r.path.rpartition("/")[2] for r in service.requests if "/segments/" in r.path)
    assert sent == ["0", "2", "3"]
    assert len(service.declarations) == 1


TRAINING = """
import time, trimtab
until = time.monotonic() + {seconds}
while time.monotonic() < until:
    time.sleep(0.2)
    trimtab.step(samples=1)
print(trimtab.run().id)
"""


def _lie_in_the_middle(
    trimtab, environment: dict[str, str], service: Service, before: float, lying: float
) -> LyingProxy:
    elsewhere = Service()
    proxy = LyingProxy(service.url, elsewhere.url)
    online = environment | {"TRIMTAB_URL": proxy.url, "TRIMTAB_TOKEN": TOKEN}
    script = TRAINING.format(seconds=before + lying + 3)
    agent = subprocess.Popen(
        trimtab_command("run", "--", sys.executable, "-c", script),
        env=online,
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    until = time.monotonic() + before + 10
    while not service.declarations and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(before)
    proxy.is_lying = True
    time.sleep(lying)
    shown = trimtab(online, "status").stdout
    assert "refused    0 segments" in shown
    proxy.is_lying = False
    output, _ = agent.communicate(timeout=60)
    assert agent.returncode == 0
    done = trimtab(online, "sync")
    assert done.returncode == 0, done.stdout
    assert elsewhere.requests == []
    runs = {str(segment.run_id) for segment in service.segments}
    assert runs == {output.strip()}
    numbers = [segment.seq for segment in service.segments]
    assert numbers == list(range(len(numbers)))
    assert service.events("session_end")[0].data["final_seq"] == numbers[-1]
    steps = sum(len(b.start_us) for s in service.segments for b in s.steps)
    assert steps + len(service.events("step_untimed")) > (before + lying) / 0.2 * 0.5
    proxy.close()
    elsewhere.close()
    return proxy


def test_a_proxy_that_lies_during_a_run_costs_nothing(trimtab, environment, service):
    proxy = _lie_in_the_middle(trimtab, environment, service, before=0.5, lying=14)
    assert proxy.told.total() >= 3


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_proxy_that_lies_for_ten_minutes_costs_nothing(trimtab, environment, service):
    proxy = _lie_in_the_middle(trimtab, environment, service, before=15, lying=600)
    print(json.dumps(proxy.told))  # noqa: T201
    assert set(proxy.told) == set(LIES)
