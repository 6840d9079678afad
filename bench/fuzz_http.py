"""Hostile requests to a real service: every answer, its memory, and what it kept."""

from __future__ import annotations

import http.client
import json
import math
import sqlite3
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import requests

from bench.fuzz import MOST_MORE_BYTES, MOST_PROBLEMS, OVER_HTTP, Result
from bench.fuzz_requests import MLFLOW, HostileRequest, make_requests
from bench.hostile import web_processes
from tests.running_service import Service, wait_until

ANSWER_SECONDS = 60
FRAMES = 9
"""Lines of a traceback that are shown."""
SENDERS, MOST_SENDERS = 4, 16
"""The senders at the same time, for few and for many inputs: an upload mostly waits for others with
which it is written."""
MANY = 50_000
SETTLE_SECONDS = 600
UNLIMITED = {
    "TRIMTAB_TOKEN_REQUESTS_A_MINUTE": "0",
    "TRIMTAB_ADDRESS_REQUESTS_A_MINUTE": "0",
}


class Sender:
    """One kept-alive connection of a client that sends nonsense."""

    def __init__(self, service: Service, found: Result) -> None:
        self._service, self.found, self._token = service, found, service.token
        self._connection = self._connected()

    def send_all(self, inputs: int, seed: str) -> set[UUID]:
        """Send so many hostile requests. Return the runs of which uploads were accepted."""
        accepted = set()
        for number, asked in enumerate(make_requests(inputs, seed, self.call)):
            status = self.send(asked, f"seed {seed}, input {number}")
            self.found.outcomes["accepted" if 200 <= status < 300 else "refused"] += 1
            if status == 200 and asked.run_id:
                accepted.add(asked.run_id)
            if len(self.found.problems) >= MOST_PROBLEMS:
                break
        return accepted

    def send(self, asked: HostileRequest, name: str) -> int:
        """Return the status, or 0 without an answer. Problems are recorded under `name`."""
        began = time.perf_counter()
        name = f"{name}, {asked.method} {asked.path[:200]}"
        try:
            answer, content = self._answer(asked)
        except (OSError, http.client.HTTPException) as error:
            self.found.problems.append(f"{name}: {type(error).__name__}: {error}")
            self._connection = self._connected()
            return 0
        self.found.slowest_seconds = max(self.found.slowest_seconds, time.perf_counter() - began)
        if problem := _problem(answer, content, asked.is_mlflow):
            self.found.problems.append(f"{name}: {problem}")
        return answer.status

    def call(self, verb: str, method: str, said: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a valid call of MLflow's API."""
        headers, body = {"Content-Type": "application/json"}, json.dumps(said).encode()
        asked = HostileRequest(verb, f"{MLFLOW}/{method}", body, headers, is_mlflow=True)
        answer, content = self._answer(asked)
        assert answer.status == 200, content
        return dict(json.loads(content))

    def _answer(self, asked: HostileRequest) -> tuple[http.client.HTTPResponse, bytes]:
        headers = {"Authorization": f"Bearer {self._token}", **asked.headers}
        self._connection.request(asked.method, asked.path, asked.body, headers)
        answer = self._connection.getresponse()
        return answer, answer.read()

    def _connected(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._service.port, timeout=ANSWER_SECONDS)


def _problem(answer: http.client.HTTPResponse, content: bytes, is_mlflow: bool) -> str:
    """Return what is wrong with an answer. Each refusal says why, to MLflow's clients in theirs."""
    if answer.status < 400:
        return ""
    is_ours = answer.headers["Content-Type"] in ("application/problem+json", "application/json")
    said = json.loads(content) if is_ours and content else {}
    is_nowhere = answer.status == 404
    has_reason = bool(said.get("detail")) and bool(is_mlflow or is_nowhere or said.get("field"))
    if is_mlflow and set(said) == {"error_code", "message"}:
        has_reason = bool(said["message"])
    if answer.status < 500 and has_reason:
        return ""
    return f"{answer.status} {content[:300]!r}"


def tried_over_http(inputs: int, seed: int) -> Result:
    """Starts a service, and stops it afterwards. Stops early after 20 problems."""
    found, began = Result(OVER_HTTP), time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="trimtab-fuzz-service-") as folder:
        service = Service(Path(folder)).start(**UNLIMITED)
        try:
            _send_all(service, found, inputs, seed)
        finally:
            service.stop()
    found.seconds = time.perf_counter() - began
    return found


