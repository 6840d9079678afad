"""The stages of a run: the commands of its shell script, with their times."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from webapp.runs.models import Run, Session


@dataclass(frozen=True)
class StageTime:
    node: str
    name: str
    start_seconds: float
    """The start of the stage, since the start of the run."""
    seconds: float | None
    """The duration; None while the stage runs or if its end is unknown."""


def stages_of(run: Run, sessions: Iterable[Session]) -> list[StageTime]:
    """Return the stages in the order of their starts; empty for a run of one command."""
    if run.started_at is None:
        return []
    found = [
        StageTime(str(session.node), stage["name"], *_times(run, session, stage))
        for session in sessions
        if len(session.stages) > 1
        for stage in session.stages
    ]
    return sorted(found, key=lambda stage: stage.start_seconds)


def _times(run: Run, session: Session, stage: dict[str, int]) -> tuple[float, float | None]:
    began = session.corrected_started_at + timedelta(milliseconds=stage["began_ms"])
    ended_ms = stage.get("ended_ms", session.ended_ms)
    lasted = None if ended_ms is None else max(0, ended_ms - stage["began_ms"]) / 1000
    return max(0.0, round((began - run.started_at).total_seconds(), 3)), lasted
