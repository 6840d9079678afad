"""Other monitors that do part of what the agent does, each started as its documentation says."""

from __future__ import annotations

import gzip
import http.client
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

MLFLOW = """
import sys, time
from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor
monitor = SystemMetricsMonitor("0" * 32, sampling_interval=float(sys.argv[1]),
                               samples_before_logging=1, tracking_uri=sys.argv[2])
monitor.start()
print("ready", flush=True)
time.sleep(1e6)
"""
WANDB = """
import sys, time, wandb
settings = wandb.Settings(x_stats_sampling_interval=float(sys.argv[1]), silent=True)
wandb.init(mode="offline", dir=sys.argv[2], settings=settings)
print("ready", flush=True)
time.sleep(1e6)
"""


@dataclass
class RunningMonitor:
    """A running monitor. `pids` are its root processes."""

    name: str
    process: subprocess.Popen[str]
    sender: str = ""
    """The path prefix on the server; empty if it sends nothing."""
    sent_bytes: int | None = None
    samples: int | None = None
    series: int | None = None
    scraper: Scraper | None = field(default=None, repr=False)


def start(
    folder: Path, interval_seconds: float, url: str, bundle: Path
) -> tuple[list[RunningMonitor], list[str]]:
    """Start the monitors that are available or can be installed. Prints a line for each other
    one.
    """
    peers, missing = [], []
    for name, begin in (("MLflow", _mlflow), ("W&B offline", _wandb), ("node_exporter", _node)):
        try:
            peers.append(begin(folder, interval_seconds, url, bundle))
        except (OSError, subprocess.SubprocessError) as error:
            missing.append(f"{name} is left out: {error}")
    return peers, missing


class Scraper(threading.Thread):
    """Scrapes an exporter as Prometheus does, to give it work."""

    def __init__(self, address: str, interval_seconds: float) -> None:
        super().__init__(daemon=True)
        self._address, self._interval = address, interval_seconds
        self.received_bytes = self.series = self.samples = 0

    def run(self) -> None:
        """Scrape until the exporter has ended."""
        with suppress(OSError, http.client.HTTPException):
            while True:
                self._scrape()
                time.sleep(self._interval)

    def _scrape(self) -> None:
        connection = http.client.HTTPConnection(self._address, timeout=5)
        connection.request("GET", "/metrics", headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        self.received_bytes += len(body) + len(str(answer.headers))
        lines = gzip.decompress(body).splitlines()
        self.series = sum(not line.startswith(b"#") for line in lines)
        self.samples += self.series


def _mlflow(folder: Path, interval: float, url: str, bundle: Path) -> RunningMonitor:
    python = install_package("mlflow", folder)
    environment = {"REQUESTS_CA_BUNDLE": str(bundle), "MLFLOW_TRACKING_URI": f"{url}/mlflow"}
    words = [python, "-W", "ignore", "-c", MLFLOW, str(interval), f"{url}/mlflow"]
    return RunningMonitor("MLflow", _ready(words, environment), sender="mlflow")


def _wandb(folder: Path, interval: float, url: str, bundle: Path) -> RunningMonitor:
    python = install_package("wandb", folder)
    words = [python, "-c", WANDB, str(interval), str(folder)]
    return RunningMonitor("W&B offline", _ready(words, {}))


def _node(folder: Path, interval: float, url: str, bundle: Path) -> RunningMonitor:
    program = os.environ.get("NODE_EXPORTER") or next(
        filter(None, map(shutil.which, ("node_exporter", "prometheus-node-exporter"))), None
    )
    if program is None:
        raise FileNotFoundError("no node_exporter on PATH, and NODE_EXPORTER names none")
    address = "127.0.0.1:19117"
    process = subprocess.Popen(
        [program, f"--web.listen-address={address}"], stderr=subprocess.DEVNULL, text=True
    )
    time.sleep(1)
    scraper = Scraper(address, interval)
    scraper.start()
    return RunningMonitor("node_exporter", process, scraper=scraper)


def install_package(package: str, folder: Path, *more: str) -> str:
    """Return a Python with the package and `more`: from an earlier run's environment, or a new one.

    Raises:
        OSError, subprocess.SubprocessError: it can't be installed.
    """
    venv = Path(os.environ.get("TRIMTAB_PEERS", folder)) / package
    python = venv / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", package, "psutil", *more]
        subprocess.run(pip, check=True, capture_output=True)
    return str(python)


def _ready(words: list[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        words,
        env=os.environ | dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == "ready":
            return process
    raise subprocess.SubprocessError(f"it ended with {process.wait()}")
