"""Records which tokens uploaded to which runs: a token with only the scope `ingest` may read
those.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from uuid import UUID

from django.db import transaction

from webapp.accounts.models import Token
from webapp.runs.models import Run

KNOWN_SECONDS = 600
MOST_KNOWN = 10_000
_known: dict[tuple[int, UUID], float] = {}
"""The pairs that this process wrote recently, so that an upload needs no look-up."""


def remember_uploader(token: Token, run_id: UUID) -> None:
    """Let the token read the run. Call with the rows of an upload or after it; each further upload
    repeats it.
    """
    now = time.monotonic()
    if now - _known.get((token.pk, run_id), -KNOWN_SECONDS) < KNOWN_SECONDS:
        return
    remember_uploaders([(token, run_id)])


def remember_uploaders(pairs: Sequence[tuple[Token, UUID]]) -> None:
    """Let tokens read runs that this process doesn't know, in one statement."""
    through, now = Run.uploaders.through, time.monotonic()
    made = [through(run_id=run_id, token_id=token.pk) for token, run_id in pairs]
    through.objects.bulk_create(made, ignore_conflicts=True)
    for token, run_id in pairs:
        transaction.on_commit(partial(_note, token.pk, run_id, now))


def _note(token_id: int, run_id: UUID, now: float) -> None:
    if len(_known) >= MOST_KNOWN:
        _known.clear()
    _known[token_id, run_id] = now
