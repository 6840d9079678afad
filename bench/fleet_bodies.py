"""Bodies of uploads, encoded before they are needed, so that a generator of load costs little.

The samples of a segment are long and the same for many nodes; what differs (run, session, number,
time) is short. So each body is a short part of its own and a long one that was compressed before,
which together are one gzip stream.
"""

from __future__ import annotations

import gzip
import json
import random
import struct
import zlib
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from trimtab.wire import Block, Segment, SessionClock, StepBlock, encode_segment

SECONDS, HERTZ, SERIES = 10, 2, 100
VARIANTS, LENGTH = 8, 30
"""Nodes that differ, and segments of each before they repeat."""
SEGMENT_MS, TICKS = SECONDS * 1000, SECONDS * HERTZ
STEP_US = 250_000
_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_MIB = 2**20


def series_names(count: int) -> list[str]:
    """Return names as an agent with eight GPUs gives them: gauges, counters and what rarely
    changes.
    """
    of_machine = [
        *("host.cpu_busy_pct", "host.cpu_user_pct", "host.cpu_system_pct", "host.cpu_iowait_pct"),
        *("host.memory_used_bytes", "tree.memory_used_bytes", "tree.cpu_seconds_total"),
        *("disk.read_bytes_total", "disk.write_bytes_total", "disk.busy_pct"),
        *("net.received_bytes_total", "net.sent_bytes_total", "agent.tick_late_ms"),
    ]
    kinds = ("busy_pct", "memory_used_bytes", "power_watts", "sm_clock_mhz", "temperature_celsius")
    gpus = [f"gpu{number}.{kind}" for number in range(8) for kind in kinds]
    cores = [f"cpu{number}.busy_pct" for number in range(max(0, count))]
    return [*of_machine, *gpus, *cores][:count]


@dataclass(frozen=True)
class Tail:
    """All of a body from its blocks on: its text's CRC and length, and the compressed text."""

    text: bytes
    compressed: bytes
    samples: int


def tails(series: int, variants: int, length: int) -> list[list[Tail]]:
    """Return `variants` nodes, each with `length` segments that follow one another."""
    return [_tails_of(series, length, random.Random(seed)) for seed in range(variants)]


def _tails_of(series: int, length: int, chance: random.Random) -> list[Tail]:
    sources = [_Source(name, chance) for name in series_names(series)]
    return [_tail(sources, chance) for _ in range(length)]


class _Source:
    """One series: gauges wander, counters rise, some things stay as they are."""

    def __init__(self, name: str, chance: random.Random) -> None:
        self.name, self._chance = name, chance
        self._level = 50.0 if "_pct" in name else 2.0 * 2**30
        self._counted = 0

    def values(self) -> list[float | int]:
        return [self._next() for _ in range(TICKS)]

    def _next(self) -> float | int:
        if self.name.endswith("seconds_total"):
            self._counted += 40 + self._chance.randrange(20)
            return round(self._counted / 100, 2)
        if self.name.endswith("_total"):
            self._counted += self._chance.randrange(4 * _MIB)
            return self._counted
        if self.name.endswith("_bytes"):
            self._level += self._chance.choice((0, 0, 0, 0, 2 * _MIB))
            return int(self._level)
        if self.name.endswith(("_mhz", "_celsius")):
            return self._chance.choice((1410, 1410, 1410, 1395))
        self._level = min(max(self._level + self._chance.uniform(-5, 5), 0), 100)
        return round(self._level, 1)


def _tail(sources: list[_Source], chance: random.Random) -> Tail:
    times = [tick * 1000 // HERTZ + chance.randrange(3) for tick in range(TICKS)]
    count = SEGMENT_MS * 1000 // STEP_US
    waits: list[int | None] = [chance.randrange(STEP_US // 10) for _ in range(count)]
    lasted = [STEP_US + chance.randrange(-2000, 2000) for _ in range(count)]
    starts = [number * STEP_US for number in range(count)]
    segment = Segment(
        *(UUID(int=0), "job", 0, "machine", SessionClock(UUID(int=0), "boot", 0, 0)),
        *(0, 0, SEGMENT_MS, 1000 // HERTZ),
        blocks=[Block(times, {source.name: source.values() for source in sources})],
        steps=[StepBlock(0, "train", starts, lasted, waits, [64] * count)],
    )
    whole = gzip.decompress(encode_segment(segment))
    text = whole[whole.index(b'"blocks":') :]
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return Tail(text, packer.compress(text) + packer.flush(), segment.sample_count)


@dataclass
class VirtualNode:
    """One session of one node of one run; `body` is its next upload."""

    job: str
    token: str
    tails: list[Tail] = field(repr=False)
    started_at_ns: int
    run_id: UUID = field(default_factory=uuid4)
    session_id: UUID = field(default_factory=uuid4)
    machine_id: str = field(default_factory=lambda: uuid4().hex)
    seq: int = 0

    def path(self, seq: int) -> str:
        return f"/api/v1/runs/{self.run_id}/segments/{self.session_id}/{seq}"

    def body(self, seq: int) -> bytes:
        tail = self.tails[seq % len(self.tails)]
        head = json.dumps(
            {
                "version": 1,
                "run_id": str(self.run_id),
                "job": self.job,
                "attempt": 0,
                "machine_id": self.machine_id,
                "session_id": str(self.session_id),
                "boot_id": self.machine_id,
                "session_started_at_ns": self.started_at_ns,
                "session_started_mono_ns": 0,
                "seq": seq,
                "start_ms": seq * SEGMENT_MS,
                "duration_ms": SEGMENT_MS,
                "resolution_ms": 1000 // HERTZ,
            },
            separators=(",", ":"),
        )
        return _joined(head[:-1].encode() + b",", tail)

    def samples(self, seq: int) -> int:
        return self.tails[seq % len(self.tails)].samples


def _joined(head: bytes, tail: Tail) -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    packed = packer.compress(head) + packer.flush(zlib.Z_SYNC_FLUSH)
    check = zlib.crc32(tail.text, zlib.crc32(head))
    sizes = struct.pack("<II", check, (len(head) + len(tail.text)) & 0xFFFFFFFF)
    return _GZIP_HEAD + packed + tail.compressed + sizes
