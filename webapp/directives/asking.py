"""Asks something of a running run: a rule its end, a person a profile."""

from __future__ import annotations

from django.db import transaction

from webapp.accounts import audit
from webapp.accounts.models import Token, User
from webapp.directives.models import Directive
from webapp.runs.models import Attempt, Node, Run

GRACE_SECONDS = 30
"""Between SIGTERM and SIGKILL: a checkpoint of some gigabytes takes so long to write."""
PROFILE = {"rank": 0, "first_step": None, "steps": 5, "seconds": 30}
"""The next five steps of the first rank, for at most half a minute."""


class NotRunningError(Exception):
    """Nobody would hear it."""


def may_be_stopped(run: Run) -> bool:
    """It goes on, and every node of its last attempt was started with `--allow-stop`."""
    attempt = run.attempts.last()
    nodes = Node.objects.filter(attempt=attempt)
    allowed = list(nodes.values_list("allows_stop", flat=True))
    return run.state == Run.RUNNING and bool(allowed) and all(allowed)


@transaction.atomic
def stop(run: Run, rule: str) -> Directive | None:
    """Ask once an attempt for a rule; None: the run doesn't allow it, or has ended.

    The run must be locked, so that its last attempt stays the last.
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
def profile(run: Run, by: User | Token) -> Directive:
    """Ask for a profile; the one that is still waiting, if there is one.

    Raises:
        NotRunningError: the run has ended, or nothing of it has arrived.
    """
    held = Run.objects.select_for_update(of=("self",), no_key=True).get(pk=run.pk)
    attempt: Attempt | None = held.attempts.last()
    if held.state != Run.RUNNING or attempt is None:
        raise NotRunningError
    waiting = Directive.objects.filter(attempt=attempt, kind=Directive.PROFILE, answers=None)
    if (known := waiting.first()) is not None:
        return known
    audit.record(held.workspace, by, "run.profile_asked", str(held))
    return Directive.objects.create(
        attempt=attempt, kind=Directive.PROFILE, payload=PROFILE, asked_by=audit.name_of(by)
    )
