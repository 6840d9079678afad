"""Uploads as an agent sends them, for tests of the API."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import UUID, uuid4

from django.test import Client
from trimtab.wire import (
    Block,
    Declaration,
    Event,
    NodeFacts,
    Segment,
    SessionClock,
    StepBlock,
    encode_declaration,
    encode_segment,
    join_bodies,
)

if TYPE_CHECKING:
    from webapp.http.gathered import WholeRequest

SEGMENT_TYPE = "application/vnd.trimtab.segment+json"
SEGMENT_MS = 10_000


def together(asked: Sequence[WholeRequest]) -> list[Any]:
    """Return the answers to what the web server has gathered, like those of Django's test
    client.
    """
    # Benchmarks use this module without Django's settings.
    from webapp.ingest.segment_requests import SegmentRequests

    answers = [each() if callable(each) else each for each in SegmentRequests().answers(asked)]
    for each in answers:
        each.json = partial(json.loads, each.content)  # type: ignore[attr-defined]
    return answers


@dataclass
class FakeAgent:
    """One session of one node; `segments` make a run of `count * 10 s`."""

    client: Client
    token: str
    job: str = "digits"
    run_id: UUID = field(default_factory=uuid4)
    session_id: UUID = field(default_factory=uuid4)
    machine_id: str = "machine-1"
    attempt: int = 0
    instance_type: str = "c5.large"
    skew_seconds: float = 0.0
    started_at_ns: int = field(default_factory=lambda: time.time_ns() - 3600 * 10**9)
    is_gathered: bool = False
    """True if its segments go the way of those that the web server answers many at a time."""

    def segment(self, seq: int, *, last: bool = False, **changes: object) -> Segment:
        segment = Segment(
            run_id=self.run_id,
            job=self.job,
            attempt=self.attempt,
            machine_id=self.machine_id,
            clock=SessionClock(
                session_id=self.session_id,
                boot_id="boot-1",
                started_at_ns=self.started_at_ns + int(self.skew_seconds * 1e9),
                started_mono_ns=5_000_000_000,
            ),
            seq=seq,
            start_ms=seq * SEGMENT_MS,
            duration_ms=SEGMENT_MS,
            resolution_ms=500,
            blocks=[self._block(seq)],
            steps=[self._steps(seq)],
        )
        if last:
            end = {"state": "finished", "exit_code": 0, "final_seq": seq}
            segment.events.append(Event(SEGMENT_MS, "session_end", end))
        for name, value in changes.items():
            setattr(segment, name, value)
        return segment

    def segments(self, count: int) -> list[Segment]:
        return [self.segment(seq, last=seq == count - 1) for seq in range(count)]

    def declare(self, **changes: object):  # type: ignore[no-untyped-def]
        return self.declare_body(self.declaration_body(**changes))

    def declare_body(self, body: bytes):  # type: ignore[no-untyped-def]
        return self._put(f"/api/v1/runs/{self.run_id}", body)

    def declaration_body(self, **changes: object) -> bytes:
        declaration = Declaration(
            run_id=self.run_id,
            job=self.job,
            attempt=self.attempt,
            session_id=self.session_id,
            node=NodeFacts(
                machine_id=self.machine_id,
                provider="aws",
                service="ec2",
                region="us-east-1",
                instance_type=self.instance_type,
                vcpus=2,
                effective_cpus=2.0,
                memory_bytes=4 * 2**30,
                effective_memory_bytes=4 * 2**30,
            ),
            workload={"entry_point": "train.py"},
        )
        for name, value in changes.items():
            setattr(declaration, name, value)
        return encode_declaration(declaration)

    def put(self, segment: Segment):  # type: ignore[no-untyped-def]
        return self.put_body(segment.seq, encode_segment(segment))

    def put_body(self, seq: int, body: bytes, **headers: str):  # type: ignore[no-untyped-def]
        if self.is_gathered:
            return together([self.asked(seq, body, **headers)])[0]
        return self._put(self._path(seq), body, **headers)

    def asked(self, seq: int, body: bytes, **headers: str) -> WholeRequest:
        """Return a segment as the web server gathers it."""
        from webapp.http.gathered import WholeRequest

        said = {"content-type": SEGMENT_TYPE, "content-length": str(len(body))}
        said |= {name.lower(): value for name, value in (self._headers | headers).items()}
        return WholeRequest(self._path(seq), said, body, "127.0.0.1")

    def _path(self, seq: int) -> str:
        return f"/api/v1/runs/{self.run_id}/segments/{self.session_id}/{seq}"

    def post(self, bodies: Sequence[bytes], **headers: str):  # type: ignore[no-untyped-def]
        """Send several segments in one request."""
        return self.post_body(join_bodies(bodies), **headers)

    def post_body(self, body: bytes, **headers: str):  # type: ignore[no-untyped-def]
        said = {"Authorization": f"Bearer {self.token}"}
        said["X-Trimtab-Sent-At"] = str(time.time_ns() + int(self.skew_seconds * 1e9))
        return self.client.post(
            f"/api/v1/runs/{self.run_id}/segments/{self.session_id}",
            body,
            content_type="application/vnd.trimtab.segments",
            headers=said | headers,
        )

    def put_artefact(
        self,
        body: bytes,
        sha256: str = "",
        kind: str = "profile",
        name: str = "rank0-step5.trace.json.gz",
        **headers: str,
    ):  # type: ignore[no-untyped-def]
        sha256 = sha256 or hashlib.sha256(body).hexdigest()
        return self.client.put(
            f"/api/v1/runs/{self.run_id}/artefacts/{sha256}",
            body,
            content_type="application/octet-stream",
            headers={
                "Authorization": f"Bearer {self.token}",
                "X-Trimtab-Kind": kind,
                "X-Trimtab-Name": quote(name),
                "X-Trimtab-Job": quote(self.job),
                **headers,
            },
        )

    def _put(self, path: str, body: bytes, **headers: str):  # type: ignore[no-untyped-def]
        return self.client.put(
            path, body, content_type=SEGMENT_TYPE, headers=self._headers | headers
        )

    @property
    def _headers(self) -> dict[str, str]:
        sent_at_ns = time.time_ns() + int(self.skew_seconds * 1e9)
        return {
            "Authorization": f"Bearer {self.token}",
            "Content-Encoding": "gzip",
            "X-Trimtab-Sent-At": str(sent_at_ns),
        }

    def _block(self, seq: int) -> Block:
        times = list(range(0, SEGMENT_MS, 500))
        busy = [float(40 + (seq * 20 + i) % 7) for i in range(len(times))]
        read = [1000 * (seq * 20 + i) for i in range(len(times))]
        memory = [512 * 2**20] * len(times)
        columns = {
            "host.cpu_busy_pct": busy,
            "disk.read_bytes_total": read,
            "host.memory_used_bytes": memory,
        }
        return Block(times, columns)  # type: ignore[arg-type]

    def _steps(self, seq: int) -> StepBlock:
        count = 50
        return StepBlock(
            rank=0,
            phase="train",
            start_us=[i * 200_000 for i in range(count)],
            duration_us=[200_000] * count,
            data_wait_us=[120_000] * count,
            samples=[64] * count,
        )
