"""The agent bears a service that is away, busy, strict or forgetful."""

from __future__ import annotations

import email.utils
import json
import random
import subprocess
import time
from pathlib import Path
from uuid import uuid4

import pytest
from trimtab.identity import ServiceAccess
from trimtab.spool import Spool
from trimtab.uploader import Courier, Uploader
from trimtab.wire import (
    Block,
    Event,
    Segment,
    SessionClock,
    StepBlock,
    StepSummary,
    decode_segment,
    encode_segment,
)

from tests.agent.conftest import TOKEN, drainers_of, trimtab_command
from tests.agent.service import Reply


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool.sqlite3")


@pytest.fixture
def server(service) -> ServiceAccess:
    return ServiceAccess(service.url, TOKEN)


def _session(spool: Spool, destination: str, count: int = 1) -> str:
    session = str(uuid4())
    spool.add_session(session, str(uuid4()), destination)
    for seq in range(count):
        spool.add(session, seq, f"body {seq}".encode())
    return session


def _courier(spool: Spool, server: ServiceAccess) -> tuple[Courier, list[str]]:
    said: list[str] = []
    return Courier(spool, server, said.append), said


def test_an_offline_run_is_the_same_after_sync(trimtab, environment, service, tmp_path):
    offline = trimtab(environment, "run", "--", "bash", "-c", "sleep 0.7; exit 2")
    assert offline.returncode == 2
    kept = Spool(tmp_path / "state" / "spool.sqlite3")
    (session,) = kept.claim(None)
    body = kept.waiting([session]).body
    kept.release(session)
    online = environment | {"TRIMTAB_URL": service.url, "TRIMTAB_TOKEN": TOKEN}
    done = trimtab(online, "sync")
    assert (done.stdout, done.returncode) == ("1 segment uploaded\n", 0)
    assert service.bodies == {(session, 0): body}
    assert len(service.declarations) == 1
    again = trimtab(online, "sync")
    assert (again.stdout, again.returncode) == ("0 segments uploaded\n", 0)


def test_sync_fails_while_the_service_is_away(trimtab, environment):
    trimtab(environment, "run", "--", "true")
    away = environment | {"TRIMTAB_URL": "http://127.0.0.1:9", "TRIMTAB_TOKEN": TOKEN}
    done = trimtab(away, "sync", "--wait", "1")
    assert done.returncode == 1
    assert "left" in done.stdout


def test_sync_asks_where_to(trimtab, environment):
    done = trimtab(environment, "sync")
    assert done.returncode == 2
    assert "TRIMTAB_URL" in done.stderr


def test_a_sample_meant_for_another_workspace_is_not_sent(trimtab, online, service):
    elsewhere = online | {"TRIMTAB_URL": "http://127.0.0.1:9"}
    trimtab(elsewhere, "run", "--", "true")
    done = trimtab(online, "sync")
    assert done.returncode == 1
    assert "1 segment for http://127.0.0.1:9" in done.stdout
    assert service.bodies == {}
    assert trimtab(online, "sync", "--all").returncode == 0
    assert len(service.bodies) == 1


@pytest.mark.parametrize("state", ["{tmp}/state", "relative/state", "~/state"])
def test_a_run_leaves_a_drainer_that_finishes_the_upload(trimtab, online, service, tmp_path, state):
    """The first answers fail, so the run itself gives up; what it left goes on by itself."""
    refusals = iter([503] * 3)
    service.answer = lambda request: Reply(status=next(refusals, 200))
    places = {"TRIMTAB_STATE_DIR": state.format(tmp=tmp_path), "HOME": str(tmp_path)}
    trimtab(online | places, "run", "--", "true")
    assert not (tmp_path / "place" / "~").exists()
    until = time.monotonic() + 15
    while not _taken(service) and time.monotonic() < until:
        time.sleep(0.1)
    assert _taken(service)


def test_a_drainer_ends_at_sigterm(trimtab, online, service, tmp_path):
    service.answer = lambda request: Reply(status=503)
    trimtab(online, "run", "--", "true")
    (drainer,) = drainers_of(tmp_path)
    time.sleep(0.7)
    drainer.terminate()
    drainer.wait(5)
    assert drainers_of(tmp_path) == []


def _taken(service) -> bool:
    return len(service.requests) > 3 and bool(service.bodies)


