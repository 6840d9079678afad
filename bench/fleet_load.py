"""The uploads of virtual nodes: ramp, steady, an outage, and all at once after it."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from trimtab.wire import join_bodies

from bench.fleet_bodies import SECONDS, Tail, VirtualNode

MOST_TOGETHER = 32
"""The most segments in one request, as with agents."""
JOBS = 20
PAUSE_SECONDS = 1.0
"""The pause before a refused upload is sent again."""


@dataclass(frozen=True)
class Plan:
    """Seconds from the start: each node begins within `ramp`; during `silence` none sends."""

    ramp: float
    silence: tuple[float, float]
    end: float


@dataclass
class ServiceAnswers:
    """The answers of the service."""

    samples: int = 0
    sent_bytes: int = 0
    uploads: int = 0
    requests: int = 0
    seconds: list[float] = field(default_factory=list)
    """The seconds of each request with a live segment."""
    statuses: Counter[int] = field(default_factory=Counter)
    """The statuses of all segments."""
    answered_at: dict[UUID, list[float]] = field(default_factory=dict)
    """The times, by run, when its segments were answered with 200: Unix seconds."""
    drained_at: float = 0.0
    """Monotonic seconds at which the last backlog was gone."""

    @property
    def counted(self) -> str:
        """Return the statuses in words."""
        return ", ".join(f"{status}: {count}" for status, count in sorted(self.statuses.items()))


class Sender:
    """The uploads of one node over one connection."""

    def __init__(self, node: VirtualNode, port: int, taken: ServiceAnswers, plan: Plan) -> None:
        self._node, self._port, self._taken, self._plan = node, port, taken, plan
        self._kept: list[int] = []
        self._answered = taken.answered_at.setdefault(node.run_id, [])

    async def run(self, began: float, delay: float) -> None:
        await asyncio.sleep(delay)
        await self._connect()
        begin, end = (began + seconds for seconds in self._plan.silence)
        due, seq = time.monotonic(), 0
        while due < began + self._plan.end:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            self._kept.append(seq)
            seq, due = seq + 1, due + SECONDS
            if begin <= time.monotonic() < end:
                if due >= end:
                    await asyncio.sleep(end - time.monotonic())  # All at once
                    await self._connect()
                else:
                    continue
            await self._send_all(due)
        self._streams[1].close()

    async def _connect(self) -> None:
        self._streams = await asyncio.open_connection("127.0.0.1", self._port)

    async def _send_all(self, until: float) -> None:
        """Send the newest first, until the next one is there."""
        had_backlog = len(self._kept) > 1
        while self._kept and time.monotonic() < until:
            is_refused = not await self._send(self._kept[-MOST_TOGETHER:])
            if is_refused:
                await asyncio.sleep(PAUSE_SECONDS)
        if had_backlog and not self._kept:
            self._taken.drained_at = max(self._taken.drained_at, time.monotonic())

    async def _send(self, numbers: Sequence[int]) -> bool:
        """Send them, and return whether all of them were accepted."""
        began = time.monotonic()
        statuses = await (self._put(numbers[0]) if len(numbers) == 1 else self._post(numbers))
        taken = self._taken
        taken.requests += 1
        taken.seconds.append(time.monotonic() - began)
        for seq, status in zip(numbers, statuses, strict=True):
            taken.statuses[status] += 1
            if status == 200:
                taken.uploads += 1
                taken.samples += self._node.samples(seq)
                self._answered.append(time.time())
                self._kept.remove(seq)
        return set(statuses) == {200}

    async def _put(self, seq: int) -> list[int]:
        kind = "Content-Encoding: gzip\r\nContent-Type: application/vnd.trimtab.segment+json\r\n"
        status, _ = await self._request("PUT", self._node.path(seq), kind, self._node.body(seq))
        return [status]

    async def _post(self, numbers: Sequence[int]) -> list[int]:
        body = join_bodies([self._node.body(seq) for seq in reversed(numbers)])
        path = self._node.path(0).rpartition("/")[0]
        kind = "Content-Type: application/vnd.trimtab.segments\r\n"
        status, answer = await self._request("POST", path, kind, body)
        if status != 200:
            return [status] * len(numbers)
        return [row["status"] for row in reversed(json.loads(answer)["answers"])]

    async def _request(self, method: str, path: str, kind: str, body: bytes) -> tuple[int, bytes]:
        reader, writer = self._streams
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n"
            f"Authorization: Bearer {self._node.token}\r\n{kind}"
            f"X-Trimtab-Sent-At: {time.time_ns()}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._taken.sent_bytes += len(head) + len(body)
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        return int(answer.split(b" ", 2)[1]), await reader.readexactly(length)


def fleet(
    nodes: int,
    port: int,
    tokens: Sequence[str],
    pool: Sequence[list[Tail]],
    plan: Plan,
    taken: ServiceAnswers,
) -> list[Coroutine[Any, Any, None]]:
    """Return the work of nodes that begin now, spread over the tokens' workspaces and some jobs."""
    began = time.monotonic()
    return [
        Sender(
            VirtualNode(
                f"job {number % JOBS}",
                tokens[number % len(tokens)],
                pool[number % len(pool)],
                time.time_ns(),
            ),
            port,
            taken,
            plan,
        ).run(began, number / nodes * plan.ramp)
        for number in range(nodes)
    ]
