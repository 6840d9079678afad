from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.running_service import CHECKOUT, Service

TRAINING = CHECKOUT / "tests" / "processes" / "training.py"


@dataclass
class Machine:
    """A training machine: an agent with its own spool."""

    state: Path
    service: Service | None = None

    def run(self, seconds: float, *options: str) -> subprocess.Popen[str]:
        declared = ["--provider", "aws", "--service", "ec2", "--region", "us-east-1"]
        declared += ["--instance-type", "c5.large", "--job", "killed", *options]
        return self.trimtab(
            "run", *declared, "--result-file", str(self.state / "result.json"), "--",
            sys.executable, str(TRAINING), str(seconds),
        )  # fmt: skip

    def sync(self) -> subprocess.Popen[str]:
        return self.trimtab("sync")

    def trimtab(self, *words: str) -> subprocess.Popen[str]:
        variables = {"TRIMTAB_STATE_DIR": str(self.state / "spool")}
        if self.service is not None:
            variables |= {"TRIMTAB_URL": self.service.url, "TRIMTAB_TOKEN": self.service.token}
        command = [str(Path(sys.executable).parent / "trimtab"), *words]
        return subprocess.Popen(command, env=os.environ | variables, text=True)

    @property
    def run_id(self) -> str:
        return str(json.loads((self.state / "result.json").read_text())["run_id"])

    def spooled(self) -> dict[tuple[str, int], bytes]:
        """Return every sealed segment: acknowledged ones stay in the spool for a quarter of an
        hour.
        """
        (file,) = [path for path in (self.state / "spool").rglob("*") if _is_database(path)]
        with sqlite3.connect(file) as connection:
            rows = connection.execute("SELECT session, seq, body FROM segments")
            return {(session, seq): bytes(body) for session, seq, body in rows}


def _is_database(path: Path) -> bool:
    return path.is_file() and path.read_bytes()[:15] == b"SQLite format 3"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("service")).start()
    yield service
    service.stop()


@pytest.fixture
def machine(service: Service, tmp_path: Path) -> Machine:
    return Machine(tmp_path, service)
