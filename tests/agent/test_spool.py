"""The spool's cap, its retreat into memory, and who may send what."""

from __future__ import annotations

import importlib
import os
import random
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trimtab.spool import CAP_BYTES, Spool, open_spool
from trimtab.spool.eviction import make_room
from trimtab.spool.filesystem import is_network
from trimtab.spool.thinning import empty_segment, thin_segment
from trimtab.wire import (
    Block,
    Event,
    Segment,
    SessionClock,
    StepBlock,
    decode_segment,
    encode_segment,
)

RUN = UUID(int=7)
EARLIER = """
CREATE TABLE sessions (
    session TEXT PRIMARY KEY, run TEXT NOT NULL, destination TEXT NOT NULL,
    created REAL NOT NULL, owner TEXT NOT NULL, declaration BLOB, declared INTEGER NOT NULL
);
CREATE TABLE segments (
    session TEXT NOT NULL, seq INTEGER NOT NULL, body BLOB NOT NULL, created REAL NOT NULL,
    level INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0,
    error TEXT NOT NULL DEFAULT '', acknowledged REAL, PRIMARY KEY (session, seq)
);
CREATE TABLE dead (
    session TEXT NOT NULL, seq INTEGER NOT NULL, body BLOB NOT NULL, created REAL NOT NULL,
    reason TEXT NOT NULL, PRIMARY KEY (session, seq)
);
"""
"""The tables that the first agents made in their spool."""


def _segment(seq: int) -> Segment:
    noise = os.urandom(4000)
    columns = {
        f"host.s{i}_bytes": [int.from_bytes(noise[8 * j : 8 * j + 4], "big") + i for j in range(20)]
        for i in range(12)
    }
    clock = SessionClock(UUID(int=8), "boot", 10**18, 0)
    block = Block(list(range(0, 10_000, 500)), columns)
    events = [Event(5, "epoch", {"number": seq}), Event(6, "metric", {"name": "a", "value": 1.0})]
    return Segment(
        RUN, "job", 0, "m", clock, seq, seq * 10_000, 10_000, 500, [block], events=events
    )


def _busy_segment(seq: int) -> Segment:
    """Return a segment whose means take much less room than the whole."""
    chance = random.Random(seq)
    columns = {f"host.s{i}_bytes": [chance.randrange(2**32) for _ in range(20)] for i in range(24)}
    whole = _segment(seq)
    return replace(whole, blocks=[replace(whole.blocks[0], columns=columns)])


def _session(spool: Spool) -> str:
    session = str(uuid4())
    spool.add_session(session, str(RUN), "")
    return session


def _waiting(spool: Spool, session: str) -> list[Segment]:
    found = []
    while segment := spool.waiting([session]):
        found.append(decode_segment(segment.body))
        spool.dead.bury(session, segment.seq, "read")
    return sorted(found, key=lambda s: s.seq)


def test_a_full_spool_thins_the_oldest_then_keeps_their_events_and_a_gap(tmp_path):
    cap_bytes = 150_000
    spool = Spool(tmp_path / "spool.sqlite3", cap_bytes)
    session, count = _session(spool), 300
    for seq in range(count):
        spool.add(session, seq, encode_segment(_segment(seq)))
    used = spool._database.used_bytes()
    assert used <= cap_bytes + 8192
    kept = _waiting(spool, session)
    assert kept[-1].seq == count - 1
    full = [s for s in kept if s.blocks and "host.s0_bytes" in s.blocks[0].columns]
    thin = [s for s in kept if s.blocks and "host.s0_bytes:mean" in s.blocks[0].columns]
    empty = [s for s in kept if not s.blocks]
    assert full
    assert empty
    assert [s.seq for s in (*empty, *thin, *full)] == sorted(s.seq for s in kept)
    for segment in empty:
        (gap,) = [e.data for e in segment.events if e.kind == "gap"]
        assert gap["reason"] == "spool_full"
        assert (gap["from_ms"], gap["to_ms"]) == (segment.start_ms, segment.start_ms + 10_000)
        assert [e.data["number"] for e in segment.events if e.kind == "epoch"] == [segment.seq]