def test_the_next_agent_sends_what_a_killed_one_left(online, service, tmp_path):
    """Only sessions whose process is dead are taken over; their body arrives unchanged."""
    spool = Spool(tmp_path / "state" / "spool.sqlite3") if _made(tmp_path / "state") else None
    assert spool
    session = _session(spool, ServiceAccess(service.url, TOKEN).destination)
    other = subprocess.run(
        trimtab_command("sync"), env=online, capture_output=True, text=True, timeout=30
    )
    assert other.stdout.startswith("0 segments")
    spool.release(session)
    subprocess.run(trimtab_command("sync"), env=online, capture_output=True, timeout=30)
    assert service.bodies == {(session, 0): b"body 0"}


def _made(folder: Path) -> bool:
    folder.mkdir(mode=0o700)
    return True


def test_the_newest_segment_goes_first(spool, server, service):
    session = _session(spool, "", count=3)
    courier, _ = _courier(spool, server)
    while courier.send_one([session]):
        pass
    assert [request.path.rsplit("/", 1)[1] for request in service.requests] == ["2", "1", "0"]


def test_a_taken_segment_is_kept_for_a_server_that_asks_again(spool, server, service):
    session = _session(spool, "", count=2)
    courier, _ = _courier(spool, server)
    courier.send_one([session])
    again = {"resend": [[session, 1], ["unknown", 7], "nonsense"]}
    service.answer = lambda request: Reply(document=again if request.path.endswith("/0") else {})
    while courier.send_one([session]):
        pass
    sent = [request.path.rsplit("/", 1)[1] for request in service.requests]
    assert sent == ["1", "0", "1"]
    assert spool.contents().taken == 2


@pytest.mark.parametrize(
    ("status", "problem"), [(400, "invalid-upload"), (409, "segment-conflict")]
)
def test_what_the_service_will_never_take_is_set_apart_and_the_rest_goes_on(
    spool, server, service, status, problem
):
    session = _session(spool, "", count=2)
    refusal = Reply(status=status, problem=problem)
    service.answer = lambda r: refusal if r.path.endswith("/1") else Reply()
    courier, said = _courier(spool, server)
    while courier.send_one([session]):
        pass
    held = spool.contents()
    assert (held.waiting, held.taken, held.dead) == (0, 1, 1)
    assert str(status) in said[0]


def _large_segment() -> Segment:
    clock = SessionClock(uuid4(), "boot", 10**18, 0)
    chance = random.Random(3)
    noise = {f"host.n{i}_pct": [chance.random() for _ in range(20)] for i in range(50)}
    block = Block(list(range(0, 10_000, 500)), {"host.a_bytes": list(range(20)), **noise})
    steps = StepBlock(0, "train", [i * 10**6 for i in range(10)], [10**6] * 10, [5] * 10, [1] * 10)
    second = StepSummary(1, "train", 7_000, 3, 30, 9, 11, None, 6)
    events = [Event(t, "epoch", {"number": t}) for t in (0, 4_999, 5_000)]
    events.append(Event(9_999, "session_end", {"state": "finished", "final_seq": 4}))
    return Segment(
        uuid4(), "job", 0, "m", clock, 4, 40_000, 10_000, 500, [block], [steps], [second], events
    )


@pytest.mark.parametrize("narrow", [1, 0.6, 0.45])
def test_what_is_too_large_is_sent_in_parts_that_hold_everything_once(
    spool, server, service, narrow
):
    whole = _large_segment()
    body = encode_segment(whole)
    session = str(whole.clock.session_id)
    spool.add_session(session, str(whole.run_id), "")
    spool.add(session, 4, body)
    most = int(len(body) * narrow)
    service.answer = lambda r: Reply(status=413 if len(r.body) > most else 200)
    courier, _ = _courier(spool, server)
    while courier.send_one([session]):
        pass
    taken = {r.path: decode_segment(r.body) for r in service.requests if len(r.body) <= most}
    parts = sorted(taken.values(), key=lambda s: s.start_ms)
    assert (len(parts) > 1) == (narrow < 1)
    assert len({p.seq for p in parts}) == len(parts)
    ticks = [
        (p.start_ms + t, v)
        for p in parts
        for b in p.blocks
        for t, v in zip(b.times_ms, b.columns["host.a_bytes"], strict=True)
    ]
    assert ticks == [(40_000 + i * 500, i) for i in range(20)]
    starts = [p.start_ms * 1000 + s for p in parts for b in p.steps for s in b.start_us]
    assert sorted(starts) == [40_000_000 + i * 10**6 for i in range(10)]
    times = [p.start_ms + e.time_ms for p in parts for e in p.events]
    assert times == [40_000, 44_999, 45_000, 49_999]
    seconds = [p.start_ms + s.start_ms for p in parts for s in p.step_summaries]
    assert seconds == [47_000]
    assert [p.seq for p in parts if any(e.kind == "session_end" for e in p.events)] == [4]
    assert spool.contents().dead == 0


