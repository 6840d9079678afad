"""Carrying on from the columns of earlier hours gives the same frame as reading from scratch."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st
from trimtab.wire import Block, Segment, SessionClock, StepBlock, encode_segment

from advisor.store import room
from advisor.store.compaction import compact, merge
from advisor.store.frames import load_frame
from advisor.store.index import HOUR_MS, NodeHistory, SegmentRef, from_ms
from advisor.store.memory import MemoryStore
from rules.frame import Hardware, RunFrame

START = datetime(2026, 3, 1, 11, 40, 0, 250_000, tzinfo=UTC)
PART_MS = 600_000
"""The length of one segment: ten minutes."""
HOURS = 4
GAUGE, OTHER, COUNTER = "gpu0.busy_pct", "cpu0.busy_pct", "tree.cpu_seconds_total"
LATE = "gpu0.memory_used_bytes"
"""The series that begins in the second hour, and is sampled every five minutes."""


@dataclass
class Kept:
    """The columns that an analysis keeps for the next one."""

    bodies: dict[tuple[str, str], bytes] = field(default_factory=dict)
    found: int = 0
    most_kept: int = 1000
    """The number of kept columns from which on it is killed."""

    def find(self, node_key: str, name: str) -> bytes | None:
        body = self.bodies.get((node_key, name))
        self.found += body is not None
        return body

    def keep(self, node_key: str, name: str, hour_ms: int, body: bytes) -> None:
        assert hour_ms % HOUR_MS == 0
        if self.most_kept == 0:
            raise KeyboardInterrupt
        self.most_kept -= 1
        self.bodies[node_key, name] = body


class Watched(MemoryStore):
    """A store that remembers which objects were read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []

    def get(self, key: str) -> bytes:
        self.read.append(key)
        return super().get(key)


