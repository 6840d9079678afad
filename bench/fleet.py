"""A fleet of virtual nodes uploads to a real service: rate, answers, lag, CPU and bytes.

    python -m bench.fleet                                      500 nodes for six minutes
    python -m bench.fleet --nodes 50 200 500 --seconds 60      how the cost grows with the nodes
    python -m bench.fleet --seconds 840 --outage 600           the backlog of an outage
    python -m bench.fleet --ramp 60                            not all in one burst
    python -m bench.fleet --database postgres                  with a PostgreSQL server of its own
    python -m bench.fleet --check                              exits with 1 if a promise is broken

Each node sends 100 series at 2 Hz in uploads of 10 s; nodes and their jobs are spread over the
workspaces. Each is a run of its own. They begin within `--ramp` seconds; six minutes hold the
second analysis of most of them. With `--outage` they are silent for that long in the middle; then
all of them connect and send at the same moment, the newest first, the backlog several segments
a request. MLflow's server gets such samples before and after that, since machines get slower and
faster: on the same machine, with the same kind of database, from an environment of its own, which
is kept in ~/.cache/trimtab-bench (or the folder TRIMTAB_PEERS). The generator of the load is on
this machine, too; its CPU isn't counted.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg

from bench import fleet_peer
from bench.cpu_meter import CpuMeter
from bench.figures import note
from bench.fleet_bodies import LENGTH, SECONDS, SERIES, VARIANTS, Tail, VirtualNode, tails
from bench.fleet_load import Plan, Sender, ServiceAnswers, fleet
from bench.fleet_peer import Peer
from bench.fleet_rows import Lag
from tests.faults.postgres import Cluster
from tests.running_service import MARKS, Service, manage

MOST_P99_SECONDS, MOST_LAG_SECONDS, MOST_GROWTH = 1.0, 30.0, 1.3
MOST_CPU_MS = 2.5
"""The most CPU of a segment of a known session."""
FIRST_ANALYSIS_SECONDS = 60.0
LEAST_RATIO = {"sqlite": 60.0, "postgres": 40.0}
"""The least ratio to MLflow's samples per CPU-second, of what takes uploads."""
LEAST_RATIO_WITH_WORKER = 25.0
INGEST, WORKER = ("web", "redis", "database"), ("worker", "worker's database")
WORKERS_SESSIONS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'trimtab worker'"
READ_EVERY_SECONDS, PEER_SECONDS = 2.0, 20.0
TOKENS = """
from webapp.accounts.models import Token, Workspace
for number in range({count}):
    workspace = Workspace.objects.create(name=f"Fleet {{number}}")
    print("token", Token.make(workspace, "fleet", ["ingest"])[1])
"""


@dataclass(frozen=True)
class Reading:
    uploads: int = 0
    ingest_seconds: float = 0.0


@dataclass
class FleetMeasurement:
    """One load on one service."""

    nodes: int
    seconds: float
    taken: ServiceAnswers
    lag: Lag
    longest_lag: float
    analysed_late: int
    drained_seconds: float
    cpu: dict[str, float]
    begun: Reading
    """The reading once each node has begun: from here on all sessions are known."""

    @property
    def ingest_seconds(self) -> float:
        return _ingest_seconds(self.cpu)

    @property
    def upload_ms(self) -> float:
        return 1000 * self.ingest_seconds / max(self.taken.uploads, 1)

    @property
    def known_ms(self) -> float:
        """Return the CPU of a segment of a known session."""
        seconds = self.ingest_seconds - self.begun.ingest_seconds
        return 1000 * seconds / max(self.taken.uploads - self.begun.uploads, 1)

    @property
    def p99(self) -> float:
        ordered = sorted(self.taken.seconds)
        return ordered[int(0.99 * (len(ordered) - 1))]

    def ratios(self, peer: Peer) -> tuple[float, float]:
        """Return the ratios to the peer's samples per CPU-second: what takes uploads, and the
        worker with it.
        """
        samples = self.taken.samples
        all_seconds = self.ingest_seconds + sum(self.cpu.get(name, 0.0) for name in WORKER)
        whole, with_worker = samples / self.ingest_seconds, samples / all_seconds
        return whole / peer.samples_per_cpu_second, with_worker / peer.samples_per_cpu_second

    def is_held(self, has_outage: bool) -> bool:
        taken = set(self.taken.statuses) == {200} or has_outage
        late = self.longest_lag > MOST_LAG_SECONDS or self.analysed_late
        return taken and not late and self.p99 < MOST_P99_SECONDS


