"""MLflow's tracking server, given the same samples as its clients send them."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.cpu_meter import CpuMeter, Roots
from bench.fleet_bodies import HERTZ, SECONDS, series_names
from bench.overhead_peers import install_package
from tests.running_service import free_port, wait_until

MOST_METRICS = 1000
"""The most metrics of one request, https://mlflow.org/docs/latest/rest-api.html#log-batch."""
CLIENTS, START_SECONDS = 4, 120.0
REST_SECONDS, REST_PCT = 3.0, 15.0
"""The rest by which it is known to be started: it answers long before all of its processes are,
which is done once it uses no more of a core for so long."""


@dataclass(frozen=True)
class Peer:
    samples: int
    cpu_seconds: float
    """The CPU of the server's processes, and of the database's where that is a server."""

    @property
    def samples_per_cpu_second(self) -> float:
        return self.samples / self.cpu_seconds


def sum_peers(peers: Sequence[Peer | None]) -> Peer | None:
    """Return the sum of several measurements; None if one is missing."""
    every = [peer for peer in peers if peer is not None]
    if len(every) < len(peers):
        return None
    return Peer(sum(one.samples for one in every), sum(one.cpu_seconds for one in every))


def measure_peer(seconds: float, series: int, store: str, database: Roots) -> Peer:
    """Measure nodes that log 10 s of their series repeatedly, as fast as it is taken.

    Args:
        store: MLflow's `--backend-store-uri`; empty: an SQLite file.
        database: the processes of the store's own server.

    Raises:
        OSError, subprocess.SubprocessError: it can't be installed or doesn't start.
    """
    with (
        tempfile.TemporaryDirectory(prefix="trimtab-mlflow-") as folder,
        _server(Path(folder), store or f"sqlite:///{folder}/mlflow.sqlite3") as (port, server),
    ):
        meter = CpuMeter(lambda: [("mlflow", server), *database()])
        wait_until(lambda: _rests(meter), START_SECONDS, "MLflow rests")
        clients = [_Client(port, number, series) for number in range(CLIENTS)]
        meter.begin()
        for client in clients:
            client.begin(time.monotonic() + seconds)
        while any(client.is_alive() for client in clients):
            meter.read()
            time.sleep(1)
        if failed := [client.problem for client in clients if client.problem]:
            raise OSError(f"MLflow answers {failed[0]}")
        return Peer(sum(c.samples for c in clients), sum(meter.seconds().values()))


@contextmanager
def _server(folder: Path, store: str) -> Iterator[tuple[int, psutil.Process]]:
    cache = Path.home() / ".cache" / "trimtab-bench"
    cache.mkdir(parents=True, exist_ok=True)
    python, port = install_package("mlflow", cache, "psycopg[binary]"), free_port()
    command = [str(Path(python).parent / "mlflow"), "server", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--backend-store-uri", store]
    command += ["--default-artifact-root", str(folder / "artefacts")]
    path = f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            command, cwd=folder, env=os.environ | {"PATH": path}, stdout=log, stderr=log
        )
        root = psutil.Process(server.pid)
        try:
            words = (folder / "log").read_text
            wait_until(lambda: _answers(port), START_SECONDS, "MLflow answers", words)
            yield port, root
        finally:
            for process in (*root.children(recursive=True), root):
                process.terminate()
            server.wait(20)


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _rests(meter: CpuMeter) -> bool:
    meter.begin()
    time.sleep(REST_SECONDS)
    return sum(meter.seconds().values()) < REST_SECONDS * REST_PCT / 100


class _Client:
    """One run over one kept connection."""

    def __init__(self, port: int, number: int, series: int) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._names = series_names(series)
        experiment = self._post("experiments/create", {"name": f"job {number}"})["experiment_id"]
        begun = {"experiment_id": experiment, "start_time": 0}
        self._run = self._post("runs/create", begun)["run"]["info"]["run_id"]
        self.samples, self.problem = 0, ""

    def begin(self, until: float) -> None:
        self._thread = threading.Thread(target=self._log_until, args=(until,), daemon=True)
        self._thread.start()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _log_until(self, until: float) -> None:
        tick = 0
        try:
            while time.monotonic() < until:
                metrics = self._metrics(tick)
                for first in range(0, len(metrics), MOST_METRICS):
                    batch = metrics[first : first + MOST_METRICS]
                    self._post("runs/log-batch", {"run_id": self._run, "metrics": batch})
                    self.samples += len(batch)
                tick += SECONDS * HERTZ
        except (OSError, http.client.HTTPException) as error:
            self.problem = str(error)

    def _metrics(self, tick: int) -> list[dict[str, object]]:
        return [
            {"key": name, "value": float(at % 97), "timestamp": at * 1000 // HERTZ, "step": at}
            for at in range(tick, tick + SECONDS * HERTZ)
            for name in self._names
        ]

    def _post(self, method: str, document: object) -> dict:  # type: ignore[type-arg]
        try:
            return self._posted(method, document)
        except (ConnectionError, http.client.RemoteDisconnected):  # It was idle for too long
            self._http.close()
            return self._posted(method, document)

    def _posted(self, method: str, document: object) -> dict:  # type: ignore[type-arg]
        headers = {"Content-Type": "application/json"}
        self._http.request("POST", f"/api/2.0/mlflow/{method}", json.dumps(document), headers)
        answer = self._http.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise OSError(f"{answer.status}: {content[:300]!r}")
        return dict(json.loads(content))
