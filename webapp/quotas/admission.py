"""Counts each upload before anything of it is written, and refuses those beyond a quota.

What is stored already doesn't come here: a repeated upload is neither counted nor refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings

from webapp.accounts.models import Token, Workspace
from webapp.quotas import counters, refusals, scripts
from webapp.quotas.kinds import RUNS, SERIES, STORED, TOKEN_RUNS, TOKEN_UPLOADED, UPLOADED, Quota

MOST_REMEMBERED = 10_000
_DIGEST_BYTES = 8

_seen: dict[tuple[UUID, str], tuple[int, int]] = {}
"""Run and node -> hour and hash of the series that this process counted last, so that the usual
upload asks nobody about them."""


@dataclass(frozen=True)
class Upload:
    """What an upload takes of the quotas.

    Attributes:
        body_bytes: the size of its body.
        stored_bytes: the size of the object that it writes.
        machine_id, series: the node, and the names of its series.
    """

    run_id: UUID
    is_new_run: bool
    body_bytes: int
    stored_bytes: int = 0
    machine_id: str = ""
    series: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Window:
    """What an upload adds to one window."""

    quota: Quota
    key: str
    cost: int
    limit: int


class Admission:
    """An upload that is being counted."""

    def __init__(self, workspace: Workspace, token: Token | None, upload: Upload) -> None:
        self._workspace, self._upload = workspace, upload
        self._hour = counters.hour_now()
        self._windows = list(_windows(workspace, token, upload))
        self._is_counted = self._has_run = False

    def count(self) -> None:
        """Raises Problem 429; then nothing of it was counted."""
        answer = counters.asked(self._charge, None)
        if answer is None:
            return
        if answer == scripts.STORAGE_FULL:
            refusals.refuse(self._workspace, self._upload.run_id, STORED)
        if answer > 0:
            window = self._windows[answer - 1]
            refusals.refuse(
                self._workspace, self._upload.run_id, window.quota, window.key, window.cost
            )
        self._is_counted, self._has_run = True, answer == scripts.COUNTED_WITH_RUN

    def take_back(self) -> None:
        """Count it no longer: nothing was stored. While Redis is down, it stays counted."""
        if self._is_counted:
            self._is_counted = False
            counters.asked(self._subtract, None)

    def _charge(self, known: counters.Counters) -> int:
        upload, workspace = self._upload, self._workspace
        keys = [counters.storage(workspace.pk), counters.new_run(upload.run_id)]
        keys += [counters.refusal(upload.run_id), *(window.key for window in self._windows)]
        values: list[int | str] = [
            self._hour,
            upload.stored_bytes,
            STORED.limit(workspace),
            int(upload.is_new_run),
        ]
        for window in self._windows:
            kind = "run" if window.quota in (RUNS, TOKEN_RUNS) else ""
            values += [window.cost, window.limit, kind]
        return int(known.charge(keys, values))

    def _subtract(self, known: counters.Counters) -> None:
        pipeline = known.redis.pipeline()
        for window in self._windows:
            if self._has_run or window.quota not in (RUNS, TOKEN_RUNS):
                pipeline.hincrby(window.key, str(self._hour), -window.cost)
        if self._has_run:
            pipeline.delete(counters.new_run(self._upload.run_id))
        stored = counters.storage(self._workspace.pk)
        pipeline.hincrby(stored, "since", -self._upload.stored_bytes)
        pipeline.execute()


@contextmanager
def admitted(workspace: Workspace, token: Token | None, upload: Upload) -> Iterator[Admission]:
    """Count an upload while it is written. If that fails, it is counted no longer.

    Raises:
        Problem: 429, kind `quota`, before anything is written or counted.
    """
    _count_series(workspace, upload)
    admission = Admission(workspace, token, upload)
    admission.count()
    try:
        yield admission
    except BaseException:
        admission.take_back()
        raise


def _windows(workspace: Workspace, token: Token | None, upload: Upload) -> Iterator[_Window]:
    costs = [(UPLOADED, TOKEN_UPLOADED, upload.body_bytes)]
    costs += [(RUNS, TOKEN_RUNS, 1)] if upload.is_new_run else []
    for of_workspace, of_token, cost in costs:
        subjects = [(of_workspace, workspace.pk), (of_token, token.pk if token else None)]
        for quota, subject in subjects:
            if subject is not None:
                key = counters.window(quota, subject)
                yield _Window(quota, key, cost, quota.limit(workspace))


def _count_series(workspace: Workspace, upload: Upload) -> None:
    """Raises Problem 429 if some of the node's series are new and the workspace has too many."""
    node, hour = (upload.run_id, upload.machine_id), counters.hour_now()
    now = hour, hash(upload.series)
    if not upload.series or _seen.get(node) == now:
        return
    if counters.asked(lambda known: _add_series(known, workspace, upload, hour), None):
        refusals.refuse(workspace, upload.run_id, SERIES)
    if len(_seen) >= MOST_REMEMBERED:
        _seen.clear()
    _seen[node] = now


def _add_series(known: counters.Counters, workspace: Workspace, upload: Upload, hour: int) -> int:
    """1: refused. Series are told apart by a keyed digest, so that nobody can choose names that
    Redis takes for the same."""
    place = f"{upload.run_id}/{upload.machine_id}/"
    secret = settings.SECRET_KEY.encode()[:64]
    digests = [
        hashlib.blake2b(f"{place}{name}".encode(), digest_size=_DIGEST_BYTES, key=secret).digest()
        for name in upload.series
    ]
    keys = [counters.trial(workspace.pk), *counters.series(workspace.pk, hour)]
    return int(known.add_series(keys, [SERIES.limit(workspace), *digests]))
