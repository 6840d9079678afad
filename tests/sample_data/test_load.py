"""Loading over HTTP: like an agent, repeatable, with clear errors."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from trimtab.wire import decode_declaration, decode_segment

from webapp.sample_data import load as loading
from webapp.sample_data.histories import sample_runs
from webapp.sample_data.load import SampleUploadError, load

NOW = datetime(2026, 3, 14, 15, 9, tzinfo=UTC)


class Service(ThreadingHTTPServer):
    """Keeps what it is sent, and answers as the upload API does."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Door)
        self.kept: dict[str, bytes] = {}
        self.headers_seen: list[dict[str, str]] = []
        self.answers: list[int] = []
        """The next statuses; then 200."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Door(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Small writes of their own would wait 40 ms each for an acknowledgement.
    wbufsize = -1
    server: Service

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.headers_seen.append(dict(self.headers))
        status = self.server.answers.pop(0) if self.server.answers else 200
        known = self.server.kept.get(self.path)
        if status == 200:
            self.server.kept[self.path] = body
        is_duplicate = known == body and "/segments/" in self.path
        self._answer(status, {"duplicate": is_duplicate, "title": "Said by the service."})

    def _answer(self, status: int, document: dict[str, object]) -> None:
        text = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_it_sends_every_declaration_and_segment_to_its_own_address(service: Service) -> None:
    loaded = load(service.url, "secret", NOW)
    runs = sample_runs(NOW)
    assert loaded.runs == len(runs)
    assert loaded.segments == sum(1 for run in runs for _ in run.segments())
    for path, body in service.kept.items():
        place = path.removeprefix("/api/v1/runs/").split("/")
        if len(place) == 1:
            assert str(decode_declaration(body).run_id) == place[0]
            continue
        segment = decode_segment(body)
        said = [str(segment.run_id), "segments", str(segment.clock.session_id), str(segment.seq)]
        assert place == said


def test_a_second_load_finds_everything_there_already(service: Service) -> None:
    first, second = load(service.url, "secret", NOW), load(service.url, "secret", NOW)
    assert first.duplicates == 0
    assert second.duplicates == second.segments == first.segments


def test_it_speaks_as_an_agent_and_sends_the_true_time(service: Service) -> None:
    before = time.time_ns()
    load(service.url, "secret", NOW)
    for headers in service.headers_seen:
        assert headers["Authorization"] == "Bearer secret"
        assert headers["Content-Encoding"] == "gzip"
        assert before <= int(headers["X-Trimtab-Sent-At"]) <= time.time_ns()
    types = {headers["Content-Type"] for headers in service.headers_seen}
    assert types == {
        "application/vnd.trimtab.declaration+json",
        "application/vnd.trimtab.segment+json",
    }


def test_it_tells_its_progress_up_to_the_end(service: Service) -> None:
    shares: list[float] = []
    load(service.url, "secret", NOW, shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_a_busy_service_gets_another_try(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "PAUSES_SECONDS", (0, 0))
    service.answers = [503, 429, 200]
    assert load(service.url, "secret", NOW).runs == len(sample_runs(NOW))


def test_a_refusal_is_an_error_with_the_services_own_words(service: Service) -> None:
    service.answers = [403]
    with pytest.raises(SampleUploadError, match=r"answered 403.*Said by the service"):
        load(service.url, "wrong", NOW)


def test_a_service_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "PAUSES_SECONDS", (0, 0))
    with pytest.raises(SampleUploadError, match="failed"):
        load("http://127.0.0.1:9", "secret", NOW)
