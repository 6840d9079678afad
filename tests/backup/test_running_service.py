"""A real service is backed up while agents upload, and restored beside it."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import tarfile
import threading
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
import requests

from tests.processes.person import Person
from tests.running_service import Service, manage, wait_until
from tests.upgrade.reads import Answers, Api, answers
from tests.upgrade.test_upgrade import RELEASES
from tests.upgrade.uploads import send
from webapp.sample_data.histories import runs_of
from webapp.sample_data.load import uploads_of

QUIET_SECONDS = 15
"""The schedule's first tasks are done by then, and rows that they found are due."""
pytestmark = [pytest.mark.processes, pytest.mark.long, pytest.mark.timeout(900)]


class Load(threading.Thread):
    """Runs that arrive until it is stopped, in a workspace of their own."""

    def __init__(self, service: Service) -> None:
        super().__init__(daemon=True)
        self._service = service
        self._token = _token_of_another_workspace(service)
        self.taken, self.is_stopped = 0, threading.Event()

    def run(self) -> None:
        for number in range(100):
            for run in runs_of("product-photos/train.py", datetime.now(UTC), f"load {number}"):
                for upload in uploads_of(run):
                    if self.is_stopped.is_set():
                        return
                    send(self._service.url, self._token, upload)
                    self.taken += 1


def test_a_restored_service_answers_as_the_one_under_load_did(tmp_path: Path) -> None:
    with tarfile.open(RELEASES[-1]) as packed:
        packed.extractall(tmp_path, filter="data")
    facts = json.loads((tmp_path / "facts.json").read_text())
    service = Service(tmp_path / "data").start()
    load = Load(service)
    try:
        _wait_until_settled(service)
        before = _answers(service, facts)
        load.start()
        assert _manage(service.data_dir, "backup", tmp_path / "backup.tar") == 0
        taken_at_the_end = load.taken
        assert taken_at_the_end > 0
        assert _manage(service.data_dir, "restore", tmp_path / "backup.tar") == 1, "it runs"
    finally:
        load.is_stopped.set()
        load.join(30)
        service.stop()
    assert _manage(tmp_path / "new", "restore", tmp_path / "backup.tar") == 0
    _assert_whole(tmp_path / "new")
    restored = Service(tmp_path / "new").start()
    try:
        assert _answers(restored, facts) == before
        assert requests.get(f"{restored.url}/readyz", timeout=10).status_code == 200
    finally:
        restored.stop()


def _answers(service: Service, facts: dict[str, list[str]]) -> Answers:
    """Return all reads of the workspace in which nothing arrives, less what moves with the
    clock.
    """
    read = answers(Api(service.url, str(facts["token"])), facts["runs"], facts["months"][:1])
    for budget in read["/api/v1/budgets"]["budgets"]:
        for name in ("forecast_usd", "forecast_low_usd", "forecast_high_usd"):
            del budget[name]
    return read


def _token_of_another_workspace(service: Service) -> str:
    owner = Person(service)
    owner.post(f"{service.url}/workspace/new/", name="Load")
    tokens = f"{service.url}/settings/tokens/"
    page = owner.send(tokens, tokens, {"name": "load", "scopes": "ingest", "days": ""})
    shown = re.search(r">(tt_[\w-]+)<", page)
    assert shown is not None, page
    return shown[1]


def _wait_until_settled(service: Service) -> None:
    """Wait until nothing is left to analyse, also not what the schedule asks for after a start:
    analyses by an earlier release are renewed.
    """
    quiet_since = time.monotonic()

    def is_settled() -> bool:
        nonlocal quiet_since
        if _unfinished(service.data_dir):
            quiet_since = time.monotonic()
        return time.monotonic() - quiet_since > QUIET_SECONDS

    wait_until(is_settled, 120, "nothing is left to analyse")


def _unfinished(data_dir: Path) -> int:
    with closing(sqlite3.connect(data_dir / "trimtab.sqlite3")) as database:
        sql = "SELECT COUNT(*) FROM analysis_analysis WHERE done < wanted"
        (count,) = database.execute(sql).fetchone()
    return int(count)


def _manage(data_dir: Path, *words: str | Path) -> int:
    process = manage(data_dir, *map(str, words))
    process.communicate(timeout=120)
    return process.returncode


def _assert_whole(data_dir: Path) -> None:
    with closing(sqlite3.connect(data_dir / "trimtab.sqlite3")) as database:
        sql = "SELECT object_key, sha256 FROM runs_segment WHERE object_key <> ''"
        named = database.execute(sql).fetchall()
    assert named
    for key, sha256 in named:
        content = (data_dir / "objects" / key).read_bytes()
        assert hashlib.sha256(content).hexdigest() == sha256
