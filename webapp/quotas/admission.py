"""Counts each upload before anything of it is written, and refuses those beyond a quota.

What is stored already doesn't come here: a repeated upload is neither counted nor refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn
from uuid import UUID

from django.conf import settings

from webapp.accounts.models import Token, Workspace
from webapp.quotas import counters, deferral, refusals, scripts
from webapp.quotas.amounts import UploadAmounts
from webapp.quotas.kinds import RUNS, SERIES, STORED, TOKEN_RUNS, TOKEN_UPLOADED, UPLOADED, Quota

MOST_REMEMBERED = 10_000
_DIGEST_BYTES = 8

_seen: dict[tuple[UUID, str], tuple[int, int]] = {}
"""Run and node -> hour and hash of the series that this process counted last, so that the usual
upload asks nobody about them."""


@dataclass(frozen=True)
class _Window:
    """Amount that an upload adds to one window."""

    quota: Quota
    key: str
    cost: int
    limit: int


class Admission:
    """An upload that is being counted."""

    def __init__(self, workspace: Workspace, token: Token | None, upload: UploadAmounts) -> None:
        self._workspace, self._token, self._upload = workspace, token, upload
        self._hour = counters.hour_now()
        self._windows = list(_windows(workspace, token, upload))
        self.is_admitted = False
        self._is_counted = self._has_run = self._is_deferred = False
        self._beyond: Quota | None = None
        self._beyond_window: _Window | None = None

    def has_room(self) -> bool:
        """Count it, unless it is beyond a quota: then nothing of it was counted."""
        if not _has_room_for_series(self._workspace, self._upload):
            self._beyond = SERIES
            return False
        if deferral.count_deferred(self._workspace, self._token, self._upload, self._limits()):
            self._is_counted = self._is_deferred = True
            return True
        answer = counters.ask_redis(self._charge, None)
        if answer is None:
            return True
        if answer == scripts.STORAGE_FULL:
            self._beyond = STORED
        elif answer > 0:
            self._beyond_window = self._windows[answer - 1]
            self._beyond = self._beyond_window.quota
        if self._beyond is not None:
            return False
        if answer == scripts.COUNTED_FAR_FROM_LIMITS:
            deferral.begin_deferral(self._workspace, self._token)
        self._is_counted, self._has_run = True, answer == scripts.COUNTED_WITH_RUN
        return True

    def refuse(self) -> NoReturn:
        """Refuse the upload and say why there is no room. Raises Problem 429."""
        assert self._beyond is not None  # noqa: S101 - there was no room
        window = self._beyond_window
        key, cost = (window.key, window.cost) if window else ("", 0)
        refusals.refuse(self._workspace, self._upload.run_id, self._beyond, key, cost)

    def take_back(self) -> None:
        """Count it no longer: nothing was stored. While Redis is down, it stays counted."""
        if not self._is_counted:
            return
        self._is_counted = False
        if self._is_deferred:
            deferral.uncount_deferred(self._workspace, self._token, self._upload)
        else:
            counters.ask_redis(self._subtract, None)

    def _limits(self) -> list[int]:
        """Return the operator's limits of what the upload takes."""
        limits = [STORED.limit(self._workspace), *(window.limit for window in self._windows)]
        return [limit for limit in limits if limit]

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


def try_to_count(workspace: Workspace, token: Token | None, upload: UploadAmounts) -> Admission:
    """Count an upload before it is written, if `is_admitted`. Take it back if that fails."""
    admission = Admission(workspace, token, upload)
    admission.is_admitted = admission.has_room()
    return admission


def count_or_refuse(workspace: Workspace, token: Token | None, upload: UploadAmounts) -> Admission:
    """Count an upload before it is written. Take it back if that fails.

    Raises:
        Problem: 429, kind `quota`, before anything is written or counted.
    """
    first = try_to_count(workspace, token, upload)
    if first.is_admitted:
        return first
    # The limits that the process remembers may be some seconds old.
    workspace.refresh_from_db(fields=["quotas"])
    again = try_to_count(workspace, token, upload)
    if not again.is_admitted:
        again.refuse()
    return again


@contextmanager
def count_while_written(
    workspace: Workspace, token: Token | None, upload: UploadAmounts
) -> Iterator[Admission]:
    """Count an upload while it is written. If that fails, it is counted no longer.

    Raises:
        Problem: 429, kind `quota`, before anything is written or counted.
    """
    admission = count_or_refuse(workspace, token, upload)
    try:
        yield admission
    except BaseException:
        admission.take_back()
        raise


def _windows(workspace: Workspace, token: Token | None, upload: UploadAmounts) -> Iterator[_Window]:
    costs = [(UPLOADED, TOKEN_UPLOADED, upload.body_bytes)]
    costs += [(RUNS, TOKEN_RUNS, 1)] if upload.is_new_run else []
    for of_workspace, of_token, cost in costs:
        subjects = [(of_workspace, workspace.pk), (of_token, token.pk if token else None)]
        for quota, subject in subjects:
            if subject is not None:
                key = counters.window(quota, subject)
                yield _Window(quota, key, cost, quota.limit(workspace))


def _has_room_for_series(workspace: Workspace, upload: UploadAmounts) -> bool:
    """Return False if some of the node's series are new and the workspace has too many."""
    node, hour = (upload.run_id, upload.machine_id), counters.hour_now()
    now = hour, hash(upload.series)
    if not upload.series or _seen.get(node) == now:
        return True
    if counters.ask_redis(lambda known: _add_series(known, workspace, upload, hour), None):
        return False
    if len(_seen) >= MOST_REMEMBERED:
        _seen.clear()
    _seen[node] = now
    return True


def _add_series(
    known: counters.Counters, workspace: Workspace, upload: UploadAmounts, hour: int
) -> int:
    """Add the node's series; return 1 if they are refused. Series are told apart by a keyed digest,
    so that nobody can choose names that Redis takes for the same.
    """
    place = f"{upload.run_id}/{upload.machine_id}/"
    secret = settings.SECRET_KEY.encode()[:64]
    digests = [
        hashlib.blake2b(f"{place}{name}".encode(), digest_size=_DIGEST_BYTES, key=secret).digest()
        for name in upload.series
    ]
    keys = [counters.trial(workspace.pk), *counters.series(workspace.pk, hour)]
    return int(known.add_series(keys, [SERIES.limit(workspace), *digests]))
