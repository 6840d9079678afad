"""What was asked of a run on the run's own page, which knows nothing of directives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django import template

from rules.registry import all_rules
from webapp.directives import scope
from webapp.directives.models import Directive
from webapp.runs.models import Run
from webapp.runs.scope import artefacts_of

register = template.Library()

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


def title_of(rule_id: str) -> str:
    """A rule that is gone keeps its id."""
    rule = all_rules().get(rule_id)
    return rule.title if rule else rule_id


@register.inclusion_tag("directives/stop.html")
def run_stop(run: Run) -> dict[str, Any]:
    """Which rule ended the run, or asks for its end."""
    asked = [] if run.has_ended else _asked(run, Directive.STOP)
    return {
        "run": run,
        "stopped_by": title_of(run.stopped_by),
        "has_page": run.stopped_by in all_rules(),
        "asked": asked[-1:],
    }


@register.inclusion_tag("dashboard/artefacts.html", takes_context=True)
def run_artefacts(context: dict[str, Any], run: Run) -> dict[str, Any]:
    """The run's files, and the profile and the interval that were asked for."""
    asked = [] if run.has_ended else _asked(run, Directive.PROFILE)
    intervals = [] if run.has_ended else _asked(run, Directive.INTERVAL)
    may_ask = run.state == Run.RUNNING and context["request"].may_change
    return {
        "run": run,
        "artefacts": list(artefacts_of(run)),
        "asked": asked[-1] if asked else None,
        "asked_interval": intervals[-1] if intervals else None,
        "may_ask": may_ask,
        "intervals": _intervals(run, intervals[-1:]) if may_ask else [],
        "csrf_token": context.get("csrf_token"),
    }


def _intervals(run: Run, asked: list[Asked]) -> list[tuple[float, bool]]:
    """Those on offer, and whether it is the one that is waited for, or else is in use."""
    waiting = [one.row.payload["seconds"] for one in asked if one.is_waiting]
    chosen = waiting[0] if waiting else scope.sampled_seconds(run)
    offered = {*_OFFERED_SECONDS, chosen or _OFFERED_SECONDS[0]}
    return [(seconds, seconds == chosen) for seconds in sorted(offered)]


def _asked(run: Run, kind: str) -> list[Asked]:
    found = []
    for row in scope.directives_of(run).filter(kind=kind):
        answers = list(row.answers.all())
        refused = [answer.reason for answer in answers if answer.outcome == "refused"]
        is_refused = bool(refused) and len(refused) == len(answers)
        found.append(Asked(row, not answers, refused[0] if is_refused else ""))
    return found
