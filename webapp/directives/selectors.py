"""What was asked of a run, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass

from rules.registry import all_rules, title_of
from webapp.directives import scope
from webapp.directives.models import Directive
from webapp.runs.models import Run

_OFFERED_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True)
class Asked:
    """One directive with what became of it; `reason`: why it was refused."""

    row: Directive
    is_waiting: bool
    reason: str

    @property
    def rule_title(self) -> str:
        return title_of(self.row.rule)


@dataclass(frozen=True)
class StopNotice:
    """Which rule ended the run, or asks for its end."""

    stopped_by: str
    """The rule's title; empty: none did."""
    has_page: bool
    asked: Asked | None
    """While the run goes on, the latest that a rule asked."""


@dataclass(frozen=True)
class AskedOfAgent:
    """The profile and the interval that were asked for last, of a run that goes on."""

    profile: Asked | None
    interval: Asked | None
    intervals: list[tuple[float, bool]]
    """Seconds on offer, and whether it is the interval that is waited for, or else is in use."""


def stop_notice(run: Run) -> StopNotice:
    return StopNotice(
        stopped_by=title_of(run.stopped_by),
        has_page=run.stopped_by in all_rules(),
        asked=_latest(run, Directive.STOP),
    )


def asked_of_agent(run: Run, *, may_ask: bool) -> AskedOfAgent:
    """`may_ask`: intervals are on offer to the reader."""
    profile, interval = _latest(run, Directive.PROFILE), _latest(run, Directive.INTERVAL)
    return AskedOfAgent(profile, interval, _intervals(run, interval) if may_ask else [])


def _intervals(run: Run, asked: Asked | None) -> list[tuple[float, bool]]:
    waited_for = asked.row.payload["seconds"] if asked and asked.is_waiting else None
    chosen = waited_for or scope.sampled_seconds(run)
    offered = {*_OFFERED_SECONDS, chosen or _OFFERED_SECONDS[0]}
    return [(seconds, seconds == chosen) for seconds in sorted(offered)]


def _latest(run: Run, kind: str) -> Asked | None:
    """None: the run has ended, or nothing of the kind was asked."""
    row = None if run.has_ended else scope.directives_of(run).filter(kind=kind).last()
    return _asked(row) if row else None


def _asked(row: Directive) -> Asked:
    answers = list(row.answers.all())
    refused = [answer.reason for answer in answers if answer.outcome == "refused"]
    is_refused = bool(refused) and len(refused) == len(answers)
    return Asked(row, not answers, refused[0] if is_refused else "")
