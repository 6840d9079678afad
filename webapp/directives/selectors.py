"""The directives of a run and their results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from rules.registry import all_rules, title_of
from webapp.directives import scope
from webapp.directives.issue import allow_stop
from webapp.directives.models import Directive
from webapp.runs.models import Run

_OFFERED_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True)
class DirectiveLine:
    """Directive with its result. `reason` is why it was refused."""

    row: Directive
    is_waiting: bool
    reason: str

    @property
    def rule_title(self) -> str:
        return title_of(self.row.rule)


@dataclass(frozen=True)
class StopNotice:
    """The rule that stopped the run, or asks to stop it."""

    stopped_by: str
    """The rule's title; empty if no rule stopped the run."""
    has_page: bool
    asked: DirectiveLine | None
    """The latest directive of a rule, while the run is running."""


@dataclass(frozen=True)
class AskedOfAgent:
    """The latest profile and interval directives of a running run."""

    profile: DirectiveLine | None
    interval: DirectiveLine | None
    intervals: list[tuple[float, bool]]
    """An interval in seconds, and whether it is the requested one, else the one in use."""


@dataclass(frozen=True)
class MayAsk:
    """Requests that are possible for a running run, and those that its agents haven't received
    yet.
    """

    may_stop: bool
    """True if all agents of the newest attempt were started with `--allow-stop`."""
    stop_is_waiting: bool
    profile_is_waiting: bool


def stop_notice(run: Run) -> StopNotice:
    return StopNotice(
        stopped_by=title_of(run.stopped_by),
        has_page=run.stopped_by in all_rules(),
        asked=_latest(run, Directive.STOP),
    )


def asked_of_agent(run: Run, *, may_ask: bool) -> AskedOfAgent:
    """Return the latest directives. With `may_ask`, the reader may choose an interval."""
    profile, interval = _latest(run, Directive.PROFILE), _latest(run, Directive.INTERVAL)
    return AskedOfAgent(profile, interval, _intervals(run, interval) if may_ask else [])


def may_ask(runs: Sequence[Run]) -> dict[UUID, MayAsk]:
    """Return the possible requests by run, in one query for all of them; a run of which nothing has
    arrived isn't there.
    """
    nodes: defaultdict[UUID, list[Any]] = defaultdict(list)
    for node in scope.newest_nodes_of(runs):
        nodes[node.attempt.run_id].append(node)
    return {
        run_id: MayAsk(allow_stop(own), own[0].stop_is_waiting, own[0].profile_is_waiting)
        for run_id, own in nodes.items()
    }


def _intervals(run: Run, asked: DirectiveLine | None) -> list[tuple[float, bool]]:
    waited_for = asked.row.payload["seconds"] if asked and asked.is_waiting else None
    chosen = waited_for or scope.sampled_seconds(run)
    offered = {*_OFFERED_SECONDS, chosen or _OFFERED_SECONDS[0]}
    return [(seconds, seconds == chosen) for seconds in sorted(offered)]


def _latest(run: Run, kind: str) -> DirectiveLine | None:
    """Return the latest directive, or None if the run has ended, or there is no such directive."""
    row = None if run.has_ended else scope.directives_of(run).filter(kind=kind).last()
    return _asked(row) if row else None


def _asked(row: Directive) -> DirectiveLine:
    answers = list(row.answers.all())
    refused = [answer.reason for answer in answers if answer.outcome == "refused"]
    is_refused = bool(refused) and len(refused) == len(answers)
    return DirectiveLine(row, not answers, refused[0] if is_refused else "")
