"""A fleet of virtual nodes uploads to a real service: rate, answers, lag, CPU and bytes.

    python -m bench.fleet                              500 nodes for five minutes
    python -m bench.fleet --nodes 20 --seconds 20      a short look
    python -m bench.fleet --check                      exits with 1 if a promise is broken

Each node sends 100 series at 2 Hz in uploads of 10 s. The nodes begin within the first ten seconds
(ramp); with `--outage` they are silent for that long after half of the time, and then send what
they kept as fast as it is taken, newest first.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from bench.figures import note
from bench.fleet_bodies import SECONDS, VirtualNode, tails
from tests.running_service import MARKS, Service

MOST_P99_SECONDS, MOST_LAG_SECONDS, MOST_CPU_MS = 1.0, 30.0, 2.5
SERIES, VARIANTS, LENGTH = 100, 8, 30
SAMPLED_EVERY_SECONDS = 2.0


@dataclass
class Taken:
    """What the service answered."""

    samples: int = 0
    sent_bytes: int = 0
    seconds: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    lags: list[float] = field(default_factory=list)


class Sender:
    """The uploads of one node over one connection."""

    def __init__(self, node: VirtualNode, port: int, taken: Taken) -> None:
        self._node, self._port, self._taken = node, port, taken

    async def run(self, delay: float, until: float, silence: tuple[float, float]) -> None:
        await asyncio.sleep(delay)
        self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        due, seq, kept = time.monotonic(), 0, []
        while due < until:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            if silence[0] <= time.monotonic() < silence[1]:
                kept.append(seq)
            else:
                await self._put(seq)
                while kept and time.monotonic() < due + SECONDS:
                    await self._put(kept.pop())
            seq, due = seq + 1, due + SECONDS
        self._streams[1].close()

    async def _put(self, seq: int) -> None:
        body, (reader, writer) = self._node.body(seq), self._streams
        head = (
            f"PUT {self._node.path(seq)} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n"
            f"Authorization: Bearer {self._node.token}\r\nContent-Encoding: gzip\r\n"
            "Content-Type: application/vnd.trimtab.segment+json\r\n"
            f"X-Trimtab-Sent-At: {time.time_ns()}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        began = time.monotonic()
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        status = int(answer.split(b" ", 2)[1])
        self._taken.seconds.append(time.monotonic() - began)
        self._taken.statuses[status] += 1
        self._taken.sent_bytes += len(head) + len(body)
        self._taken.samples += self._node.samples(seq) * (status == 200)


def cpu_seconds(service: Service) -> Counter[str]:
    """By part of the service, with the children of each."""
    used: Counter[str] = Counter()
    for name in MARKS:
        part = service.part(name)
        if part is None:
            continue
        for process in (part, *part.children(recursive=True)):
            times = process.cpu_times()
            used[name] += times.user + times.system  # type: ignore[assignment]
    return used


async def watch_lag(taken: Taken, database: Path, until: float) -> None:
    """How long the row that has waited longest has been due, now and then."""
    query = (
        "SELECT (julianday('now') - julianday(min(due_at))) * 86400 FROM analysis_analysis "
        "WHERE wanted > done AND given_up_at IS NULL AND leased_until IS NULL"
    )
    while time.monotonic() < until:
        await asyncio.sleep(SAMPLED_EVERY_SECONDS)
        connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
        (lag,) = connection.execute(query).fetchone()
        connection.close()
        taken.lags.append(max(0.0, lag or 0.0))


async def load(service: Service, options: argparse.Namespace) -> Taken:
    taken, pool = Taken(), tails(SERIES, VARIANTS, LENGTH)
    began = time.monotonic()
    until = began + options.seconds
    middle = began + options.seconds / 2
    silence = middle, middle + options.outage
    senders = []
    for number in range(options.nodes):
        node = VirtualNode(
            f"job {number % 20}", service.token, pool[number % VARIANTS], time.time_ns()
        )
        delay = number / options.nodes * min(SECONDS, options.seconds / 2)
        senders.append(Sender(node, service.port, taken).run(delay, until, silence))
    database = service.data_dir / "trimtab.sqlite3"
    await asyncio.gather(watch_lag(taken, database, until), *senders)
    return taken


def report(taken: Taken, cpu: Counter[str], seconds: float) -> bool:
    """Prints the figures; whether the promises are kept."""
    ordered = sorted(taken.seconds)
    p99 = ordered[int(0.99 * (len(ordered) - 1))]
    ingest_ms = 1000 * (cpu["web"] + cpu["redis"]) / len(ordered)
    millions = max(taken.samples, 1) / 1e6
    print(f"{taken.samples / seconds:,.0f} samples/s accepted, answers {dict(taken.statuses)}")
    print(f"answers: p50 {1000 * statistics.median(ordered):.0f} ms, p99 {1000 * p99:.0f} ms")
    print(f"due for analysis: p50 {statistics.median(taken.lags):.1f} s, ", end="")
    print(f"at most {max(taken.lags):.1f} s")
    for name, used in sorted(cpu.items()):
        print(f"{name:>8}: {used:7.2f} CPU-s, {used / millions:6.2f} a million samples")
    print(f"web and Redis: {ingest_ms:.2f} ms an upload")
    print(f"{taken.sent_bytes / max(taken.samples, 1):.2f} bytes a sample, headers counted")
    is_taken = set(taken.statuses) == {200}
    is_fast = p99 < MOST_P99_SECONDS and max(taken.lags) < MOST_LAG_SECONDS
    return is_taken and is_fast and ingest_ms <= MOST_CPU_MS


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--outage", type=float, default=0, help="seconds")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="trimtab-fleet-") as folder:
        service = Service(Path(folder)).start()
        try:
            before = cpu_seconds(service)
            taken = asyncio.run(load(service, options))
            used = Counter(cpu_seconds(service))
            used.subtract(before)
        finally:
            service.stop()
    is_kept = report(taken, used, options.seconds)
    note("fleet", f"{taken.samples / options.seconds:,.0f} samples/s", is_kept)
    return 0 if is_kept or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
