"""Sends hostile bodies to the real service and measures the time and memory of each answer.

    python -m bench.hostile            prints the figures
    python -m bench.hostile --check exits with 1 if a promise is broken

Each must be refused with a 4xx that names the field, within a second and with at most 100 MB of
additional memory of the web server, and must not change the existing run. A valid segment, sent in
the same run, is the baseline.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import psutil
from django.test import Client
from trimtab.wire import encode_segment

from bench.figures import note
from tests.running_service import Service, wait_until
from tests.service.uploads import FakeAgent

MOST_SECONDS = 1.0
MOST_BYTES = 100_000_000
SEGMENT_TYPE = "application/vnd.trimtab.segment+json"


@dataclass(frozen=True)
class RequestCost:
    name: str
    status: int
    field: str
    seconds: float
    more_bytes: int
    """The highest increase of any web process."""

    @property
    def is_kept(self) -> bool:
        is_refused = 400 <= self.status < 500 and bool(self.field)
        return is_refused and self.seconds <= MOST_SECONDS and self.more_bytes <= MOST_BYTES


def hostile_bodies(agent: FakeAgent) -> Iterator[tuple[str, bytes]]:
    good = encode_segment(agent.segment(1))
    yield "100 MB of zeros, packed", gzip.compress(bytes(100_000_000), 9)
    yield (
        "100 MB of blanks in a document",
        _packed(_text(agent, lambda d: None, b" " * 100_000_000)),
    )
    yield "broken JSON", _packed(gzip.decompress(good)[:-20])
    yield "broken gzip", good[:-20]
    yield "depth 10,000", _packed(b"[" * 10_000 + b"]" * 10_000)
    yield "a series of the wrong length", _packed(_text(agent, _short_series))
    yield "a 300-character name", _packed(_text(agent, _long_name))
    yield "a million series", _packed(_text(agent, _many_series))
    yield "a million empty lists", _packed(b"[" + b"[]," * 1_000_000 + b"0]")
    yield "a number of a million digits", _packed(_text(agent, lambda d: None, b"9" * 1_000_000))


def _packed(text: bytes) -> bytes:
    return gzip.compress(text, 9)


def _text(agent: FakeAgent, change: Callable[[dict[str, Any]], None], tail: bytes = b"") -> bytes:
    document = json.loads(gzip.decompress(encode_segment(agent.segment(1))))
    change(document)
    text = json.dumps(document).encode()
    return text[:-1] + b', "more": ' + tail + b"1}" if tail else text


def _columns(document: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of the only block, so that nothing valid is accepted with it."""
    for part in ("steps", "step_summaries", "events"):
        document.pop(part, None)
    columns: dict[str, Any] = document["blocks"][0]["columns"]
    return columns


def _short_series(document: dict[str, Any]) -> None:
    columns = _columns(document)
    columns.clear()
    columns["host.cpu_busy_pct"] = [1, 2, 3]


def _long_name(document: dict[str, Any]) -> None:
    columns = _columns(document)
    (_, values), *_ = columns.items()
    columns.clear()
    columns["n" * 300] = values


def _many_series(document: dict[str, Any]) -> None:
    columns = _columns(document)
    columns |= {f"s{number}": 0 for number in range(1_000_000)}


def web_processes(service: Service) -> list[psutil.Process]:
    web = service.part("web")
    assert web is not None
    return [web, *web.children(recursive=True)]


def _peak_bytes(process: psutil.Process) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def measure_request(service: Service, name: str, address: str, body: bytes) -> RequestCost:
    processes = web_processes(service)
    for process in processes:
        Path(f"/proc/{process.pid}/clear_refs").write_text("5", encoding="ascii")
    before = {process.pid: process.memory_info().rss for process in processes}
    headers = {
        "Authorization": f"Bearer {service.token}",
        "Content-Type": SEGMENT_TYPE,
        "Content-Encoding": "gzip",
    }
    began = time.perf_counter()
    answer = httpx.put(f"{service.url}{address}", content=body, headers=headers, timeout=60)
    seconds = time.perf_counter() - began
    more = max(_peak_bytes(process) - before[process.pid] for process in processes)
    field = answer.json().get("field", "") if answer.status_code >= 400 else ""
    return RequestCost(name, answer.status_code, field, seconds, max(more, 0))


def measure(service: Service) -> tuple[RequestCost, list[RequestCost]]:
    """Measure the baseline, and each hostile body. Raises AssertionError if the run was touched."""
    agent = FakeAgent(Client(), service.token)
    base = f"/api/v1/runs/{agent.run_id}/segments/{agent.session_id}"
    good = measure_request(
        service, "a good segment", f"{base}/0", encode_segment(agent.segment(0, last=True))
    )
    assert good.status == 200, good
    kept = _run(service, agent.run_id)
    answers = [measure_request(service, n, f"{base}/1", body) for n, body in hostile_bodies(agent)]
    foreign = f"/api/v1/runs/{uuid4()}/segments/{agent.session_id}/1"
    body = encode_segment(agent.segment(1))
    answers.append(measure_request(service, "the run id of another address", foreign, body))
    assert _run(service, agent.run_id) == kept, "the run was touched"
    return good, answers


def _run(service: Service, run_id: UUID) -> dict[str, Any]:
    """Return the run as the API returns it, once its analysis is final."""
    headers = {"Authorization": f"Bearer {service.token}"}
    answered: dict[str, Any] = {}

    def is_analysed() -> bool:
        answer = httpx.get(f"{service.url}/api/v1/runs/{run_id}", headers=headers)
        answered.update(answer.json())
        return bool(answered["analysis_is_final"])

    wait_until(is_analysed, 60, "the run is analysed")
    return answered


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--check", action="store_true")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="trimtab-hostile-") as folder:
        service = Service(Path(folder)).start()
        try:
            good, answers = measure(service)
        finally:
            service.stop()
    print(f"{'body':36}{'status':>7}  {'field':24}{'ms':>7}{'x good':>8}{'MB':>7}")
    for each in (good, *answers):
        ratio = each.seconds / good.seconds
        figures = f"{each.seconds * 1e3:7.0f}{ratio:8.1f}{each.more_bytes / 1e6:7.1f}"
        print(f"{each.name:36}{each.status:>7}  {each.field[:22]:24}{figures}")
    broken = [each.name for each in answers if not each.is_kept]
    slowest, most = max(each.seconds for each in answers), max(each.more_bytes for each in answers)
    note("hostile_bodies", f"{slowest:.2f} s, {most / 1e6:.0f} MB", not broken)
    if broken:
        print("Broken promises:", "; ".join(broken))
    return int(asked.check and bool(broken))


if __name__ == "__main__":
    sys.exit(main())