def test_a_full_spool_uses_the_room_that_it_makes(tmp_path):
    """Nothing is dropped whole, or made smaller than need be, while there is room for it."""
    cap_bytes = 400_000
    spool = Spool(tmp_path / "spool.sqlite3", cap_bytes)
    session, count = _session(spool), 250
    for seq in range(count):
        spool.add(session, seq, encode_segment(_busy_segment(seq)))
    kept = _waiting(spool, session)
    assert [segment.seq for segment in kept] == list(range(count))
    assert sum(len(encode_segment(segment)) for segment in kept) > cap_bytes / 3


def test_what_the_service_has_goes_before_what_it_has_not(tmp_path):
    spool = Spool(tmp_path / "spool.sqlite3", 150_000)
    session = _session(spool)
    for seq in range(40):
        spool.add(session, seq, encode_segment(_segment(seq)))
        if seq < 30:
            spool.acknowledge(session, seq)
    for seq in range(40, 80):
        spool.add(session, seq, encode_segment(_segment(seq)))
    kept = _waiting(spool, session)
    assert [s.seq for s in kept] == list(range(30, 80))


def _meanwhile(monkeypatch, place: str, act) -> None:
    """Let another agent act just when this one has read what it is about to replace."""
    real, acted = importlib.import_module(place).decode_segment, []

    def decode(body: bytes) -> Segment:
        if not acted:
            acted.append(True)
            act()
        return real(body)

    monkeypatch.setattr(f"{place}.decode_segment", decode)


def test_two_agents_that_make_room_at_once_thin_a_segment_but_once(tmp_path, monkeypatch):
    """A segment thinned twice would pass for one that tells its gap already, and be dropped in
    silence.
    """
    monkeypatch.setattr("trimtab.spool.eviction._MOST_ROUNDS", 1)
    path = tmp_path / "spool.sqlite3"
    spool, other = Spool(path), Spool(path)
    session = _session(spool)
    for seq in range(5):
        spool.add(session, seq, encode_segment(_busy_segment(seq)))
    _meanwhile(monkeypatch, "trimtab.spool.eviction", lambda: make_room(other._database, 1, 0))
    make_room(spool._database, 1, 0)
    with sqlite3.connect(path) as rows:
        assert rows.execute("SELECT DISTINCT level FROM segments").fetchall() == [(1,)]
    make_room(spool._database, 1, 0)
    gaps = [e for s in _waiting(spool, session) for e in s.events if e.kind == "gap"]
    assert len(gaps) == 5


def test_two_agents_that_split_a_segment_at_once_keep_its_seconds_once(tmp_path, monkeypatch):
    path = tmp_path / "spool.sqlite3"
    spool, other = Spool(path), Spool(path)
    session, whole = _session(spool), _segment(3)
    spool.add(session, 3, encode_segment(whole))
    _meanwhile(monkeypatch, "trimtab.spool.spool", lambda: other.split(session, 3))
    assert spool.split(session, 3)
    parts = _waiting(spool, session)
    ticks = [p.start_ms + t for p in parts for block in p.blocks for t in block.times_ms]
    assert sorted(ticks) == [whole.start_ms + t for t in whole.blocks[0].times_ms]
    assert sum(part.duration_ms for part in parts) == whole.duration_ms


def test_a_step_that_was_written_after_the_seal_is_in_one_of_the_halves(tmp_path):
    """The step's segment begins after it ended: a training process tells fast steps some at a
    time.
    """
    spool = Spool(tmp_path / "spool.sqlite3")
    session = _session(spool)
    ends_us = [-150_000, -1, 0, 4_999_999, 5_000_000, 9_900_000]
    starts_us = [end - 50_000 for end in ends_us]
    steps = StepBlock(0, "train", starts_us, [50_000] * 6, [None] * 6, [1, 2, 3, 4, 5, 6])
    spool.add(session, 3, encode_segment(replace(_segment(3), steps=[steps])))
    assert spool.split(session, 3)
    told = {n: p.start_ms * 1000 + start for p in _waiting(spool, session) for b in p.steps
            for start, n in zip(b.start_us, b.samples, strict=True)}  # fmt: skip
    assert told == {n: 30_000_000 + start for n, start in enumerate(starts_us, 1)}