@dataclass
class Database:
    """The database of the service and of MLflow; of SQLite each has its own file."""

    kind: str
    cluster: Cluster | None = None
    folder: Path | None = None

    @property
    def variables(self) -> dict[str, str]:
        return {"DATABASE_URL": self.cluster.url()} if self.cluster else {}

    @property
    def peer_store(self) -> str:
        """Return the URL in SQLAlchemy's form."""
        if self.cluster is None:
            return ""
        server = self.cluster.url().rpartition("/")[0]
        return f"{server.replace('postgresql:', 'postgresql+psycopg:')}/postgres"

    def processes(self) -> list[tuple[str, psutil.Process]]:
        """Return the server's processes; those that carry out the worker's statements are named
        apart.
        """
        if self.folder is None or self.cluster is None:
            return []
        pid = (self.folder / "data" / "postmaster.pid").read_text().splitlines()[0]
        with psycopg.connect(self.cluster.url()) as connection:
            found = connection.execute(WORKERS_SESSIONS).fetchall()
        every = [("database", psutil.Process(int(pid)))]
        for (number,) in found:
            with suppress(psutil.NoSuchProcess):
                every.append(("worker's database", psutil.Process(number)))
        return every


@contextmanager
def database(kind: str, folder: Path) -> Iterator[Database]:
    if kind == "sqlite":
        yield Database(kind)
        return
    folder.parent.chmod(0o755)  # Its user has to reach it
    cluster = Cluster(folder)
    try:
        yield Database(kind, cluster, folder)
    finally:
        cluster.stop()


