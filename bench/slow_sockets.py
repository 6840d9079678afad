"""Slow clients beside honest ones: what the honest ones notice.

    python -m bench.slow_sockets                         prints the figures
    python -m bench.slow_sockets --check --seconds 120   fails where a promise is broken

Slow clients come from as many addresses of 127.0.0.0/8 and reconnect whenever they are cut off.
A third sends the head of a request at one byte a second, a third the body, a third asks for
large files and doesn't read them. Meanwhile agents upload files at 50 kB/s each, and a person asks
for `/healthz` and pages.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import os
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from uuid import uuid4

from bench.figures import note
from tests.processes.person import Person
from tests.running_service import Service

MOST_SECONDS = 0.5
HONEST_BYTES_PER_SECOND = 50_000
PAGES = ("/healthz", "/", "/rules/", "/spend/")
LARGE = "/static/vendor/chart.umd.min.js"


@dataclass
class Observations:
    """The observations of clients."""

    pages: dict[str, list[float]] = field(default_factory=lambda: {page: [] for page in PAGES})
    failures: list[str] = field(default_factory=list)
    accepted: int = 0
    cut_off: int = 0
    open: int = 0
    most_open: int = 0

    @property
    def slowest_seconds(self) -> float:
        return max(max(seconds) for seconds in self.pages.values())

    def is_kept(self, honest: int) -> bool:
        is_quick = self.slowest_seconds < MOST_SECONDS
        return is_quick and not self.failures and self.accepted == honest


async def slow(port: int, seen: Observations, number: int, until: float) -> None:
    """Connect as one slow client, repeatedly."""
    source = (f"127.{1 + number // 250}.{number % 250}.{1 + number % 200}", 0)
    ways: list[Callable[..., Awaitable[None]]] = [_slow_head, _slow_body, _slow_reader]
    while time.monotonic() < until:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, local_addr=source, limit=1024
            )
            seen.open += 1
            seen.most_open = max(seen.most_open, seen.open)
            try:
                await ways[number % len(ways)](reader, writer, until)
            finally:
                seen.open -= 1
                writer.close()
        seen.cut_off += time.monotonic() < until
        await asyncio.sleep(1)


async def _slow_head(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, until: float
) -> None:
    await _drip(writer, b"GET / HTTP/1.1\r\nX-Slow: " + b"x" * 1000, until)


async def _slow_body(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, until: float
) -> None:
    writer.write(b"POST /sign-in/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n\r\n")
    await _drip(writer, b"x" * 1000, until)


async def _slow_reader(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, until: float
) -> None:
    while time.monotonic() < until:
        writer.write(f"GET {LARGE} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        await reader.readexactly(1)
        await asyncio.sleep(1)


async def _drip(writer: asyncio.StreamWriter, text: bytes, until: float) -> None:
    for byte in text:
        if time.monotonic() > until:
            return
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(1)


async def upload_slowly(
    service: Service, seen: Observations, size_bytes: int, delay: float
) -> None:
    """Upload a file over a slow line, as an agent does."""
    await asyncio.sleep(delay)
    body = random.randbytes(size_bytes)
    sha256, token = hashlib.sha256(body).hexdigest(), service.token
    head = (
        f"PUT /api/v1/runs/{uuid4()}/artefacts/{sha256} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Bearer {token}\r\nX-Trimtab-Kind: profile\r\nX-Trimtab-Name: trace.gz\r\n"
        f"X-Trimtab-Job: slow line\r\nContent-Length: {size_bytes}\r\nConnection: close\r\n\r\n"
    )
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
        writer.write(head.encode())
        piece = HONEST_BYTES_PER_SECOND // 5
        for start in range(0, size_bytes, piece):
            writer.write(body[start : start + piece])
            await writer.drain()
            await asyncio.sleep(0.2)
        answer = await reader.read()
        writer.close()
    except OSError as error:
        seen.failures.append(f"upload: {error}")
        return
    status = answer[9:12]
    if status == b"%d" % HTTPStatus.OK:
        seen.accepted += 1
    else:
        seen.failures.append(f"upload: {answer[:200]!r}")


async def person(port: int, cookie: str, seen: Observations, until: float) -> None:
    while time.monotonic() < until:
        for page, seconds in seen.pages.items():
            began = time.perf_counter()
            try:
                status = await asyncio.wait_for(_status(port, page, cookie), 30)
            except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
                status = type(error).__name__.encode()
            seconds.append(time.perf_counter() - began)
            if status != b"200":
                seen.failures.append(f"{page}: {status!r}")
        await asyncio.sleep(0.25)


async def _status(port: int, page: str, cookie: str) -> bytes:
    """Ask for the status on a connection of its own, as a monitor does."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        f"GET {page} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nCookie: {cookie}\r\n\r\n"
    )
    writer.write(head.encode())
    answer = await reader.read()
    writer.close()
    return answer[9:12]


