"""Issues directives to the agents of a running run: stop (by a rule or a person), profile or
interval (by a person)."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import transaction

from webapp.accounts import audit
from webapp.accounts.models import Token, User
from webapp.directives.models import Directive
from webapp.runs.models import Attempt, Node, Run

GRACE_SECONDS = 30
"""Time between SIGTERM and SIGKILL, in which a checkpoint of some gigabytes can be written."""
PROFILE = {"rank": 0, "first_step": None, "steps": 5, "seconds": 30}
"""The profile that is requested: the next five steps of the first rank, for at most half a
minute."""
LEAST_INTERVAL_SECONDS, MOST_INTERVAL_SECONDS = 0.1, 5.0
"""The bounds of the time between two samples, as the agent has them (docs/wire.md)."""


class NotRunningError(Exception):
    """Raised when no agent of the run would receive the directive."""


class NotAllowedError(Exception):
    """Raised when a node of the run was started without `--allow-stop`."""


def may_be_stopped(run: Run) -> bool:
    """Return whether the run is running, and every node of its last attempt was started with
    `--allow-stop`.
    """
    nodes = Node.objects.filter(attempt=run.attempts.last())
    return run.state == Run.RUNNING and allow_stop(nodes)


def allow_stop(nodes: Iterable[Node]) -> bool:
    """Return whether each of an attempt's nodes was started with `--allow-stop`; False if there is
    none.
    """
    allowed = [node.allows_stop for node in nodes]
    return bool(allowed) and all(allowed)


@transaction.atomic
def stop(run: Run, rule: str) -> Directive | None:
    """Ask once per attempt for a rule. Returns None if the run doesn't allow it or has ended.

    The run must be locked, so that no new attempt begins.
    """
    if not may_be_stopped(run):
        return None
    directive, is_new = Directive.objects.get_or_create(
        attempt=run.attempts.last(),
        kind=Directive.STOP,
        rule=rule,
        defaults={"payload": {"grace_seconds": GRACE_SECONDS}, "asked_by": audit.name_of(None)},
    )
    if is_new:
        audit.record(run.workspace, None, "run.stop_asked", str(run), {"rule": (None, rule)})
    return directive


@transaction.atomic
def stop_for(run: Run, by: User) -> Directive:
    """Ask for a person. Returns the waiting directive if there is one.

    Raises:
        NotRunningError: the run has ended, or nothing of it has arrived.
        NotAllowedError: a node was started without `--allow-stop`.
    """
    attempt = _held_attempt(run)
    if not allow_stop(attempt.nodes.all()):
        raise NotAllowedError
    asked = Directive.objects.filter(attempt=attempt, kind=Directive.STOP, rule="", answers=None)
    if (known := asked.first()) is not None:
        return known
    audit.record(run.workspace, by, "run.stop_asked", str(run))
    return Directive.objects.create(
        attempt=attempt,
        kind=Directive.STOP,
        # Agents read the rule of every stop.
        payload={"grace_seconds": GRACE_SECONDS, "rule": ""},
        asked_by=audit.name_of(by),
    )


@transaction.atomic
def profile(run: Run, by: User | Token) -> Directive:
    """Ask for a profile. Returns the waiting directive if there is one.

    Raises:
        NotRunningError: the run has ended, or nothing of it has arrived.
    """
    attempt = _held_attempt(run)
    waiting = Directive.objects.filter(attempt=attempt, kind=Directive.PROFILE, answers=None)
    if (known := waiting.first()) is not None:
        return known
    audit.record(run.workspace, by, "run.profile_asked", str(run))
    return Directive.objects.create(
        attempt=attempt, kind=Directive.PROFILE, payload=PROFILE, asked_by=audit.name_of(by)
    )


@transaction.atomic
def interval(run: Run, by: User | Token, seconds: float) -> Directive:
    """Ask for a sampling interval. Replaces an interval that no agent has received yet.

    Raises:
        ValueError: out of bounds, or not a number.
        NotRunningError: the run has ended, or nothing of it has arrived.
    """
    if not LEAST_INTERVAL_SECONDS <= seconds <= MOST_INTERVAL_SECONDS:
        raise ValueError(seconds)
    attempt = _held_attempt(run)
    asked = Directive.objects.filter(attempt=attempt, kind=Directive.INTERVAL)
    before = asked.last()
    if before is not None and before.payload["seconds"] == seconds:
        return before
    asked.filter(answers=None).delete()
    changed = (before.payload["seconds"] if before else None, seconds)
    audit.record(run.workspace, by, "run.interval_asked", str(run), {"seconds": changed})
    return Directive.objects.create(
        attempt=attempt,
        kind=Directive.INTERVAL,
        payload={"seconds": seconds},
        asked_by=audit.name_of(by),
    )


def _held_attempt(run: Run) -> Attempt:
    """Return the last attempt of a running run, which is locked. Raises NotRunningError."""
    held = Run.objects.select_for_update(of=("self",), no_key=True).get(pk=run.pk)
    attempt: Attempt | None = held.attempts.last()
    if held.state != Run.RUNNING or attempt is None:
        raise NotRunningError
    return attempt