@given(st.lists(st.none() | st.integers(-1000, 1000), min_size=1, max_size=10))
def test_thinning_keeps_min_mean_max_and_count(values):
    clock = SessionClock(UUID(int=8), "boot", 10**18, 0)
    block = Block(list(range(len(values))), {"host.a_pct": values})
    segment = Segment(RUN, "job", 0, "m", clock, 0, 0, 10_000, 500, [block])
    small = decode_segment(encode_segment(thin_segment(segment)))
    known = [value for value in values if value is not None]
    columns = {name: column[0] for name, column in small.blocks[0].columns.items()}
    if not known:
        assert columns == {}
        return
    assert columns["host.a_pct:min"] == min(known)
    assert columns["host.a_pct:max"] == max(known)
    assert columns["host.a_pct:count"] == len(known)
    assert columns["host.a_pct:mean"] == pytest.approx(sum(known) / len(known), abs=1e-3)
    assert thin_segment(thin_segment(segment)) == thin_segment(segment)
    assert decode_segment(encode_segment(empty_segment(segment))).refused == []


def test_dead_letters_are_bounded_and_the_newest_stay(tmp_path, monkeypatch):
    monkeypatch.setattr("trimtab.spool.dead.DEAD_BYTES", 10_000)
    spool = Spool(tmp_path / "spool.sqlite3")
    session = _session(spool)
    for seq in range(30):
        spool.add(session, seq, bytes(1000))
        spool.dead.bury(session, seq, "409")
    assert spool.contents().dead == 10
    with sqlite3.connect(tmp_path / "spool.sqlite3") as rows:
        kept = [row[0] for row in rows.execute("SELECT seq FROM dead ORDER BY seq")]
    assert kept == list(range(20, 30))


def test_taken_segments_leave_after_a_quarter_of_an_hour(tmp_path, monkeypatch):
    spool = Spool(tmp_path / "spool.sqlite3")
    session = _session(spool)
    spool.add(session, 0, b"body")
    spool.acknowledge(session, 0)
    spool.tidy()
    assert spool.contents().taken == 1
    monkeypatch.setattr("trimtab.spool.spool.KEPT_SECONDS", -1.0)
    spool.tidy()
    assert spool.contents().taken == 0


def test_an_earlier_agent_can_use_the_same_file(tmp_path):
    """An earlier agent fills some tables by position."""
    path = tmp_path / "spool.sqlite3"
    with sqlite3.connect(path) as rows:
        rows.executescript(EARLIER)
    spool = Spool(path)
    session = _session(spool)
    spool.add(session, 0, b"body")
    with sqlite3.connect(path) as rows:
        rows.execute("INSERT OR IGNORE INTO sessions VALUES ('a', 'b', '', 1.0, '', NULL, 1)")
        rows.execute(
            "INSERT OR REPLACE INTO dead SELECT session, seq, body, created, '' FROM segments"
        )
    assert (spool.contents().waiting, spool.contents().dead) == (1, 1)


def test_two_agents_share_one_spool(tmp_path):
    path = tmp_path / "spool.sqlite3"
    script = (
        "import sys; from pathlib import Path; from trimtab.spool import Spool\n"
        "spool = Spool(Path(sys.argv[1]))\n"
        "spool.add_session(sys.argv[2], 'run', '')\n"
        "for seq in range(200): spool.add(sys.argv[2], seq, b'x' * 3000)\n"
        "assert spool.problem == '', spool.problem\n"
    )
    agents = [
        subprocess.Popen([sys.executable, "-c", script, str(path), name])
        for name in ("a", "b", "c")
    ]
    assert [agent.wait(30) for agent in agents] == [0, 0, 0]
    assert Spool(path).contents().waiting == 600


