"""The delay of findings of short and long running runs, on a real service.

    python -m bench.live_findings              prints the figures
    python -m bench.live_findings --check      exits with 1 if the promise is broken
    python -m bench.live_findings --nodes 0    without other nodes

A run works for some hours (uploaded at once, with old times), then hangs. The benchmark measures
the time from the upload with the last evidence to the finding in the API. An agent adds up to ten
seconds, because it seals segments every ten seconds. The evidence is in the second of two uploads
at once, which is the worst case: the look at the first is still running. Meanwhile other nodes, in
the same workspace, upload 100 series every ten seconds; the generator of that load takes a part of
this machine, too.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import requests
from trimtab.wire import Block, Segment, StepBlock

from bench.figures import note
from bench.fleet_bodies import LENGTH, SECONDS, SERIES, VARIANTS, tails
from bench.fleet_load import Plan, ServiceAnswers, fleet
from tests.running_service import Service
from tests.service.uploads import FakeAgent

PROMISED_SECONDS, SEALED_SECONDS = 30.0, 10.0
HOURS_WORKED = (0.25, 6.0)
HANG_MINUTES = 11
MINUTE_MS, TICK_MS = 60_000, 5_000
NODES = 500
LEAST_SENT_PCT = 95.0
"""The least of the load that is to be there; a node that is answered late sends late."""


class Client:
    """A test client over HTTP."""

    def __init__(self, url: str) -> None:
        self.url, self.session = url, requests.Session()

    def put(self, path: str, body: bytes, content_type: str, headers: dict[str, str]) -> None:
        headers = headers | {"Content-Type": content_type}
        self.session.put(self.url + path, data=body, headers=headers, timeout=60).raise_for_status()


class OtherNodes(threading.Thread):
    """A fleet that uploads for as long as the benchmark measures."""

    def __init__(self, service: Service, nodes: int) -> None:
        super().__init__(daemon=True)
        self.nodes, self.taken = nodes, ServiceAnswers()
        self._port, self._tokens = service.port, [service.token]
        self._pool = tails(SERIES, VARIANTS, LENGTH)
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._seconds = 0.0

    def run(self) -> None:
        self._loop.run_until_complete(self._send())

    async def _send(self) -> None:
        began, plan = time.monotonic(), Plan(SECONDS, (0.0, 0.0), math.inf)
        work = fleet(self.nodes, self._port, self._tokens, self._pool, plan, self.taken)
        sending = asyncio.gather(*work)
        ended = asyncio.create_task(self._ended.wait())
        await asyncio.wait([sending, ended], return_when=asyncio.FIRST_COMPLETED)
        self._seconds = time.monotonic() - began
        sending.cancel()
        with suppress(asyncio.CancelledError):
            await sending

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self.join()

    @property
    def sent_pct(self) -> float:
        """Return the share of what they should have sent until then."""
        due = self.nodes * self._seconds / SECONDS  # Each sends as soon as it begins
        return 100 * self.taken.uploads / max(due, 1)

    @property
    def is_taken(self) -> bool:
        return not self.nodes or (
            set(self.taken.statuses) == {200} and self.sent_pct >= LEAST_SENT_PCT
        )


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
    taken = others.taken
    print(
        f"{asked.nodes} other nodes: {taken.uploads} uploads, {others.sent_pct:.0f} % of what",
        end=" ",
    )
    print(f"was due; {taken.counted}")
    is_kept = slowest <= PROMISED_SECONDS and others.is_taken
    note("first_finding", f"at most {slowest:.1f} s beside {asked.nodes} nodes", is_kept)
    return 0 if is_kept or not asked.check else 1


if __name__ == "__main__":
    sys.exit(main())
