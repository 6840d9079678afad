"""The CPU time of all whole analyses of a growing run, against analyses that start afresh.

    python -m bench.analyses                  prints the figures; takes some minutes
    python -m bench.analyses --case nodes     of one case only: day, nodes
    python -m bench.analyses --check          exits with 1 if a promise is broken

A run of 24 h on one node with eight GPUs, and one of 3 h on eight such nodes: 148 series every half
second, a step a second of each of eight ranks. It is stored as the service stores it: the last hour
or so as tails, the hours before compacted. It is analysed whenever it is due, which is when it has
doubled, at least every 15 min; of these analyses some are made, at even distances, and
each stands for those between. They are made three times: when hours are new, again with the columns
that were kept of them, as those between would be, and afresh. All must say the same. Prices and the
writing of rows are included.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import numpy as np

from advisor.store import chunks, tables
from advisor.store.chunks import Members
from advisor.store.compaction import compact
from advisor.store.index import ChunkRef, NodeHistory
from advisor.store.tails import encode_tail
from advisor.store.ticks import SessionKey, TickColumn, Ticks
from bench import looks
from bench.own_service import own_service
from rules.frame import Hardware

MOST_STORED_BYTES = 2.5
"""The most bytes of a sample, with the columns that are kept while the run runs."""
LEAST_RATIO = {"day": 1.7, "nodes": 1.05}
"""The least ratio to the CPU time of analyses that start afresh."""
GPUS, RANKS = 8, 8
TICKS_AN_HOUR, TICK_MS, SEGMENT_SECONDS = 7200, 500, 10
HOUR, SETTLED = timedelta(hours=1), timedelta(minutes=70)
FIRST_SECONDS = 120.0
SERIES = (
    *(name for name in looks.SERIES if not name.startswith("gpu")),
    *(f"gpu{gpu}.{name}" for gpu in range(GPUS) for name in looks.GPU_SERIES),
)
_NOT_SUMMED = (None,) * 5


@dataclass(frozen=True)
class Case:
    name: str
    hours: int
    nodes: int
    every: int
    """The number of analyses of which one is made."""

    def moments(self) -> list[tuple[float, int]]:
        """Return the seconds since the start at which an analysis is made, and how many it stands
        for.
        """
        from webapp.analysis import queue

        due, at = [], FIRST_SECONDS
        while at < self.hours * 3600:
            due.append(at)
            growth = max(at * queue.GROWTH, queue.SOONEST.total_seconds())
            at += min(growth, queue.LATEST.total_seconds())
        chosen = due[self.every - 1 :: self.every]
        left = len(due) - self.every * len(chosen)
        return [(moment, self.every) for moment in chosen] + [(due[-1], left)] * bool(left)


CASES = {"day": Case("day", 24, 1, 6), "nodes": Case("nodes", 3, 8, 4)}


class GrowingRun:
    """A running run whose objects are those of a moment of its life."""

    def __init__(self, case: Case) -> None:
        from django.conf import settings

        from advisor.store.opening import open_store
        from webapp.accounts.models import Workspace
        from webapp.analysis.models import Analysis
        from webapp.runs.models import Attempt, Job, Run

        self.store = open_store(settings.OBJECTS_URL)
        self.random = np.random.default_rng(7)
        now = datetime.now(UTC)
        self.began = now.replace(minute=0, second=0, microsecond=0) - case.hours * HOUR
        workspace = Workspace.objects.create(name=case.name)
        job = Job.objects.create(workspace=workspace, name="train.py")
        self.run = Run.objects.create(id=uuid4(), workspace=workspace, job=job, number=1)
        attempt = Attempt.objects.create(run=self.run, number=0)
        self.sessions = [self._session(attempt, number) for number in range(1, case.nodes + 1)]
        Analysis.objects.create(run=self.run, wanted=1)
        self.hours: dict[tuple[int, int], tuple[Ticks, Any]] = {}
        self.compacted: set[int] = set()
        self.raw_bytes = 0

    def grows_to(self, seconds: float) -> None:
        """Write its rows and objects at this time since its start."""
        from webapp.runs.models import Run
        from webapp.runs.models import Session as SessionRow

        seconds = seconds // SEGMENT_SECONDS * SEGMENT_SECONDS
        settled = max(int((timedelta(seconds=seconds) - SETTLED) / HOUR) + 1, 0)
        for hour in range(int(seconds // 3600) + 1):
            for place, session in enumerate(self.sessions):
                if hour not in self.compacted:
                    self._store(place, session, hour, seconds, is_settled=hour < settled)
            if hour < settled:
                self.compacted.add(hour)
        SessionRow.objects.filter(node__attempt__run=self.run).update(last_ms=int(seconds * 1000))
        Run.objects.filter(pk=self.run.pk).update(last_received_at=datetime.now(UTC))

    def analyse(self) -> tuple[float, list[Any]]:
        """Return the CPU seconds of a whole analysis, and its results."""
        from webapp.analysis import queue
        from webapp.analysis.judging.evaluation import evaluate
        from webapp.analysis.models import Analysis
        from webapp.analysis.results import outcome_rows

        queue.queue_run(self.run)
        Analysis.objects.filter(run=self.run).update(finished_at=None, given_up_at=None)
        held = queue.claim(self.run.pk)
        assert held is not None
        began = time.process_time()
        outcome = evaluate(held)
        queue.finish_analysis(held, partial(outcome_rows.save, outcome), outcome.is_final)
        seconds = time.process_time() - began
        measured = outcome.measured
        assert measured is not None
        assert not measured.unreadable
        assert not measured.too_large
        verdicts = [(j.rule_id, j.numbers, j.verdict) for j in measured.judgements]
        return seconds, [verdicts, measured.ledger, measured.figures, outcome.cost]

    def kept_bytes(self) -> int:
        from webapp.runs.models import Chunk

        rows = Chunk.objects.filter(kind="columns", replaced_at=None, node__attempt__run=self.run)
        return sum(rows.values_list("size_bytes", flat=True))

    def _session(self, attempt: Any, number: int) -> Any:
        from webapp.runs.models import Node, Session

        gpu = {"model": "NVIDIA A100-SXM4-40GB", "memory_bytes": 40 * 2**30}
        node = Node.objects.create(
            attempt=attempt,
            number=number,
            machine_id=f"m{number}",
            provider="aws",
            service="ec2",
            region="us-east-1",
            instance_type="p4d.24xlarge",
            vcpus=36,
            effective_cpus=36.0,
            memory_bytes=256 * 2**30,
            gpus=[gpu] * GPUS,
        )
        return Session.objects.create(id=uuid4(), node=node, boot_id="b", started_at=self.began)

    def _store(
        self, place: int, session: Any, hour: int, seconds: float, *, is_settled: bool
    ) -> None:
        """Store one node's hour, as a tail or compacted, instead of what was stored of it."""
        from webapp.analysis.samples import chunk_rows
        from webapp.runs.models import Chunk

        at = self.began + hour * HOUR
        known = SessionKey(int(self.began.timestamp() * 10**6), str(session.pk))
        ticks, steps = self._hour(place, known, hour)
        until = min(max(seconds - hour * 3600, 0.0), 3600.0)
        if not until:
            return
        members = Members()
        members.add(known, range(hour * 360, hour * 360 + int(until // SEGMENT_SECONDS)))
        node, prefix = session.node, f"runs/{self.run.pk}"
        Chunk.objects.filter(node=node, starts_at=at).exclude(kind="columns").delete()
        ticks = ticks.pick(np.arange(TICKS_AN_HOUR) < until * 1000 / TICK_MS)
        steps = steps.slice(0, int(until) * RANKS)
        if not is_settled:
            events = tables.EVENT_SCHEMA.empty_table()
            body = encode_tail([ticks], steps, events, members)
            key = f"{prefix}/{node.key}/{hour}-{until:.0f}.tail"
            self.store.put(key, body)
            ref = ChunkRef(key, "tail", 0, at, at + HOUR, size_bytes=len(body))
            chunk_rows.save(node, ref)
            return
        bodies = {
            "samples": chunks.encode_ticks([ticks], members),
            "steps": chunks.encode_table(steps, members),
        }
        raw = []
        for kind, body in bodies.items():
            self.store.put(f"raw/{node.pk}/{hour}-{kind}", body)
            raw.append(ChunkRef(f"raw/{node.pk}/{hour}-{kind}", kind, 0, at, at + HOUR))  # type: ignore[arg-type]
        history = NodeHistory(node.key, Hardware(), (), (), tuple(raw))
        for ref in compact(self.store, history, at, prefix):
            chunk_rows.save(node, ref)
            self.raw_bytes += ref.size_bytes or 0
        del self.hours[place, hour]

    def _hour(self, place: int, session: SessionKey, hour: int) -> tuple[Ticks, Any]:
        if (place, hour) not in self.hours:
            at = self.began + hour * HOUR
            known = np.ones(TICKS_AN_HOUR, dtype=bool)
            times = int(at.timestamp() * 1000) + TICK_MS * np.arange(TICKS_AN_HOUR, dtype=np.int64)
            columns = {name: TickColumn(self._values(name, hour), known) for name in SERIES}
            ticks = Ticks(session, TICK_MS, times, columns)
            self.hours[place, hour] = ticks, self._steps(session, hour)
        return self.hours[place, hour]

    def _values(self, name: str, hour: int) -> np.ndarray:
        if name.endswith("_ns_total") or name == "tree.suspended_count":
            return np.zeros(TICKS_AN_HOUR, dtype=np.int64)
        if name.endswith("_seconds_total"):
            return np.round((np.arange(TICKS_AN_HOUR) + hour * TICKS_AN_HOUR) * 4.1, 2)
        if name.endswith("_total"):
            busy = self.random.random(TICKS_AN_HOUR) < 0.5
            grown = np.cumsum(busy * self.random.integers(1, 4000, TICKS_AN_HOUR) * 512)
            return np.asarray(10**12 * (hour + 1) + grown)
        if name.endswith("_bytes"):
            moves = self.random.integers(-40, 42, TICKS_AN_HOUR)
            return 2**33 + 4096 * np.cumsum(moves * (self.random.random(TICKS_AN_HOUR) < 0.3))
        walk = np.cumsum(self.random.normal(0, 1.5, TICKS_AN_HOUR))
        noise = self.random.normal(0, 2, TICKS_AN_HOUR)
        return np.asarray(np.clip(np.round(60 + 25 * np.sin(walk / 15) + noise), 0, 100))

    def _steps(self, session: SessionKey, hour: int) -> Any:
        first = session.started_us + hour * 3600 * 10**6
        took = 980_000 + self.random.integers(0, 15_000, 3600 * RANKS)
        rows = [
            (
                first + second * 10**6 + rank,
                session.id,
                (hour * 3600 + second) // SEGMENT_SECONDS,
                rank,
                "train",
                *(1, int(took[second * RANKS + rank]), 90_000, 64, *_NOT_SUMMED),
            )
            for second in range(3600)
            for rank in range(RANKS)
        ]
        return tables.table_from_rows([rows], tables.STEP_SCHEMA)


class _Nothing:
    """Keeps no columns, so that each analysis starts afresh."""

    def __init__(self, *_: object) -> None: ...

    def find(self, *_: object) -> None: ...

    def keep(self, *_: object) -> None: ...

    def replace_unused(self) -> None: ...


@dataclass
class Sums:
    carried: float = 0.0
    afresh: float = 0.0
    most_kept: float = 0.0
    """Bytes a sample."""
    stored: float = 0.0
    """Bytes a sample, compacted."""

    @property
    def ratio(self) -> float:
        return self.afresh / self.carried


def measure_case(case: Case) -> Sums:
    run, sums = GrowingRun(case), Sums()
    for seconds, weight in case.moments():
        run.grows_to(seconds)
        first, results = run.analyse()
        again, repeated = run.analyse()
        with patch("webapp.analysis.judging.evaluation.ColumnChunks", _Nothing):
            afresh, expected = run.analyse()
        assert results == repeated == expected, f"not the same after {seconds:.0f} s"
        sums.carried += first + (weight - 1) * again
        sums.afresh += weight * afresh
        samples = seconds * 1000 / TICK_MS * len(SERIES) * case.nodes
        sums.most_kept = max(sums.most_kept, run.kept_bytes() / samples)
        print(f"{seconds / 3600:8.2f} h {first:8.2f} {again:8.2f} {afresh:8.2f} CPU s", flush=True)
    compacted = len(run.compacted) * TICKS_AN_HOUR * len(SERIES) * case.nodes
    sums.stored = run.raw_bytes / max(compacted, 1)
    return sums


def _reported(names: list[str]) -> Iterator[str]:
    """Yield the broken promises."""
    ratios = {}
    for name in names:
        case = CASES[name]
        print(f"{case.hours} h on {case.nodes} nodes: with new hours, without, afresh")
        sums = measure_case(case)
        stored = sums.stored + sums.most_kept
        print(f"all: {sums.carried:.0f} CPU s, afresh {sums.afresh:.0f}: {sums.ratio:.1f} times")
        print(f"stored: {sums.stored:.2f} bytes a sample, columns at most {sums.most_kept:.2f}")
        ratios[name] = sums.ratio
        if sums.ratio < LEAST_RATIO[name]:
            yield f"{name}: {sums.ratio:.1f} times, below {LEAST_RATIO[name]}"
        if stored > MOST_STORED_BYTES:
            yield f"{name}: {stored:.2f} bytes a sample, over {MOST_STORED_BYTES}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--case", choices=sorted(CASES))
    parser.add_argument("--check", action="store_true")
    chosen = parser.parse_args()
    with own_service("analyses"):
        broken = list(_reported([chosen.case] if chosen.case else sorted(CASES)))
    for promise in broken:
        print(f"broken: {promise}")
    return int(chosen.check and bool(broken))


if __name__ == "__main__":
    sys.exit(main())
