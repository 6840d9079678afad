"""The server time of all charts of a run's page, by the run's length and nodes.

    python -m bench.charts                 prints the figures; takes some minutes
    python -m bench.charts --days 1        a shorter longest run
    python -m bench.charts --check         exits with 1 if a promise is broken

Runs are stored as the service stores them: hours by compaction, and the last minutes of live nodes
as tails and hot segments. Each request is the one that a page makes, through Django's handler,
signed in; nothing is cached between requests. Figures are CPU time, so they don't depend on what
else runs.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import numpy as np
from trimtab.wire import Block, Segment, SessionClock, StepBlock, encode_segment

from advisor.store import chunks, tables
from advisor.store.chunks import Members
from advisor.store.compaction import compact
from advisor.store.folder import FolderStore
from advisor.store.index import ChunkRef, NodeHistory, SegmentRef
from advisor.store.ticks import SessionKey, TickColumn, Ticks
from bench.figures import note
from bench.own_service import own_service
from rules.frame import Hardware

MOST_SECONDS, MOST_GROWTH, TIMES = 0.25, 1.3, 9
BUCKETS = 340
"""The buckets of a chart that is 1,020 pixels wide."""
TICKS_AN_HOUR, TICKS_A_SEGMENT, STEPS_AN_HOUR = 7200, 20, 3600
LIVE_NODES, LIVE_SEGMENTS, MERGED_AT_ONCE = 8, 312, 6
"""52 minutes of an hour. What arrived since the last merging, up to a minute ago, is hot."""
MOST_OBJECTS = 10
"""The most objects of a live node that are opened for all charts."""
GPUS, RANKS = 8, 8
_NOT_SUMMED = (None,) * 5
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Row:
    name: str
    seconds: float
    objects: int
    answer_bytes: int


class CountingStore(FolderStore):
    """The folder of objects, which counts what is read."""

    reads = 0

    def get(self, key: str) -> bytes:
        CountingStore.reads += 1
        return super().get(key)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    with own_service("charts"):
        rows = list(_measured(_Service(), round(arguments.days * 24)))
    growth = rows[2].seconds / rows[0].seconds
    print(f"growth from {rows[0].name} to {rows[2].name}: {growth:.2f} times")
    slowest = max(row.seconds for row in rows)
    measured = f"at most {1000 * slowest:.0f} ms, growth {growth:.2f} times"
    opened = rows[-1].objects / LIVE_NODES
    print(f"objects opened of a live node: {opened:.1f}")
    is_kept = slowest <= MOST_SECONDS and growth <= MOST_GROWTH and opened <= MOST_OBJECTS
    note("charts", measured, is_kept)
    if not is_kept:
        print(f"NOT KEPT: {measured}")
    return 1 if arguments.check and not is_kept else 0


def _measured(service: _Service, most_hours: int):  # type: ignore[no-untyped-def]
    print(f"{'all charts of a page':24}{'CPU ms':>10}{'objects':>10}{'KB':>8}")
    for hours in (1, 24, most_hours):
        began = time.process_time()
        run = service.stored_run(hours)
        seconds = (time.process_time() - began) / hours
        yield _row(service, f"{hours} h, {GPUS} GPUs", run)
        print(f"{'':24}compaction {seconds:.2f} CPU-s an hour and node")
    live, merging = service.live_run()
    yield _row(service, f"{LIVE_NODES} live nodes", live)
    print(f"{'':24}merging {1000 * merging:.2f} CPU-ms a segment")


def _row(service: _Service, name: str, run: Any) -> Row:
    address = f"/runs/{run.pk}/charts/series.json?buckets={BUCKETS}"
    service.ask(address)
    CountingStore.reads, durations, size = 0, [], 0
    for _ in range(TIMES):
        began = time.process_time()
        size = service.ask(address)
        durations.append(time.process_time() - began)
    row = Row(name, statistics.median(durations), CountingStore.reads // TIMES, size)
    print(f"{name:24}{1000 * row.seconds:10.0f}{row.objects:10}{row.answer_bytes / 1000:8.0f}")
    return row


class StoredRuns:
    """Runs of a job, stored as the service stores them."""

    def __init__(self, job: Any) -> None:
        from django.conf import settings

        from advisor.store import opening

        self.job = job
        self.store = opening.open_store(settings.OBJECTS_URL)

    def stored_run(self, hours: int) -> Any:
        """Store a finished run of one node with eight GPUs."""
        from webapp.analysis.models import Compaction
        from webapp.analysis.samples import chart_chunks, chunk_rows

        start = datetime(2026, 3, 2, 0, 20, tzinfo=UTC)
        run = self._run("finished", start, timedelta(hours=hours))
        node = self._node(run, 1, GPUS)
        Compaction.objects.create(node=node)
        session = SessionKey(int(start.timestamp() * 10**6), str(uuid4()))
        ticks, steps = _ticks(session, start), _steps(session.id, start)
        for hour in range(hours):
            at = start.replace(minute=0) + hour * HOUR
            shifted = replace(
                ticks,
                times_ms=ticks.times_ms - 1_200_000 + hour * 3_600_000,
                columns={
                    name: _other(name, column, hour) for name, column in ticks.columns.items()
                },
            )
            refs = self._raw(node, at, shifted, steps, hour)
            history = NodeHistory(node.key, Hardware(), (), (), refs)
            chunk_rows.replace(node, (), compact(self.store, history, at, f"runs/{run.pk}"))
        while chart_chunks.renew(node, float("inf")):
            pass
        return run

    def _raw(
        self, node: Any, at: datetime, ticks: Ticks, steps: Any, hour: int
    ) -> tuple[ChunkRef, ...]:
        members = Members()
        members.add(ticks.session, range(hour * 360, hour * 360 + 360))
        starts = steps["start_us"].to_numpy() + (hour * 3600 - 1200) * 10**6
        own = steps.set_column(0, "start_us", [starts])
        bodies = {
            "samples": chunks.encode_ticks([ticks], members),
            "steps": chunks.encode_table(own, members),
        }
        refs = []
        for kind, body in bodies.items():
            key = f"raw/{node.pk}/{hour}-{kind}"
            self.store.put(key, body)
            refs.append(ChunkRef(key, kind, 0, at, at + HOUR))  # type: ignore[arg-type]
        return tuple(refs)

    def _run(self, state: str, start: datetime, length: timedelta) -> Any:
        from webapp.runs.models import Attempt, Run

        self.job.runs_made += 1
        run = Run.objects.create(
            id=uuid4(),
            workspace=self.job.workspace,
            job=self.job,
            number=self.job.runs_made,
            state=state,
            started_at=start,
            ended_at=start + length,
        )
        Attempt.objects.create(run=run, number=0)
        return run

    def _node(self, run: Any, number: int, gpus: int) -> Any:
        from webapp.runs.models import Node

        gpu = {"model": "NVIDIA A100", "memory_bytes": 80 * 2**30, "uuid": "", "allocated": True}
        return Node.objects.create(
            attempt=run.attempts.get(),
            number=number,
            machine_id=f"machine-{run.number}-{number}",
            hostname=f"node{number}",
            memory_bytes=2**40,
            gpus=[gpu] * gpus,
        )


class _Service(StoredRuns):
    """A workspace with one job, and a signed-in client."""

    def __init__(self) -> None:
        from django.test import Client

        from advisor.store import opening
        from webapp.accounts.models import Membership, User, Workspace
        from webapp.runs.models import Job

        opening.FolderStore = CountingStore  # type: ignore[misc]
        workspace = Workspace.objects.create(name="Charts")
        user = User.objects.create_user("ada@example.org")
        Membership.objects.create(workspace=workspace, user=user, role=Membership.OWNER)
        super().__init__(Job.objects.create(workspace=workspace, name="nightly/train.py"))
        self.client = Client(SERVER_NAME="localhost")
        self.client.force_login(user)

    def ask(self, address: str) -> int:
        answer = self.client.get(address, headers={"Accept-Encoding": "gzip"})
        if answer.status_code != 200:
            raise SystemExit(f"{address} answered {answer.status_code}")
        return len(answer.content)

    def live_run(self) -> tuple[Any, float]:
        """Store a running run whose nodes upload every 10 s; also return the CPU time of merging a
        segment.
        """
        from webapp.analysis.models import Compaction
        from webapp.analysis.samples import compaction

        start = datetime.now(UTC) - timedelta(seconds=10 * LIVE_SEGMENTS)
        run = self._run("running", start, timedelta(seconds=10 * LIVE_SEGMENTS))
        seconds = merged = 0.0
        for number in range(1, LIVE_NODES + 1):
            node = self._node(run, number, 1)
            Compaction.objects.create(node=node)
            made = _live_segments(run.pk, node.machine_id, start)
            for low in range(0, LIVE_SEGMENTS, MERGED_AT_ONCE):
                self._upload(node, start, made[low : low + MERGED_AT_ONCE])
                if low + MERGED_AT_ONCE < LIVE_SEGMENTS:
                    began = time.process_time()
                    compaction.compact_node(node.pk)
                    seconds += time.process_time() - began
                    merged += MERGED_AT_ONCE
        return run, seconds / merged

    def _upload(self, node: Any, start: datetime, segments: list[Segment]) -> None:
        from webapp.runs.models import Segment as SegmentRow
        from webapp.runs.models import Session as SessionRow

        session_id = segments[0].clock.session_id
        SessionRow.objects.get_or_create(
            id=session_id, defaults={"node": node, "boot_id": "b", "started_at": start}
        )
        for segment in segments:
            key = f"runs/{segment.run_id}/{session_id}/{segment.seq:09d}.segment"
            body = encode_segment(segment)
            self.store.put(key, body)
            ref = SegmentRef(
                key, str(session_id), segment.seq, start, segment.start_ms, segment.duration_ms
            )
            SegmentRow.objects.create(
                session_id=session_id,
                seq=ref.seq,
                object_key=key,
                sha256="",
                body_bytes=len(body),
                sample_count=segment.sample_count,
                start_ms=ref.start_ms,
                duration_ms=ref.duration_ms,
                resolution_ms=500,
            )


def _values(gpus: int, ticks: int) -> dict[str, np.ndarray]:
    """Return about a hundred series of a node, as agents sample them."""
    rng = np.random.default_rng(7)

    def percent() -> np.ndarray:
        return np.clip(np.round(60 + np.cumsum(rng.normal(0, 2, ticks)) % 40), 0, 100)

    def counter() -> np.ndarray:
        return np.cumsum(rng.integers(0, 4000, ticks) * 512).astype(float)

    def size() -> np.ndarray:
        return 2.0**33 + 4096 * np.cumsum(rng.integers(-40, 42, ticks))

    gauges = ("busy_pct", "sm_active_pct", "power_watts", "temperature_c", "sm_clock_mhz")
    values = {f"gpu{i}.{name}": percent() for i in range(gpus) for name in gauges}
    values |= {f"gpu{i}.memory_used_bytes": size() for i in range(gpus)}
    for name in ("disk.read", "disk.written", "net.received", "net.sent", "tree.read"):
        values[f"{name}_bytes_total"] = counter()
    values |= {"host.cpu_busy_pct": percent(), "host.memory_used_bytes": size()}
    return values | {f"host.other{i}_pct": percent() for i in range(100 - len(values))}


def _ticks(session: SessionKey, start: datetime) -> Ticks:
    times = int(start.timestamp() * 1000) + 500 * np.arange(TICKS_AN_HOUR, dtype=np.int64)
    known = np.ones(TICKS_AN_HOUR, dtype=bool)
    columns = {
        name: TickColumn(values.astype(np.int64), known)
        for name, values in _values(GPUS, TICKS_AN_HOUR).items()
    }
    return Ticks(session, 500, times, columns)


def _other(name: str, column: TickColumn, hour: int) -> TickColumn:
    """Return the column for another hour: no hour is like another, so that answers don't compress
    better than real ones.
    """
    if name.endswith("_total"):
        return column
    return TickColumn(np.roll(column.values, hour * 613) + hour % 7, column.known)


def _steps(session_id: str, start: datetime) -> Any:
    """Return the steps, a second each, of every rank."""
    first = int(start.timestamp() * 10**6)
    rows = [
        (first + step * 10**6 + rank, session_id, step // 10, rank, "train", *took, *_NOT_SUMMED)
        for step in range(STEPS_AN_HOUR)
        for rank, took in enumerate([(1, 990_000 + step, 90_000, 64)] * RANKS)
    ]
    return tables.table_from_rows([rows], tables.STEP_SCHEMA)


def _live_segments(run_id: Any, machine_id: str, start: datetime) -> list[Segment]:
    clock = SessionClock(uuid4(), "b", int(start.timestamp() * 10**9), 0)
    ticks = LIVE_SEGMENTS * TICKS_A_SEGMENT
    values = {name: v.astype(int).tolist() for name, v in _values(1, ticks).items()}
    offsets = [500 * i for i in range(TICKS_A_SEGMENT)]
    starts = [i * 10**6 for i in range(10)]
    steps = StepBlock(0, "train", starts, [990_000] * 10, [90_000] * 10, [64] * 10)
    made = []
    for seq in range(LIVE_SEGMENTS):
        part = slice(seq * TICKS_A_SEGMENT, (seq + 1) * TICKS_A_SEGMENT)
        block = Block(offsets, {name: column[part] for name, column in values.items()})
        made.append(
            Segment(
                run_id=run_id,
                job="bench",
                attempt=0,
                machine_id=machine_id,
                clock=clock,
                seq=seq,
                start_ms=seq * 10_000,
                duration_ms=10_000,
                resolution_ms=500,
                blocks=[block],
                steps=[steps],
            )
        )
    return made


if __name__ == "__main__":
    sys.exit(main())
