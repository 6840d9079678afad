"""The web server of this version on the data of a release, without a worker."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests

from tests.running_service import CHECKOUT, free_port, wait_until

PATIENCE_SECONDS = 120


def environment(folder: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    return own | {"TRIMTAB_DATA_DIR": str(folder / "data")}


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Starts it, as `up` does; its URL."""
    address = f"127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [sys.executable, "-m", "webapp.web_server", "--bind", address],
        cwd=CHECKOUT,
        env=environment(folder) | {"TRIMTAB_BASE_URL": f"http://{address}"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(
            lambda: _answers(f"http://{address}/healthz"), PATIENCE_SECONDS, "the web server"
        )
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(20)


def _answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=5).ok
    except requests.RequestException:
        return False