async def measure(
    service: Service, seconds: float, slow_clients: int, uploads: int, size_bytes: int
) -> Observations:
    """Uploads begin in the first half; all of them end before the slow clients do."""
    seen = Observations()
    cookies = Person(service).session.cookies
    cookie = "; ".join(f"{each.name}={each.value}" for each in cookies)
    for page in PAGES:
        await _status(service.port, page, cookie)
    until = time.monotonic() + seconds
    takes = size_bytes / HONEST_BYTES_PER_SECOND
    spread = max(seconds - takes - 5, 0) / 2
    delays = [spread * number / uploads for number in range(uploads)]
    await asyncio.gather(
        *(slow(service.port, seen, number, until) for number in range(slow_clients)),
        *(upload_slowly(service, seen, size_bytes, delay) for delay in delays),
        person(service.port, cookie, seen, until),
    )
    return seen


def report(seen: Observations, service: Service) -> None:
    print(f"{'page':16}{'asked':>8}{'median ms':>12}{'p99 ms':>10}{'slowest ms':>12}")
    for page, seconds in seen.pages.items():
        ranked = sorted(seconds)
        middle, late = ranked[len(ranked) // 2], ranked[int(len(ranked) * 0.99)]
        figures = f"{middle * 1e3:12.0f}{late * 1e3:10.0f}{ranked[-1] * 1e3:12.0f}"
        print(f"{page:16}{len(ranked):8}{figures}")
    print(f"uploads accepted: {seen.accepted}, failures: {len(seen.failures)}")
    print(f"slow connections: {seen.most_open} at a time, cut off {seen.cut_off} times")
    web = service.part("web")
    if web is not None:
        print(f"web server: {web.memory_info().rss / 1e6:.0f} MB, {web.num_threads()} threads")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--check", action="store_true")
    options.add_argument("--seconds", type=float, default=120)
    options.add_argument("--slow", type=int, default=500, help="slow clients")
    options.add_argument("--uploads", type=int, default=200)
    options.add_argument("--megabytes", type=float, default=2, help="of one upload")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="trimtab-slow-") as folder:
        service = Service(Path(folder)).start()
        try:
            size_bytes = int(asked.megabytes * 1e6)
            seen = asyncio.run(
                measure(service, asked.seconds, asked.slow, asked.uploads, size_bytes)
            )
            print(f"load average: {os.getloadavg()[0]:.1f}")
            report(seen, service)
        finally:
            service.stop()
    for failure in seen.failures[:5]:
        print("failed:", failure)
    is_kept = seen.is_kept(asked.uploads)
    note(
        "slow_clients",
        f"{seen.accepted} of {asked.uploads} uploads; slowest of "
        f"{sum(map(len, seen.pages.values())):,} pages {seen.slowest_seconds * 1e3:.0f} ms",
        is_kept,
    )
    print("kept" if is_kept else "broken", f"(below {MOST_SECONDS:g} s, all uploads accepted)")
    return int(asked.check and not is_kept)


if __name__ == "__main__":
    sys.exit(main())