def measure_service(options: argparse.Namespace, nodes: int) -> FleetMeasurement:
    """Measure on a new service, which is stopped afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="trimtab-fleet-") as folder,
        database(options.database, Path(folder) / "postgres") as rows,
    ):
        service = Service(Path(folder) / "data", has_tables=rows.cluster is None)
        service.start(**rows.variables)
        try:
            tokens = _tokens(service, options.workspaces, rows)
            meter = CpuMeter(lambda: _processes(service, rows))
            return asyncio.run(_load(service, rows, tokens, options, nodes, meter))
        finally:
            service.stop()


def _tokens(service: Service, count: int, rows: Database) -> list[str]:
    code = TOKENS.format(count=count)
    made = manage(service.data_dir, "shell", "-c", code, **rows.variables).communicate()[0]
    found = [line.split()[1] for line in made.splitlines() if line.startswith("token ")]
    assert len(found) == count, made
    return found


def _processes(service: Service, rows: Database) -> list[tuple[str, psutil.Process]]:
    parts = ((name, service.part(name)) for name in MARKS)
    known = [(name, part) for name, part in parts if part is not None]
    assert service.supervisor is not None
    return [("supervisor", service.supervisor), *known, *rows.processes()]


async def _load(
    service: Service,
    rows: Database,
    tokens: list[str],
    options: argparse.Namespace,
    nodes: int,
    meter: CpuMeter,
) -> FleetMeasurement:
    taken, pool = ServiceAnswers(), tails(SERIES, VARIANTS, LENGTH)
    silent = (options.seconds - options.outage) / 2
    plan = Plan(options.ramp, (silent, silent + options.outage), options.seconds)
    file = service.data_dir / "trimtab.sqlite3"
    lag = Lag(rows.cluster.url() if rows.cluster else str(file))
    await _warm(service, tokens[0], pool[0])
    meter.begin()
    began, waited, begun = time.monotonic(), [0.0], Reading()
    sending = asyncio.gather(*fleet(nodes, service.port, tokens, pool, plan, taken))
    while not sending.done():
        await asyncio.wait([sending], timeout=READ_EVERY_SECONDS)
        meter.read()
        if not begun.uploads and time.monotonic() - began > options.ramp + READ_EVERY_SECONDS:
            begun = Reading(taken.uploads, _ingest_seconds(meter.seconds()))
        now = time.time()
        await asyncio.to_thread(lag.read, taken.answered_at, now)
        waited.append(lag.waiting_seconds(taken.answered_at, now))
    await sending
    seconds, now = time.monotonic() - began, time.time()
    late = lag.analysed_late(taken.answered_at, now, FIRST_ANALYSIS_SECONDS)
    longest = max([*waited, *lag.seconds])
    drained = max(0.0, taken.drained_at - began - plan.silence[1]) if options.outage else 0.0
    return FleetMeasurement(
        nodes, seconds, taken, lag, longest, late, drained, meter.seconds(), begun
    )


async def _warm(service: Service, token: str, segments: list[Tail]) -> None:
    """Send the first upload: it makes the web server import what it needs, once in its life."""
    node, plan = VirtualNode("first", token, segments, time.time_ns()), Plan(0, (0, 0), 0.1)
    await Sender(node, service.port, ServiceAnswers(), plan).run(time.monotonic(), 0)


def _ingest_seconds(cpu: Mapping[str, float]) -> float:
    return sum(cpu.get(name, 0.0) for name in INGEST)


def report(one: FleetMeasurement) -> None:
    taken, millions = one.taken, max(one.taken.samples, 1) / 1e6
    print(f"{one.nodes} nodes, {one.seconds:.0f} s")
    print(f"  {taken.samples / one.seconds:,.0f} samples/s accepted", end=", ")
    print(f"{taken.uploads} segments in {taken.requests} requests, {taken.counted}")
    p50 = statistics.median(taken.seconds)
    print(f"  answers: p50 {1000 * p50:.0f} ms, p99 {1000 * one.p99:.0f} ms")
    lags = one.lag.seconds or [0.0]
    print(f"  judged after: p50 {statistics.median(lags):.1f} s ({len(one.lag.seconds)} uploads)")
    print(f"  longest wait {one.longest_lag:.1f} s", end=", ")
    firsts = one.lag.first_analyses.values()
    print(f"last first analysis after {max(firsts, default=0.0):.1f} s", end=", ")
    print(f"{one.analysed_late} runs without one after {FIRST_ANALYSIS_SECONDS:.0f} s")
    for name, used in sorted(one.cpu.items()):
        print(f"  {name:>17}: {used:7.2f} CPU-s, {used / millions:6.2f} a million samples")
    print(f"  {', '.join(INGEST)}: {one.upload_ms:.2f} ms of CPU a segment", end=", ")
    print(f"{one.known_ms:.2f} ms once all sessions are known ({MOST_CPU_MS} wanted)")
    print(f"  {taken.sent_bytes / max(taken.samples, 1):.2f} bytes a sample, headers counted")
    if one.drained_seconds:
        print(f"  the backlog was gone {one.drained_seconds:.0f} s after the outage")


def print_ratios(one: FleetMeasurement, peer: Peer | None, kind: str) -> bool:
    """Prints the ratios to MLflow; whether they are as promised."""
    if peer is None:
        note("ingest", "MLflow can't be measured here", is_kept=False)
        return False
    ingest, with_worker = one.ratios(peer)
    print(f"MLflow: {peer.samples:,} samples, {peer.cpu_seconds:.1f} CPU-s, ", end="")
    print(f"{peer.samples_per_cpu_second:,.0f} samples a CPU-second")
    words = f"{ingest:.1f} times MLflow's samples per CPU-second, {with_worker:.1f} with the worker"
    print(f"{kind}: {words}")
    is_kept = ingest >= LEAST_RATIO[kind] and with_worker >= LEAST_RATIO_WITH_WORKER
    note("ingest", f"{kind}: {words}", is_kept, f"{peer.samples_per_cpu_second:,.0f}")
    return is_kept


def _peer(options: argparse.Namespace) -> Peer | None:
    if options.no_peer:
        return None
    with (
        tempfile.TemporaryDirectory(prefix="trimtab-fleet-peer-") as folder,
        database(options.database, Path(folder) / "postgres") as rows,
    ):
        try:
            return fleet_peer.measure_peer(PEER_SECONDS, SERIES, rows.peer_store, rows.processes)
        except (OSError, AssertionError, subprocess.SubprocessError) as error:
            print(f"NO PEER: MLflow's server can't be measured: {error}", file=sys.stderr)
            return None


def growth(every: list[FleetMeasurement]) -> float:
    """Return the CPU a million samples with the most nodes, over that with the fewest."""
    costs = [sum(one.cpu.values()) / max(one.taken.samples, 1) for one in every]
    return costs[-1] / costs[0]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[500], help="each on a new service")
    parser.add_argument("--workspaces", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=360)
    parser.add_argument("--ramp", type=float, default=float(SECONDS), help="seconds")
    parser.add_argument("--outage", type=float, default=0, help="seconds")
    parser.add_argument("--database", choices=sorted(LEAST_RATIO), default="sqlite")
    parser.add_argument("--no-peer", action="store_true", help="without MLflow; fails --check")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    peers, every = [_peer(options)], []
    for nodes in sorted(options.nodes):
        every.append(measure_service(options, nodes))
        report(every[-1])
    last = every[-1]
    grown = growth(every)
    if len(every) > 1:
        print(f"CPU a sample grows {grown:.2f} times from {every[0].nodes} to {last.nodes} nodes")
    is_held = last.is_held(options.outage > 0) and grown <= MOST_GROWTH
    note("fleet", f"{last.taken.samples / last.seconds:,.0f} samples/s", is_held)
    peers.append(_peer(options))
    is_cheap = print_ratios(last, fleet_peer.sum_peers(peers), options.database)
    is_short = last.known_ms <= MOST_CPU_MS
    note("upload", f"{last.known_ms:.1f} ms", is_short)
    return 0 if (is_held and is_cheap and is_short) or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