@pytest.mark.parametrize("reply", [Reply(status=413), Reply(status=413, text="<html>too large")])
def test_what_is_too_large_even_in_parts_waits(spool, server, service, reply):
    whole = _large_segment()
    session = str(whole.clock.session_id)
    spool.add_session(session, str(whole.run_id), "")
    spool.add(session, 4, encode_segment(whole))
    service.answer = lambda r: reply
    courier, said = _courier(spool, server)
    while courier.send_one([session]) is not None:
        pass
    assert spool.contents().waiting >= 4
    assert spool.contents().dead == 0
    assert "413" in said[0]
    service.answer = lambda r: Reply()
    spool.postponed.retry([session])
    while courier.send_one([session]):
        pass
    assert spool.contents().waiting == 0


def test_one_that_always_fails_does_not_keep_the_others_back(spool, server, service):
    session = _session(spool, "", count=3)
    service.answer = lambda r: Reply(status=500 if r.path.endswith("/2") else 200)
    courier, _ = _courier(spool, server)
    for _ in range(8):
        courier.send_one([session])
    assert (spool.contents().taken, spool.contents().waiting) == (2, 1)


def test_the_time_to_come_back_may_be_a_date(spool, server, service):
    session = _session(spool, "")
    date = email.utils.formatdate(time.time() + 100, usegmt=True)
    service.answer = lambda r: Reply(status=503, headers={"Retry-After": date})
    courier, _ = _courier(spool, server)
    courier.send_one([session])
    assert 95 < courier.not_before - time.monotonic() <= 102


def test_a_mad_service_gets_everything_once(spool, server, service):
    """Every segment is answered 200 exactly once, whatever came before."""
    session = _session(spool, "", count=30)
    chance = random.Random(7)
    taken: list[str] = []

    def answer(request):
        status = chance.choice([200, 429, 500, 503, 401, 408])
        if status == 200:
            taken.append(request.path)
        return Reply(status=status)

    service.answer = answer
    courier, _ = _courier(spool, server)
    while courier.send_one([session]) is not None:
        pass
    assert sorted(taken) == sorted(set(taken))
    assert len(taken) == 30


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_busy_service_gets_the_segment_later(spool, server, service, status):
    session = _session(spool, "")
    service.answer = lambda request: Reply(status=status)
    courier, _ = _courier(spool, server)
    assert courier.send_one([session]) is False
    assert spool.contents().waiting == 1
    assert str(status) in spool.contents().last_error


def test_the_pause_grows_but_never_over_a_minute(spool, server, service):
    session = _session(spool, "")
    service.answer = lambda request: Reply(status=500)
    courier, _ = _courier(spool, server)
    pauses = []
    for _ in range(12):
        courier.send_one([session])
        pauses.append(courier.not_before - time.monotonic())
    assert max(pauses[:2]) <= 2
    assert max(pauses) > 2
    assert max(pauses) <= 60


def test_retry_after_of_the_service_is_respected(spool, server, service):
    session = _session(spool, "", count=2)
    replies = iter([Reply(status=429, headers={"Retry-After": "30"})])
    service.answer = lambda r: next(replies, Reply(document={"retry_after": 20}))
    courier, _ = _courier(spool, server)
    courier.send_one([session])
    assert 29 < courier.not_before - time.monotonic() <= 60
    courier.send_one([session])
    assert 19 < courier.not_before - time.monotonic() <= 20


def test_the_reason_why_a_declaration_waits_is_known_until_it_is_taken(spool, server, service):
    session = _session(spool, "", count=0)
    spool.declare(session, b"declaration")
    problem = {"detail": "The workspace may begin 5 runs in 24 hours, and has done so."}
    refusal = Reply(status=429, document=problem, problem="quota", headers={"Retry-After": "60"})
    service.answer = lambda request: refusal
    courier, _ = _courier(spool, server)
    assert courier.send_one([session]) is False
    assert "429" in spool.contents().last_error
    assert problem["detail"] in spool.contents().last_error
    service.answer = lambda request: Reply()
    assert courier.send_one([session]) is True
    assert (spool.contents().last_error, spool.contents().unsent) == ("", 0)


