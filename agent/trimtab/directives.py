"""Directives of the service to a running agent, and their limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trimtab.spool import MOST_ARTEFACT_BYTES

SHORTEST_INTERVAL_SECONDS = 0.1
LONGEST_INTERVAL_SECONDS = 5.0
MOST_PROFILE_STEPS = 100
MOST_PROFILE_SECONDS = 120.0
_MOST_GRACE_SECONDS = 600.0
_MOST_DIRECTIVES = 1_000


@dataclass(frozen=True)
class Actions:
    """The actions that a session allows; None if impossible or not allowed."""

    set_interval: Callable[[float], None] | None = None
    profile: Callable[[dict[str, Any]], None] | None = None
    stop: Callable[[str, float], None] | None = None
    """The function that stops the command for a rule, with the seconds between SIGTERM and
    SIGKILL."""


class Directives:
    """Carries out each directive once, even if it is repeated, and confirms it by an event."""

    def __init__(self, actions: Actions, record: Callable[[str, dict[str, Any]], None]) -> None:
        self._actions = actions
        self._record = record
        self._seen: set[str] = set()

    def handle(self, said: Any) -> None:
        """Carry out the `directives` of a response; malformed ones are ignored or refused."""
        for directive in said if isinstance(said, list) else []:
            if not isinstance(directive, dict) or not isinstance(directive.get("id"), str):
                continue
            name = directive["id"][:100]
            if name not in self._seen and len(self._seen) < _MOST_DIRECTIVES:
                self._seen.add(name)
                kind = str(directive.get("kind", ""))[:100]
                outcome, reason = self._outcome(kind, directive)
                answer = {"id": name, "directive": kind, "outcome": outcome, "reason": reason}
                self._record("directive", answer)

    def _outcome(self, kind: str, directive: dict[str, Any]) -> tuple[str, str]:
        known = {"interval": self._interval, "profile": self._profile, "stop": self._stop}
        if kind not in known:
            return "refused", f"unknown kind; this agent supports {', '.join(known)}"
        try:
            return known[kind](directive)
        except (ValueError, KeyError, TypeError, OSError) as error:
            return "refused", f"{type(error).__name__}: {error}"[:500]

    def _interval(self, directive: dict[str, Any]) -> tuple[str, str]:
        if self._actions.set_interval is None:
            return "refused", "this agent can't change its interval"
        limits = SHORTEST_INTERVAL_SECONDS, LONGEST_INTERVAL_SECONDS
        self._actions.set_interval(_number(directive, "seconds", *limits))
        return "done", ""

    def _profile(self, directive: dict[str, Any]) -> tuple[str, str]:
        if self._actions.profile is None:
            return "refused", "the measured process has no hook"
        self._actions.profile(profile_request(directive))
        return "passed_on", ""

    def _stop(self, directive: dict[str, Any]) -> tuple[str, str]:
        if self._actions.stop is None:
            return "refused", "the run was started without --allow-stop"
        grace = _number(directive, "grace_seconds", 0, _MOST_GRACE_SECONDS, 30)
        self._actions.stop(str(directive["rule"])[:120], grace)
        return "done", ""


def profile_request(said: dict[str, Any]) -> dict[str, Any]:
    """Return the steps and the rank to profile, limited in steps, seconds and bytes.

    Raises:
        ValueError: a value is not a number, or outside its limits.
    """
    first = said.get("first_step")
    return {
        "rank": int(_number(said, "rank", 0, 10_000_000, 0)),
        "first_step": None if first is None else int(_number(said, "first_step", 1, 2**53)),
        "steps": int(_number(said, "steps", 1, MOST_PROFILE_STEPS, 5)),
        "seconds": _number(said, "seconds", 0.1, MOST_PROFILE_SECONDS, 30),
        "bytes": int(_number(said, "bytes", 1024, MOST_ARTEFACT_BYTES, MOST_ARTEFACT_BYTES)),
    }


def _number(
    said: dict[str, Any], name: str, low: float, high: float, default: float | None = None
) -> float:
    value = said.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{name} is not a number")
    if not low <= value <= high:
        raise ValueError(f"{name} {value} is outside {low}..{high}")
    return value
