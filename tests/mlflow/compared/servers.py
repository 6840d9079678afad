"""MLflow's own tracking server, and the calls of a client against a server."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.mlflow.pythons import python_with
from tests.running_service import free_port, wait_until

FOLDER = Path(__file__).parent
START_SECONDS, CALLS_SECONDS = 240, 960
QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "GIT_PYTHON_REFRESH": "quiet"}


@contextmanager
def mlflow_server(requirement: str, folder: Path) -> Iterator[str]:
    """Start MLflow's server of this version on an empty folder, and yield its address."""
    python, port = Path(python_with(requirement)), free_port()
    command = [str(python.parent / "mlflow"), "server", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--workers", "1", "--serve-artifacts"]
    command += ["--backend-store-uri", f"sqlite:///{folder}/mlflow.sqlite3"]
    command += ["--artifacts-destination", str(folder / "artefacts")]
    own = {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    own["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"
    with (folder / "log").open("w") as log:
        server = psutil.Popen(
            command, cwd=folder, env=os.environ | QUIET | own, stdout=log, stderr=log
        )
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until(lambda: _answers(url), START_SECONDS, "MLflow answers", lambda: log.name)
            yield url
        finally:
            for process in (*server.children(recursive=True), server):
                process.terminate()
            server.wait(20)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def make_calls(requirement: str, url: str, token: str = "") -> dict[str, dict[str, Any]]:
    """Return what each call of the client of this version gave at a server."""
    said = QUIET | {"MLFLOW_TRACKING_URI": url, "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2"}
    said |= {"MLFLOW_TRACKING_TOKEN": token} if token else {}
    done = subprocess.run(
        [python_with(requirement), str(FOLDER / "run_calls.py"), str(FOLDER / "calls")],
        env=os.environ | said,
        capture_output=True,
        text=True,
        timeout=CALLS_SECONDS,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("GIVEN ")]
    assert lines, (done.stdout + done.stderr)[-3000:]
    return dict(json.loads(lines[-1].removeprefix("GIVEN ")))
