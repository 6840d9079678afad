"""Hostile bodies over HTTP to a real service: every answer, its memory, and what it kept."""

from __future__ import annotations

import http.client
import json
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import requests
from django.test import Client
from trimtab.wire import encode_segment

from bench.fuzz import MOST_MORE_BYTES, MOST_PROBLEMS, Result
from bench.hostile import web_processes
from tests.running_service import Service, wait_until
from tests.service import hostile
from tests.service.uploads import FakeAgent

ANSWER_SECONDS = 60
RUN_INPUTS = 500
"""Inputs for one run: the next ones go to a new one."""
SETTLE_SECONDS = 600
UNLIMITED = {
    "TRIMTAB_TOKEN_REQUESTS_A_MINUTE": "0",
    "TRIMTAB_ADDRESS_REQUESTS_A_MINUTE": "0",
}


class Sender:
    """One kept-alive connection of an agent that sends nonsense."""

    def __init__(self, service: Service, found: Result) -> None:
        self._service, self._found, self._token = service, found, service.token
        self._connection = self._connected()

    def send(self, method: str, path: str, body: bytes, name: str) -> int:
        """The status; 0: no answer. Problems are recorded under `name`."""
        began = time.perf_counter()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        try:
            self._connection.request(method, path, body, headers)
            answer = self._connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._found.problems.append(f"{name}: {type(error).__name__}: {error}")
            self._connection = self._connected()
            return 0
        self._found.slowest_seconds = max(self._found.slowest_seconds, time.perf_counter() - began)
        self._judge(answer, content, name)
        return answer.status

    def _judge(self, answer: http.client.HTTPResponse, content: bytes, name: str) -> None:
        if answer.status < 400:
            return
        is_problem = answer.headers["Content-Type"] == "application/problem+json"
        problem = json.loads(content) if is_problem else {}
        if answer.status >= 500 or not problem.get("detail") or not problem.get("field"):
            self._found.problems.append(f"{name}: {answer.status} {content[:300]!r}")

    def _connected(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._service.port, timeout=ANSWER_SECONDS)


def tried_over_http(inputs: int, seed: int) -> Result:
    """Starts a service, and stops it afterwards. Stops early after 20 problems."""
    found, began = Result("over HTTP"), time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="trimtab-fuzz-service-") as folder:
        service = Service(Path(folder)).start(**UNLIMITED)
        try:
            _send_all(service, found, inputs, seed)
        finally:
            service.stop()
    found.seconds = time.perf_counter() - began
    return found


def _send_all(service: Service, found: Result, inputs: int, seed: int) -> None:
    sender = Sender(service, found)
    held_bytes = _web_bytes(service)
    accepted: set[UUID] = set()
    for number, (agent, path, body) in enumerate(_uploads(inputs, seed)):
        status = sender.send("PUT", path, body, f"seed {seed}, input {number}")
        found.outcomes["accepted" if status == 200 else "refused"] += 1
        if status == 200:
            accepted.add(agent.run_id)
        if len(found.problems) >= MOST_PROBLEMS:
            return
    found.more_bytes = _web_bytes(service) - held_bytes
    if found.more_bytes > MOST_MORE_BYTES:
        found.problems.append(f"the web server's memory grew by {found.more_bytes / 1e6:.0f} MB")
    for run_id in sorted(accepted):
        _check_kept(service, sender, run_id, found)
    found.problems += sorted(_logged_errors(service))


def _uploads(inputs: int, seed: int) -> Iterator[tuple[FakeAgent, str, bytes]]:
    """Segments and declarations, two to one, each segment under a number of its own."""
    chance = random.Random(seed)
    agent = FakeAgent(Client(), "")
    for number in range(inputs):
        if number % RUN_INPUTS == 0:
            run_id, session_id = (UUID(int=chance.getrandbits(128)) for _ in range(2))
            job = f"fuzz-{number // RUN_INPUTS}"
            agent = FakeAgent(Client(), "", job=job, run_id=run_id, session_id=session_id)
            declaration = hostile.Damage(agent.declaration_body(owner="ada"))
        path = f"/api/v1/runs/{agent.run_id}"
        if number % 3 == 2:
            yield agent, path, declaration.body(chance)
            continue
        seq = number % RUN_INPUTS
        segment = hostile.Damage(encode_segment(hostile.whole_segment(agent, seq)))
        yield agent, f"{path}/segments/{agent.session_id}/{seq}", segment.body(chance)


def _check_kept(service: Service, sender: Sender, run_id: UUID, found: Result) -> None:
    """What was taken is analysed and can be read."""
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
    """What the service logged as an error: a later analysis may have failed, or a single rule."""
    logs = [service.data_dir / "logs" / f"{part}.log" for part in ("web", "worker")]
    lines = [line for log in logs for line in log.read_text(encoding="utf-8").splitlines()]
    records = [json.loads(line) for line in lines if line.startswith('{"asctime"')]
    return {
        f"{each['message']}: {each.get('exc_info', '').strip().splitlines()[-1:]}"
        for each in records
        if each["levelname"] == "ERROR"
    }


def _web_bytes(service: Service) -> int:
    return max(process.memory_info().rss for process in web_processes(service))
