"""Ticks, seals and gaps of the sampling thread."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from trimtab.draft import SegmentDraft
from trimtab.loops import LoopRecords, TrainingLoops
from trimtab.sampler import Sampler
from trimtab.sources import Reading
from trimtab.spool import Spool
from trimtab.timeline import SessionTimeline
from trimtab.wire import decode_segment

from tests.agent.conftest import trimtab_command
from tests.running_service import wait_until


class Steady:
    def __init__(self) -> None:
        self.reads = 0

    def read(self) -> Reading:
        self.reads += 1
        return {"host.x_count": self.reads}


class Noted(Steady):
    """Knows when it was read, by the monotonic clock."""

    def __init__(self) -> None:
        super().__init__()
        self.read_at: list[float] = []

    def read(self) -> Reading:
        self.read_at.append(time.monotonic())
        return super().read()


class Broken:
    """Fails in every way that a kernel file can."""

    def __init__(self) -> None:
        self._errors = [OSError("gone"), ValueError("odd"), IndexError("short"), KeyError("new")]

    def read(self) -> Reading:
        raise self._errors[0]


def _sampled(
    sources, tmp_path: Path, seconds: float
) -> list[tuple[SegmentDraft, LoopRecords, int]]:
    sealed: list[tuple[SegmentDraft, LoopRecords, int]] = []
    timeline = SessionTimeline()
    sampler = Sampler(
        sources, TrainingLoops(tmp_path, timeline), timeline, 0.1, lambda *s: sealed.append(s)
    )
    sampler.start()
    time.sleep(seconds)
    sampler.finish([("session_end", {"state": "finished"})], 2.0)
    assert not sampler.is_alive()
    return sealed


def test_a_failing_source_is_missing_and_the_others_go_on(tmp_path):
    ((draft, _, _),) = _sampled([Broken(), Steady()], tmp_path, 0.55)
    (block,) = draft.blocks()
    assert set(block.columns) == {"host.x_count", "agent.tick_late_ms"}
    assert 5 <= len(block.times_ms) <= 7
    assert draft.events[-1].kind == "session_end"


def test_a_changed_interval_begins_a_segment_of_its_own_and_is_no_gap(tmp_path, monkeypatch):
    monkeypatch.setattr("trimtab.sampler._GAP_SECONDS", 0.1)
    sealed: list[SegmentDraft] = []
    loops, timeline = TrainingLoops(tmp_path, SessionTimeline()), SessionTimeline()
    sampler = Sampler([Steady()], loops, timeline, 0.6, lambda draft, *_: sealed.append(draft))
    sampler.start()
    sampler.set_interval(0.1)
    time.sleep(1.05)
    sampler.finish([], 2.0)
    slow, fast = sealed
    assert (slow.resolution_ms, fast.resolution_ms) == (600, 100)
    assert len(slow.blocks()[0].times_ms) == 1
    assert len(fast.blocks()[0].times_ms) >= 3
    assert [event.kind for draft in sealed for event in draft.events] == ["process_start"]


def test_ticks_are_dated_by_when_they_were_read(tmp_path):
    """A busy machine may read late."""
    source, began = Noted(), time.monotonic()
    ((draft, _, ended_ns),) = _sampled([source], tmp_path, 0.75)
    times = draft.blocks()[0].times_ms
    assert times == sorted(set(times))
    assert times == pytest.approx([1000 * (at - began) for at in source.read_at], abs=60)
    assert times[0] >= 40, "not before its interval of 100 ms"
    assert times[-1] <= ended_ns // 1_000_000


def test_a_series_that_appears_later_is_missing_before():
    draft = SegmentDraft(10**9, 500)
    draft.add(10**9, {"host.a_pct": 1})
    draft.add(2 * 10**9, {"host.a_pct": 2, "gpu0.busy_pct": 5})
    draft.add(3 * 10**9, {"gpu0.busy_pct": 6, "host.never_pct": None})
    (block,) = draft.blocks()
    assert block.times_ms == [0, 1000, 2000]
    assert block.columns == {"host.a_pct": [1, 2, None], "gpu0.busy_pct": [None, 5, 6]}


def test_a_stopped_process_gives_a_gap_and_no_made_up_samples(trimtab, online, service, tmp_path):
    """SIGSTOP and SIGCONT of the agent stand for a machine that doesn't run for a while."""
    started, finish = tmp_path / "started", tmp_path / "finish"
    training = f"touch {started}; while [ ! -e {finish} ]; do sleep 0.05; done"
    agent = subprocess.Popen(
        trimtab_command("run", "--interval", "0.1", "--", "sh", "-c", training),
        env=online,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_until(started.exists, 20, "the command runs")
    time.sleep(1.5)  # samples of every kind, on a busy machine too
    os.kill(agent.pid, signal.SIGSTOP)
    time.sleep(2.6)
    os.kill(agent.pid, signal.SIGCONT)
    time.sleep(1.0)
    finish.touch()
    assert agent.wait(20) == 0
    first, second = service.segments
    (gap,) = [event.data for event in second.events if event.kind == "gap"]
    assert gap["reason"] == "late"
    assert gap["to_ms"] - gap["from_ms"] == pytest.approx(2600, abs=400)
    assert first.start_ms + first.duration_ms == gap["from_ms"]
    assert second.start_ms == gap["to_ms"]
    assert all(t + first.start_ms <= gap["from_ms"] for t in first.blocks[0].times_ms)
    assert second.events[-1].data["final_seq"] == second.seq == 1


@pytest.mark.long
def test_a_killed_agent_loses_ten_seconds_at_most_and_the_next_sync_delivers(
    trimtab, environment, service, tmp_path
):
    agent = subprocess.Popen(
        trimtab_command("run", "--", "sleep", "60"),
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    time.sleep(22)
    (child,) = _children(agent.pid)
    agent.kill()
    agent.wait()
    os.kill(child, signal.SIGKILL)
    kept = Spool(tmp_path / "state" / "spool.sqlite3")
    sessions = kept.claim(None)
    newest = decode_segment(kept.waiting(sessions).body)
    assert newest.start_ms + newest.duration_ms >= 19_000
    kept.release(sessions[0])
    online = environment | {"TRIMTAB_URL": service.url, "TRIMTAB_TOKEN": "tt_x"}
    assert trimtab(online, "sync").returncode == 0
    assert [segment.seq for segment in service.segments] == [0, 1]


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
