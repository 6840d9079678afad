"""A simulated run that continues while somebody looks at it, and does what its service asks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from webapp.sample_data.histories import WORKSPACE
from webapp.sample_data.jobs import LIVE_JOB
from webapp.sample_data.load import LoadConnection, declarations_of, upload_of
from webapp.sample_data.simulation import SimulatedEnding, SimulatedEvent

BEGAN = timedelta(minutes=20)
"""The time by which it began before it is first uploaded."""
STOPPED = SimulatedEnding("stopped", 143)
PAUSE_SECONDS = 2.0
NOTHING_TO_PROFILE = "this run is simulated: there is no process to profile"


class LiveRun:
    """One run on one machine. Call `tick` repeatedly; `has_ended` says when to stop."""

    def __init__(self, url: str, token: str, now: datetime, workspace: str = WORKSPACE) -> None:
        self._run = LIVE_JOB.running(now.replace(microsecond=0) - BEGAN, workspace)
        self._connection = LoadConnection(url, token)
        self._next_seq = 0
        self._answers: list[SimulatedEvent] = []
        self._answered: set[str] = set()
        self._is_stopping = False
        self.has_ended = False

    @property
    def run_id(self) -> str:
        return str(self._run.run_id)

    def tick(self, now: datetime) -> None:
        """Upload what has happened until `now`."""
        if not self._next_seq:
            for declaration in declarations_of(self._run):
                self._connection.put(declaration)
        while not self.has_ended and self._ends_at(self._next_seq) <= now:
            self._upload_next()

    def follow(self) -> None:
        """Continue until the run's end, which is hours away."""
        while not self.has_ended:
            self.tick(datetime.now(UTC))
            time.sleep(PAUSE_SECONDS)

    def _ends_at(self, seq: int) -> datetime:
        passed_ms = min((seq + 1) * self._run.segment_ms, self._run.duration_ms)
        return self._run.started_at + timedelta(milliseconds=passed_ms)

    def _upload_next(self) -> None:
        seq, (node,) = self._next_seq, self._run.nodes
        segment = self._run.segment(node, seq, more=self._answers, ends=self._is_stopping)
        answer = self._connection.put(upload_of(segment))
        self._next_seq, self._answers = seq + 1, []
        self.has_ended = self._is_stopping or self._next_seq == self._run.segment_count
        for directive in answer.get("directives", []):
            self._obey(directive)

    def _obey(self, directive: Mapping[str, Any]) -> None:
        """Carry out each directive once, and report it with the next upload."""
        if directive["id"] in self._answered:
            return
        self._answered.add(directive["id"])
        kind, outcome, reason = directive["kind"], "done", ""
        if kind == "stop":
            self._is_stopping = True
            self._run = replace(self._run, ending=STOPPED)
        else:
            outcome, reason = "refused", NOTHING_TO_PROFILE if kind == "profile" else "simulated"
        told = {"id": directive["id"], "directive": kind, "outcome": outcome, "reason": reason}
        at_ms = self._next_seq * self._run.segment_ms
        self._answers.append(SimulatedEvent(at_ms, "directive", told))