class Growing:
    """Nodes whose segments arrive in any order, while some hours are merged and compacted."""

    def __init__(self, seed: int, sessions: int = 2) -> None:
        self.store = Watched()
        self.random = np.random.default_rng(seed)
        self.started = [START + timedelta(minutes=70 * n, seconds=n) for n in range(sessions)]
        self.nodes = {f"n{n}": NodeHistory(f"n{n}", Hardware(), (), (), ()) for n in (1, 2)}
        self.end = START + timedelta(minutes=10)

    def arrives(self, node: str, session: int, seq: int) -> None:
        segment = _segment(UUID(int=10 * int(node[1]) + session), seq, self.random)
        key = f"hot/{node}/{session}/{seq}"
        self.store.put(key, encode_segment(segment))
        ref = SegmentRef(
            key, str(segment.clock.session_id), seq, self.started[session], seq * PART_MS, PART_MS
        )
        self.end = max(self.end, from_ms(ref.start_us // 1000 + PART_MS))
        old = self.nodes[node]
        known = [r for r in old.segments if r.key != key]
        self.nodes[node] = replace(old, segments=(*known, ref))

    def compacts(self, node: str, hour_ms: int) -> None:
        """Compact an hour with the other hours of the segments that lie in it."""
        old = self.nodes[node]
        hours, own = {hour_ms}, set[SegmentRef]()
        while new := {ref for ref in old.segments if hours & set(ref.hours_ms)} - own:
            own |= new
            hours |= {hour for ref in new for hour in ref.hours_ms}
        made = [
            ref for hour in sorted(hours) for ref in compact(self.store, old, from_ms(hour), "r")
        ]
        kept = [ref for ref in old.chunks if ref.hour_ms not in hours]
        left = tuple(ref for ref in old.segments if ref not in own)
        self.nodes[node] = replace(old, segments=left, chunks=(*kept, *made))

    def merges(self, node: str, hour_ms: int) -> None:
        """Merge the node's segments of one hour into a tail."""
        old = self.nodes[node]
        own = tuple(ref for ref in old.segments if list(ref.hours_ms) == [hour_ms])
        tails = {ref for ref in old.chunks if ref.kind == "tail" and ref.hour_ms == hour_ms}
        part = replace(old, segments=own, chunks=tuple(tails))
        if own and (tail := merge(self.store, part, from_ms(hour_ms), "r")):
            left = tuple(ref for ref in old.segments if ref not in own)
            chunks = (*(set(old.chunks) - tails), tail)
            self.nodes[node] = replace(old, segments=left, chunks=chunks)

    def corrects(self, session: int, seconds: int) -> None:
        """Correct the clock's offset: of what isn't compacted, as compacted samples keep their
        times.
        """
        self.started[session] += timedelta(seconds=seconds)
        for key, node in self.nodes.items():
            moved = [
                replace(ref, session_started_at=self.started[session])
                if ref.key.startswith(f"hot/{key}/{session}/")
                else ref
                for ref in node.segments
            ]
            self.nodes[key] = replace(node, segments=tuple(moved))

    def frame(self, kept: Kept | None, resolution: float) -> RunFrame:
        nodes = list(self.nodes.values())
        frame, unreadable = load_frame(
            self.store, nodes, START, self.end, resolution, False, carried=kept
        )
        assert unreadable == ()
        return frame


def _segment(session: UUID, seq: int, random: np.random.Generator) -> Segment:
    times = sorted(random.choice(PART_MS // 1000, 40, replace=False) * 1000)
    times = [int(at) for at in times]
    busy = [None if random.random() < 0.1 else int(v) for v in random.integers(0, 100, 40)]
    cores = [seq * 1000.5 + at / 1000 for at in times]
    blocks = [Block(times, {GAUGE: busy, OTHER: busy[::-1], COUNTER: cores})]
    if seq >= 3:
        blocks.append(Block([0, 300_000], {LATE: [seq, seq + 1]}))
    steps = StepBlock(0, "train", [0, 5_000_000], [4_000_000] * 2, [1_000, None], [8, 8])
    return Segment(
        run_id=UUID(int=1),
        job="job",
        attempt=0,
        machine_id="m",
        clock=SessionClock(session, "boot", 0, 0),
        seq=seq,
        start_ms=seq * PART_MS,
        duration_ms=PART_MS,
        resolution_ms=1000,
        blocks=blocks,
        steps=[steps],
    )


def assert_equal(left: RunFrame, right: RunFrame) -> None:
    assert left.resolution_seconds == right.resolution_seconds
    assert left.cell_seconds == right.cell_seconds
    for key, node in left.nodes.items():
        for name in ("samples", "ticks", "steps", "events"):
            mine, other = getattr(node, name), getattr(right.nodes[key], name)
            assert (mine is None) == (other is None)
            if mine is not None:
                pd.testing.assert_frame_equal(mine, other, check_exact=True)


def hour_ms(number: int) -> int:
    start_ms = int(START.timestamp() * 1000)
    return start_ms // HOUR_MS * HOUR_MS + number * HOUR_MS


nodes, sessions = st.sampled_from(["n1", "n2"]), st.integers(0, 1)
actions = st.one_of(
    st.tuples(st.just("arrive"), nodes, sessions, st.integers(0, 6 * HOURS - 1)),
    st.tuples(st.just("arrive"), nodes, sessions, st.integers(0, 6 * HOURS - 1)),
    st.tuples(st.just("hour"), nodes, sessions, st.integers(0, HOURS)),
    st.tuples(st.just("merge"), nodes, st.integers(0, HOURS)),
    st.tuples(st.just("compact"), nodes, st.integers(0, HOURS)),
    st.tuples(st.just("compact"), nodes, st.integers(0, HOURS)),
    st.tuples(st.just("correct"), sessions, st.sampled_from([-700, -1, 1, 90])),
    st.tuples(st.just("analyse"), st.sampled_from([2.0, 5.0, 30.0, 300.0])),
    st.tuples(st.just("analyse"), st.sampled_from([5.0])),
    st.tuples(st.just("kill"), st.integers(0, 2)),
    st.tuples(st.just("damage"), st.integers(0, 100)),
)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**16), done=st.lists(actions, min_size=4, max_size=30))
def test_it_carries_on_to_the_same_frame_whatever_happened_before(seed, done):
    growing, kept = Growing(seed), Kept()
    for first, *rest in [*done, ("analyse", 5.0), ("analyse", 5.0)]:
        if first == "arrive":
            growing.arrives(*rest)
        elif first == "hour":
            node, session, number = rest
            for seq in range(6 * number, 6 * number + 6):
                growing.arrives(node, session, seq)
        elif first == "compact":
            node, number = rest
            growing.compacts(node, hour_ms(number))
        elif first == "merge":
            node, number = rest
            growing.merges(node, hour_ms(number))
        elif first == "correct":
            growing.corrects(*rest)
        elif first == "damage":
            _damage(kept, *rest)
        elif first == "kill":
            _killed(growing, kept, *rest)
        else:
            assert_equal(growing.frame(kept, *rest), growing.frame(None, *rest))


def _damage(kept: Kept, number: int) -> None:
    if kept.bodies:
        name = sorted(kept.bodies)[number % len(kept.bodies)]
        kept.bodies[name] = kept.bodies[name][:-3] if number % 2 else b"nothing"


def _killed(growing: Growing, kept: Kept, after: int) -> None:
    kept.most_kept = after
    with suppress(KeyboardInterrupt):
        growing.frame(kept, 5.0)
    kept.most_kept = 1000


def aligned() -> Growing:
    growing = Growing(1, sessions=1)
    growing.started = [datetime(2026, 3, 1, 11, 0, tzinfo=UTC)]
    return growing


def test_an_hour_that_was_kept_is_not_read_again():
    growing, kept = aligned(), Kept()
    for seq in range(6 * HOURS):
        growing.arrives("n1", 0, seq)
    for number in range(HOURS - 1):
        growing.compacts("n1", hour_ms(number))
    expected = growing.frame(kept, 5.0)
    assert len(kept.bodies) == HOURS - 1
    samples = {ref.key for ref in growing.nodes["n1"].chunks if ref.kind == "samples"}
    growing.store.read.clear()
    assert_equal(growing.frame(kept, 5.0), expected)
    # Of the newest chunk's header one can tell how many series there are.
    assert len(samples & set(growing.store.read)) <= 1
    assert kept.found == HOURS - 1


def test_a_late_segment_changes_its_own_hour_only():
    growing, kept = aligned(), Kept()
    late = 8
    for seq in set(range(6 * HOURS)) - {late}:
        growing.arrives("n1", 0, seq)
    for number in range(HOURS):
        growing.compacts("n1", hour_ms(number))
    growing.frame(kept, 5.0)
    before = set(kept.bodies)
    growing.arrives("n1", 0, late)
    growing.compacts("n1", hour_ms(1))
    assert_equal(growing.frame(kept, 5.0), growing.frame(None, 5.0))
    assert len(set(kept.bodies) - before) == 1
    assert kept.found == HOURS - 1


def test_late_segments_that_are_not_compacted_yet_reach_the_hours_after_them():
    growing, kept = aligned(), Kept()
    for seq in set(range(6 * HOURS)) - {8, 9, 11}:
        growing.arrives("n1", 0, seq)
    for number in range(HOURS):
        growing.compacts("n1", hour_ms(number))
    for late in (8, 11, 9):
        growing.arrives("n1", 0, late)
        for _ in range(2):
            assert_equal(growing.frame(kept, 5.0), growing.frame(None, 5.0))


def test_samples_beyond_the_end_are_moved_inside_only_as_long_as_it_is_the_end():
    growing, kept = aligned(), Kept()
    for seq in range(12):
        growing.arrives("n1", 0, seq)
    for number in range(2):
        growing.compacts("n1", hour_ms(number))
    whole = growing.end
    for end in (whole - timedelta(minutes=25), whole):
        growing.end = end
        for _ in range(2):
            assert_equal(growing.frame(kept, 5.0), growing.frame(None, 5.0))


def test_another_release_finds_nothing_of_an_earlier_one(monkeypatch):
    growing, kept = aligned(), Kept()
    for seq in range(6):
        growing.arrives("n1", 0, seq)
    growing.compacts("n1", hour_ms(0))
    growing.arrives("n1", 0, 6)
    growing.frame(kept, 5.0)
    monkeypatch.setattr("advisor.store.columns.VERSION", 0)
    growing.frame(kept, 5.0)
    assert kept.found == 0
    assert len(kept.bodies) == 2


def test_a_run_with_many_series_gets_the_same_grid(monkeypatch):
    growing, kept = aligned(), Kept()
    for node in ("n1", "n2"):
        for seq in range(6 * HOURS):
            growing.arrives(node, 0, seq)
        for number in range(HOURS - 1):
            growing.compacts(node, hour_ms(number))
    monkeypatch.setattr(room, "MOST_VALUES", 10_000)
    expected = growing.frame(None, 5.0)
    assert expected.cell_seconds > 5.0
    for _ in range(2):
        assert_equal(growing.frame(kept, 5.0), expected)
    assert kept.found == 2 * (HOURS - 1)