def test_agents_that_begin_at_the_same_moment_share_new_spools(tmp_path):
    """One process a GPU, on a machine's first training."""
    script = (
        "import sys, time; from pathlib import Path; from trimtab.spool import Spool\n"
        "print('ready', flush=True); begin = float(sys.stdin.readline())\n"
        "for number in range(20):\n"
        "    time.sleep(max(0, begin + number / 20 - time.time()))\n"
        "    spool = Spool(Path(sys.argv[1]) / f'{number}.sqlite3')\n"
        "    spool.add_session(sys.argv[2], 'run', '')\n"
        "    assert spool.problem == '', spool.problem\n"
        "    spool.close()\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    agents = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path), name], **pipes)  # type: ignore[call-overload]
        for name in "abcd"
    ]
    for agent in agents:
        assert agent.stdout.readline() == "ready\n"
    begin = time.time() + 0.5
    for agent in agents:
        agent.stdin.write(f"{begin}\n")
        agent.stdin.flush()
    assert [agent.wait(60) for agent in agents] == [0, 0, 0, 0]


def test_a_living_agents_session_is_left_to_it(tmp_path):
    path = tmp_path / "spool.sqlite3"
    script = (
        "import sys; from pathlib import Path; from trimtab.spool import Spool\n"
        "Spool(Path(sys.argv[1])).add_session('theirs', 'run', '')\n"
        "print('ready', flush=True); sys.stdin.read()\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout.readline() == b"ready\n"
    spool = Spool(path)
    assert spool.claim([""]) == []
    other.kill()
    other.wait()
    assert spool.claim([""]) == ["theirs"]


def test_a_file_that_breaks_under_way_moves_the_spool_into_memory(tmp_path):
    path = tmp_path / "spool.sqlite3"
    spool = Spool(path)
    session = _session(spool)
    spool.declare(session, b"declaration")
    with sqlite3.connect(path) as rows:
        rows.execute("DROP TABLE segments")
    spool.add(session, 0, b"body")
    assert spool.path is None
    assert "segments" in spool.problem
    assert spool.waiting([session]).body == b"body"
    assert spool.waiting_declarations([session])[0].body == b"declaration"


def test_numbers_of_one_session_are_not_those_of_another(tmp_path: Path):
    spool = Spool(tmp_path / "spool.sqlite3")
    first, second = _session(spool), _session(spool)
    spool.add(first, 0, b"aa")
    spool.add(second, 0, b"bbb")
    spool.add(second, 0, b"again")
    held = spool.contents([second])
    assert (held.waiting, held.waiting_bytes) == (1, 3)
    assert spool.contents().waiting == 2


MOUNTS = {"/": "ext4", "/home": "nfs4", "/mnt/data": "lustre", "/mnt/data/local": "xfs"}


@pytest.mark.parametrize(
    ("path", "network"),
    [
        ("/home/ana/.local/state", True),
        ("/homeless", False),
        ("/mnt/data/x", True),
        ("/mnt/data/local/x", False),
        ("/var/lib", False),
    ],
)
def test_a_home_on_the_network_is_recognised_by_its_mount(path, network):
    assert is_network(Path(path), MOUNTS) == network


def test_a_link_that_leads_to_the_network_is_followed(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "far")
    mounts = {"/": "ext4", str(tmp_path / "far"): "fuse.sshfs"}
    assert is_network(tmp_path / "link" / "state", mounts)
    assert not is_network(tmp_path / "near", mounts)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert not is_network(tmp_path / "loop", mounts)


def test_a_small_disk_gives_a_small_cap(tmp_path, monkeypatch):
    monkeypatch.setenv("TRIMTAB_STATE_DIR", str(tmp_path))
    free = os.statvfs(tmp_path)
    expected = max(8 * 2**20, min(CAP_BYTES, free.f_bavail * free.f_frsize // 20))
    assert open_spool()._cap_bytes == pytest.approx(expected, rel=0.05)
    monkeypatch.setenv("TRIMTAB_SPOOL_MIB", "3")
    assert open_spool()._cap_bytes == 3 * 2**20
