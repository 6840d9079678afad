"""Agents of a release go on uploading while the service is upgraded: nothing is lost.

Where web servers are started one by one, the first of the new version may run before the migrations
have: it can't take uploads yet, and must not refuse them for good.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.running_service import CHECKOUT, wait_until
from tests.upgrade.reads import Api
from tests.upgrade.test_upgrade import RELEASES
from tests.upgrade.uploads import from_document, send
from tests.upgrade.web_server import PATIENCE_SECONDS, environment, serving
from webapp.sample_data.load import SEGMENT_TYPE, SampleUpload

pytestmark = pytest.mark.processes
NEVER_AGAIN = range(400, 500)
"""An agent drops what is answered so; everything else it sends again."""


@pytest.fixture(params=RELEASES, ids=lambda path: path.name)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(request.param) as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path


@pytest.fixture
def web(folder: Path) -> Iterator[str]:
    """Serve the data of the release by a web server of this version; yield its URL."""
    with serving(folder) as url:
        yield url


class OldAgent(threading.Thread):
    """Sends a run of the release's agent, each upload until it is taken."""

    def __init__(self, url: str, token: str, uploads: list[SampleUpload]) -> None:
        super().__init__(daemon=True)
        self._url, self._token, self._uploads = url, token, uploads
        self.refused: list[int] = []
        self.dropped: list[str] = []

    def run(self) -> None:
        for upload in self._uploads:
            while not self._is_settled(upload):
                time.sleep(0.05)

    def _is_settled(self, upload: SampleUpload) -> bool:
        try:
            send(self._url, self._token, upload)
        except requests.HTTPError as error:
            self.refused.append(error.response.status_code)
            if error.response.status_code in NEVER_AGAIN:
                self.dropped.append(f"{upload.path}: {error.response.text}")
                return True
            return False
        except requests.RequestException:
            return False
        return True


def test_what_agents_send_while_migrations_run_is_taken_afterwards(folder: Path, web: str) -> None:
    uploads = [from_document(each) for each in _read(folder, "unsent")]
    agent = OldAgent(web, (folder / "data/agent-token").read_text(), uploads)
    agent.start()
    wait_until(lambda: agent.refused, PATIENCE_SECONDS, "an upload before the migrations")
    migrate = [sys.executable, "manage.py", "migrate", "--no-input"]
    subprocess.run(
        migrate, cwd=CHECKOUT, env=environment(folder), check=True, stdout=subprocess.DEVNULL
    )
    agent.join(PATIENCE_SECONDS)
    assert not agent.is_alive(), "every upload is taken"
    assert agent.dropped == []
    sent = sum(upload.content_type == SEGMENT_TYPE for upload in uploads)
    assert _stored(folder, uploads[0].path.rpartition("/")[2]) == sent
    assert Api(web, _read(folder, "facts")["token"]).get(uploads[0].path)["state"] == "finished"


def _stored(folder: Path, run_id: str) -> int:
    """Return the number of segments of the run whose objects are there."""
    sql = (
        "SELECT g.object_key FROM runs_segment g JOIN runs_session s ON s.id = g.session_id"
        " JOIN runs_node n ON n.id = s.node_id JOIN runs_attempt a ON a.id = n.attempt_id"
        " WHERE a.run_id = ?"
    )
    with closing(sqlite3.connect(folder / "data/trimtab.sqlite3")) as database:
        keys = [key for (key,) in database.execute(sql, [run_id.replace("-", "")])]
    return sum((folder / "data/objects" / key).exists() for key in keys)


def _read(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