def test_it_sends_samples_while_an_import_waits_for_its_quota(spool, server, service, tmp_path):
    """The import may have to wait for hours, and the service says so by Retry-After."""
    session = _session(spool, "", count=1)
    description = tmp_path / "description"
    description.write_text("{}")
    assert spool.artefacts.add(session, "import", description, "job.import.json", "job")
    headers = {"Retry-After": "3600"}
    refusal = Reply(status=429, document={}, problem="import-quota", headers=headers)
    service.answer = lambda r: refusal if "/artefacts/" in r.path else Reply()
    courier, said = _courier(spool, server)
    while courier.send_one([session]):
        pass
    assert courier.not_before - time.monotonic() < 60
    spool.add(session, 1, b"body 1")
    assert courier.send_one([session]) is True
    assert spool.contents().waiting == 0
    assert spool.artefacts.count([session]) == 1
    assert "job.import.json can't be sent at present and is kept" in said[0]


@pytest.mark.parametrize("status", [401, 403])
def test_a_wrong_token_keeps_everything_and_says_so_once(spool, server, service, status):
    session = _session(spool, "", count=2)
    service.answer = lambda request: Reply(status=status)
    courier, said = _courier(spool, server)
    courier.send_one([session])
    courier.send_one([session])
    assert spool.contents().waiting == 2
    assert 59 < courier.not_before - time.monotonic() <= 60
    assert len(said) == 1
    assert "TRIMTAB_TOKEN" in said[0]


def test_a_sign_in_page_is_no_acknowledgement(spool, server, service):
    session = _session(spool, "")
    service.answer = lambda request: Reply(text="<html>please sign in</html>")
    courier, _ = _courier(spool, server)
    assert courier.send_one([session]) is False
    assert spool.contents().waiting == 1


def test_a_declaration_goes_before_the_segments_and_again_when_it_changed(spool, server, service):
    session = _session(spool, "")
    spool.declare(session, b"first")
    courier, _ = _courier(spool, server)
    while courier.send_one([session]):
        pass
    spool.declare(session, b"second")
    while courier.send_one([session]):
        pass
    assert [request.body for request in service.requests] == [b"first", b"body 0", b"second"]


def test_a_base_path_in_the_address_is_kept(spool, service):
    session = _session(spool, "")
    courier, _ = _courier(spool, ServiceAccess(f"{service.url}/sub/", TOKEN))
    assert courier.send_one([session])
    assert service.requests[0].path.startswith("/sub/api/v1/runs/")


def test_an_address_that_is_none_is_refused_by_name(spool):
    with pytest.raises(ValueError, match="ftp://here"):
        Courier(spool, ServiceAccess("ftp://here", TOKEN), print)


def test_a_bad_address_does_not_keep_the_command_from_running(trimtab, environment):
    done = trimtab(environment | {"TRIMTAB_URL": "nowhere"}, "run", "--", "bash", "-c", "exit 6")
    assert done.returncode == 6
    assert "nowhere" in done.stderr


def test_flush_returns_at_the_first_failure(spool, service):
    service.answer = lambda request: Reply(status=500)
    session = _session(spool, "")
    uploader = Uploader(spool, ServiceAccess(service.url, TOKEN), session, print)
    uploader.start()
    began = time.monotonic()
    uploader.flush(5)
    assert time.monotonic() - began < 2


def test_the_uploader_goes_on_after_an_outage(spool, service):
    replies = iter([Reply(status=503), Reply(status=500)])
    service.answer = lambda request: next(replies, Reply())
    session = _session(spool, "", count=3)
    uploader = Uploader(spool, ServiceAccess(service.url, TOKEN), session, print)
    uploader.start()
    until = time.monotonic() + 10
    while spool.contents().waiting and time.monotonic() < until:
        time.sleep(0.05)
    assert uploader.taken == 3


def test_status_says_what_waits_and_for_whom(trimtab, online):
    away = online | {"TRIMTAB_URL": "http://127.0.0.1:9"}
    trimtab(away, "run", "--", "true")
    done = trimtab(online, "status")
    assert "1 segment," in done.stdout
    assert "1 for http://127.0.0.1:9" in done.stdout
    assert TOKEN not in done.stdout


def test_the_spool_holds_no_token(trimtab, online, service, tmp_path):
    service.answer = lambda request: Reply(status=401)
    trimtab(online, "run", "--token", TOKEN, "--", "echo", TOKEN)
    held = b"".join(path.read_bytes() for path in (tmp_path / "state").iterdir())
    assert TOKEN.encode() not in held
    assert all(TOKEN not in json.dumps(d.command) for d in service.declarations)
