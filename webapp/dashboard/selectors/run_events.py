"""The events of a run, in order of time: from rows, however long the run was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from webapp.dashboard.selectors.judgements import RuleLine
from webapp.directives.selectors import DirectiveLine
from webapp.runs.failure import ending_words
from webapp.runs.models import Artefact, Node, Run, Session

MOST_EVENTS = 30
"""The most events, of the earliest; a longer list shows nobody what came first."""


@dataclass(frozen=True)
class RunEvent:
    """Event of a run. `seconds` are since the run's start; `is_trouble` means that something went
    wrong; `is_restart` means that processes began again, on the same machines or on others.
    """

    seconds: float
    words: str
    is_trouble: bool = False
    is_restart: bool = False

    def document(self) -> dict[str, Any]:
        """Return the event for the browser."""
        return {"seconds": self.seconds, "words": self.words, "is_trouble": self.is_trouble}


def run_events(
    run: Run,
    sessions: Iterable[Session],
    findings: Iterable[RuleLine],
    asked: Iterable[DirectiveLine],
    artefacts: Iterable[Artefact],
) -> list[RunEvent]:
    """Return restarts, failed ends, GPU errors, throttling, kills for memory, the starts of
    findings, requests to agents, and profiles.
    """
    if run.started_at is None:
        return []
    sessions = list(sessions)
    found = [
        *_of_sessions(run.started_at, sessions),
        *_of_troubles(run, sessions),
        *_of_findings(findings),
        *_of_agents(run.started_at, asked, artefacts),
    ]
    return sorted(found, key=lambda event: event.seconds)[:MOST_EVENTS]


def _of_sessions(start: datetime, sessions: list[Session]) -> Iterator[RunEvent]:
    first: dict[int, Session] = {}
    has_many = len({session.node_id for session in sessions}) > 1
    for session in sorted(sessions, key=lambda each: each.interval[0]):
        where = _where(session.node) if has_many else ""
        if session.node.attempt.number or session.node_id in first:
            seconds = _since(start, session.interval[0])
            yield RunEvent(seconds, f"Restarted{where}", is_restart=True)
        first.setdefault(session.node_id, session)
        if session.end_state in (Run.FAILED, Run.STOPPED):
            failed = session.end_state == Run.FAILED
            words = ending_words(session) if failed else "Stopped"
            yield RunEvent(_since(start, session.interval[1]), f"{words}{where}", failed)


def _of_troubles(run: Run, sessions: list[Session]) -> Iterator[RunEvent]:
    nodes = {session.node.key: session.node for session in sessions}
    for each in run.summary.troubles:
        where = _where(nodes[each.node]) if len(nodes) > 1 and each.node in nodes else ""
        yield RunEvent(each.seconds, f"{each.words}{where}", is_trouble=True)


def _of_findings(findings: Iterable[RuleLine]) -> Iterator[RunEvent]:
    """Yield when the evidence of each finding begins, unless that is the start of the run."""
    for line in findings:
        begins = min((float(str(window[0])) for window in line.windows), default=0.0)
        if begins > 0:
            yield RunEvent(begins, f"{line.title} begins", is_trouble=True)


def _of_agents(
    start: datetime, asked: Iterable[DirectiveLine], artefacts: Iterable[Artefact]
) -> Iterator[RunEvent]:
    for each in asked:
        words = {"stop": "Stop", "profile": "Profile", "interval": "Sampling interval"}
        name = words.get(each.row.kind, each.row.kind)
        yield RunEvent(_since(start, each.row.created_at), f"{name} requested")
    for file in artefacts:
        if file.kind == "profile":
            yield RunEvent(_since(start, file.created_at), f"Profile received: {file.name}")


def _where(node: Node) -> str:
    return f" on {node}"


def _since(start: datetime, moment: datetime) -> float:
    return max((moment - start).total_seconds(), 0.0)
