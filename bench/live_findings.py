"""The delay of findings of short and long running runs, on a real service.

    python -m bench.live_findings              prints the figures
    python -m bench.live_findings --check      exits with 1 if the promise is broken
    python -m bench.live_findings --nodes 0    without other nodes

A run works for some hours (uploaded at once, with old times), then hangs. The benchmark measures
the time from the upload with the last evidence to the finding in the API. An agent adds up to ten
seconds, because it seals segments every ten seconds. The evidence is in the second of two uploads
at once, which is the worst case: the look at the first is still running. Meanwhile other nodes, in
jobs of their own, upload 100 series every ten seconds; the generator of that load takes a part of
this machine, too.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import requests
from trimtab.wire import Block, Segment, StepBlock, encode_segment

from bench.figures import note
from tests.running_service import Service
from tests.service.uploads import FakeAgent

PROMISED_SECONDS, SEALED_SECONDS = 30.0, 10.0
HOURS_WORKED = (0.25, 6.0)
HANG_MINUTES = 11
MINUTE_MS, TICK_MS = 60_000, 5_000
NODES, SERIES, TICKS = 500, 100, 20


class Client:
    """A test client over HTTP."""

    def __init__(self, url: str) -> None:
        self.url, self.session = url, requests.Session()

    def put(self, path: str, body: bytes, content_type: str, headers: dict[str, str]) -> None:
        headers = headers | {"Content-Type": content_type}
        self.session.put(self.url + path, data=body, headers=headers, timeout=60).raise_for_status()


class OtherNodes(threading.Thread):
    """They upload one after the other, each its ten seconds; late ones are not made up for."""

    def __init__(self, service: Service, nodes: int) -> None:
        super().__init__(daemon=True)
        client, began_ns = Client(service.url), time.time_ns()
        self._agents = [
            FakeAgent(client, service.token, job=f"node {number}", started_at_ns=began_ns)  # type: ignore[arg-type]
            for number in range(nodes)
        ]
        self._ended = threading.Event()
        self.uploads = self.failures = 0

    def run(self) -> None:
        for agent in self._agents:
            agent.declare()
        seq = 0
        while self._agents and not self._ended.is_set():
            began = time.monotonic()
            for place, agent in enumerate(self._agents):
                due = began + SEALED_SECONDS * place / len(self._agents)
                self._ended.wait(max(0.0, due - time.monotonic()))
                self._upload(agent, seq)
            seq += 1

    def _upload(self, agent: FakeAgent, seq: int) -> None:
        self.failures += 1
        with suppress(requests.RequestException):
            agent.put_body(seq, encode_segment(_ten_seconds(agent, seq)))
            self.uploads, self.failures = self.uploads + 1, self.failures - 1

    def end(self) -> None:
        self._ended.set()
        self.join()


def _ten_seconds(agent: FakeAgent, seq: int) -> Segment:
    times = [500 * tick for tick in range(TICKS)]
    columns = {
        f"cpu{name}.busy_pct": [(name * tick + seq) % 100 for tick in range(TICKS)]
        for name in range(SERIES)
    }
    return agent.segment(seq, blocks=[Block(times, columns)])  # type: ignore[arg-type]


def measured_seconds(service: Service, hours: float) -> float:
    minutes = round(hours * 60)
    began_ns = time.time_ns() - (minutes + HANG_MINUTES) * 60 * 10**9
    client = Client(service.url)
    job = f"works for {hours} h"
    agent = FakeAgent(client, service.token, job=job, started_at_ns=began_ns)  # type: ignore[arg-type]
    agent.declare()
    for number in range(minutes + HANG_MINUTES - 2):
        agent.put(_minute(agent, number, number < minutes))
    _wait(lambda: _document(service, agent).get("findings") is not None)
    time.sleep(20)
    assert "hung" not in _findings(service, agent)
    for number in range(minutes + HANG_MINUTES - 2, minutes + HANG_MINUTES):
        agent.put(_minute(agent, number, works=False))
    began = time.monotonic()
    _wait(lambda: "hung" in _findings(service, agent))
    return time.monotonic() - began


def _minute(agent: FakeAgent, number: int, works: bool) -> Segment:
    times = list(range(0, MINUTE_MS, TICK_MS))
    used = [number * 120.0 + (at / 500 if works else 0.0) for at in times]
    seconds = range(60)
    steps = StepBlock(
        0, "train", [s * 10**6 for s in seconds], [10**6] * 60, [10_000] * 60, [8] * 60
    )
    return agent.segment(
        number,
        start_ms=number * MINUTE_MS,
        duration_ms=MINUTE_MS,
        resolution_ms=TICK_MS,
        blocks=[Block(times, {"tree.cpu_seconds_total": used})],  # type: ignore[dict-item]
        steps=[steps] if works else [],
    )


def _document(service: Service, agent: FakeAgent) -> dict:  # type: ignore[type-arg]
    headers = {"Authorization": f"Bearer {service.token}"}
    address = f"{service.url}/api/v1/runs/{agent.run_id}"
    return dict(requests.get(address, headers=headers, timeout=60).json())


def _findings(service: Service, agent: FakeAgent) -> list[str]:
    return [finding["rule"] for finding in _document(service, agent).get("findings", ())]


def _wait(holds) -> None:  # type: ignore[no-untyped-def]
    until = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < until, "not within two minutes"
        time.sleep(0.1)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--nodes", type=int, default=NODES)
    asked = parser.parse_args()
    slowest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder)).start()
        others = OtherNodes(service, asked.nodes)
        others.start()
        try:
            for hours in HOURS_WORKED:
                seconds = measured_seconds(service, hours) + SEALED_SECONDS
                slowest = max(slowest, seconds)
                print(f"after {hours:g} h: at most {seconds:.1f} s from evidence to finding")
        finally:
            others.end()
            service.stop()
    print(f"{asked.nodes} other nodes: {others.uploads} uploads, {others.failures} failed")
    is_kept = slowest <= PROMISED_SECONDS and not others.failures
    note("first_finding", f"at most {slowest:.1f} s beside {asked.nodes} nodes", is_kept)
    return 0 if is_kept or not asked.check else 1


if __name__ == "__main__":
    sys.exit(main())