def _send_all(service: Service, found: Result, inputs: int, seed: int) -> None:
    held_bytes = _web_bytes(service)
    count = MOST_SENDERS if inputs >= MANY else SENDERS
    senders = [Sender(service, Result(OVER_HTTP)) for _ in range(count)]
    with ThreadPoolExecutor(count) as pool:
        sent = [
            pool.submit(sender.send_all, math.ceil(inputs / count), f"{seed}, sender {number}")
            for number, sender in enumerate(senders)
        ]
    accepted = set().union(*(each.result() for each in sent))
    for sender in senders:
        found.add(sender.found)
    if len(found.problems) >= MOST_PROBLEMS:
        return
    found.more_bytes = _web_bytes(service) - held_bytes
    if found.more_bytes > MOST_MORE_BYTES:
        found.problems.append(f"the web server's memory grew by {found.more_bytes / 1e6:.0f} MB")
    for run_id in sorted(accepted):
        _check_kept(service, run_id, found)
    _check_imports(service, found)
    found.problems += sorted(_logged_errors(service))


def _check_imports(service: Service, found: Result) -> None:
    """Check that each is done or refused with a reason, and none took a worker with it."""
    database = f"file:{service.data_dir / 'trimtab.sqlite3'}?mode=ro"
    waiting = "SELECT COUNT(*) FROM imports_import WHERE done < wanted AND given_up_at IS NULL"
    # Parts that nobody sent may come for a week.
    waiting += " AND stage NOT LIKE '%haven''t arrived%'"
    killed = "SELECT artefact_id, error FROM imports_import WHERE kills > 0"
    with closing(sqlite3.connect(database, uri=True, timeout=30)) as rows:
        try:
            wait_until(
                lambda: rows.execute(waiting).fetchone() == (0,), SETTLE_SECONDS, "all imports"
            )
        except AssertionError as error:
            found.problems.append(str(error))
        for artefact, error in rows.execute(killed):
            found.problems.append(f"the import of artefact {artefact} killed its worker: {error}")


def _check_kept(service: Service, run_id: UUID, found: Result) -> None:
    """Check that what was taken is analysed and can be read."""
    headers = {"Authorization": f"Bearer {service.token}"}
    document: dict[str, object] = {}

    def is_analysed() -> bool:
        answer = requests.get(
            f"{service.url}/api/v1/runs/{run_id}", headers=headers, timeout=ANSWER_SECONDS
        )
        document.update(answer.json() if answer.ok else {"analysis_error": answer.text[:300]})
        # Not final: the segments that were refused are missing for good.
        return document.get("findings") is not None or bool(document["analysis_error"])

    try:
        wait_until(is_analysed, SETTLE_SECONDS, f"run {run_id} is analysed")
    except AssertionError as error:
        found.problems.append(str(error))
    if document["analysis_error"]:
        found.problems.append(f"run {run_id}: {document['analysis_error']}")


def _logged_errors(service: Service) -> set[str]:
    """Return what the service logged as an error: a later analysis may have failed, or a single
    rule.
    """
    logs = [service.data_dir / "logs" / f"{part}.log" for part in ("web", "worker")]
    lines = [line for log in logs for line in log.read_text(encoding="utf-8").splitlines()]
    records = [json.loads(line) for line in lines if line.startswith('{"asctime"')]
    return {
        f"{each['message']}: {each.get('exc_info', '').strip().splitlines()[-FRAMES:]}"
        for each in records
        if each["levelname"] == "ERROR"
    }


def _web_bytes(service: Service) -> int:
    return max(process.memory_info().rss for process in web_processes(service))
