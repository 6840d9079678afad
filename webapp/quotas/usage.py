"""A workspace's use of its quotas, for pages and the API."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from webapp.accounts import scope as accounts
from webapp.accounts.models import Token, Workspace
from webapp.quotas import counters, deferral, import_use
from webapp.quotas.kinds import (
    BYTES,
    RUNS,
    SECONDS,
    SERIES,
    STORED,
    TOKEN_RUNS,
    TOKEN_UPLOADED,
    UPLOADED,
    Quota,
)
from webapp.quotas.models import StorageUse
from webapp.quotas.refusals import frees_at_hour
from webapp.runs import scope as runs
from webapp.runs.models import Job

CLOSE_SHARE = 0.8
"""The share of a limit above which owners see a notice, a usual first alert for budgets and
disks."""


@dataclass(frozen=True)
class QuotaLine:
    """One quota of the workspace, or of one token.

    Attributes:
        used: None: unknown, because Redis is down or nothing was counted yet.
        limit: 0: none.
        frees_at: when some of what is used counts no longer; None if nothing is used or it
            doesn't depend on time.
    """

    quota: Quota
    used: int | None
    limit: int
    frees_at: datetime | None = None

    @property
    def share(self) -> float:
        """Return the used share of the limit; 0 without a limit."""
        return (self.used or 0) / self.limit if self.limit else 0.0

    @property
    def percent(self) -> int:
        """Return the used percentage, rounded down: only a quota that is used up has 100."""
        return min(int(self.share * 100), 100)

    @property
    def bar_width(self) -> int:
        """Return the width of the bar, of 1000."""
        return min(int(self.share * 1000), 1000)

    @property
    def state(self) -> str:
        if self.share >= 1:
            return "over"
        return "close" if self.share >= CLOSE_SHARE else "ok"

    @property
    def used_words(self) -> str:
        return "unknown" if self.used is None else self.quota.words(self.used)

    @property
    def use_words(self) -> str:
        """Return the used amount and the limit as text; one unit is enough for both."""
        has_unit = self.quota.unit in (BYTES, SECONDS)
        used = self.used_words if has_unit else f"{self.used or 0:,}"
        return f"{used} of {self.limit_words}"

    @property
    def limit_words(self) -> str:
        return self.quota.words(self.limit) if self.limit else "no limit"


@dataclass(frozen=True)
class TokenUse:
    token: Token
    lines: tuple[QuotaLine, ...]
    """The token's quotas: uploads and new runs."""

    @property
    def fullest(self) -> QuotaLine:
        return max(self.lines, key=lambda line: line.share)


@dataclass(frozen=True)
class JobUse:
    job: Job
    size_bytes: int


def lines(workspace: Workspace) -> list[QuotaLine]:
    """Return the workspace's own quotas. Reads no rows."""
    deferral.flush()
    hour = counters.hour_now()
    keys = [counters.window(quota, workspace.pk) for quota in (UPLOADED, RUNS)]

    def read(known: counters.Counters) -> list[Any]:
        pipeline = known.redis.pipeline(transaction=False)
        for key in (*keys, counters.storage(workspace.pk)):
            pipeline.hgetall(key)
        pipeline.pfcount(*counters.series(workspace.pk, hour))
        return pipeline.execute()

    uploaded, begun, stored, series = counters.ask_redis(read, [None] * 4)
    return [
        _window(UPLOADED, workspace, uploaded, hour),
        _window(RUNS, workspace, begun, hour),
        QuotaLine(SERIES, series, SERIES.limit(workspace), _moment(hour + 1) if series else None),
        QuotaLine(STORED, _stored(stored), STORED.limit(workspace)),
    ]


def import_lines(workspace: Workspace) -> list[QuotaLine]:
    """Return the quotas of imports, by one query."""
    return [_import_line(each) for each in import_use.usages(workspace)]


def _import_line(usage: import_use.Usage) -> QuotaLine:
    frees_at = _moment(usage.frees_at_hour()) if usage.used else None
    return QuotaLine(usage.quota, usage.used, usage.limit, frees_at)


def pressing_quotas(workspace: Workspace) -> list[QuotaLine]:
    """Return the quotas that are close to their limit or have reached it, the fullest first."""
    found = [line for line in lines(workspace) if line.state != "ok"]
    return sorted(found, key=lambda line: -line.share)


def by_token(workspace: Workspace) -> list[TokenUse]:
    """Return the tokens that uploaded in the last 24 hours, the busiest first."""
    deferral.flush()
    tokens, hour = list(accounts.tokens_of(workspace)), counters.hour_now()

    def read(known: counters.Counters) -> list[Any]:
        pipeline = known.redis.pipeline(transaction=False)
        for token in tokens:
            for quota in (TOKEN_UPLOADED, TOKEN_RUNS):
                pipeline.hgetall(counters.window(quota, token.pk))
        return pipeline.execute()

    nothing: list[Any] = []
    answers = iter(counters.ask_redis(read, nothing))
    uses = []
    for token, uploaded, begun in zip(tokens, answers, answers, strict=False):
        own = (TOKEN_UPLOADED, uploaded), (TOKEN_RUNS, begun)
        uses.append(TokenUse(token, tuple(_window(q, workspace, f, hour) for q, f in own)))
    return sorted((use for use in uses if use.lines[0].used), key=_uploaded, reverse=True)


def storage(workspace: Workspace) -> StorageUse | None:
    """Return the stored bytes as last counted, or None before the first count."""
    return StorageUse.objects.filter(workspace=workspace).first()


def largest_jobs(workspace: Workspace, use: StorageUse | None) -> list[JobUse]:
    """Return the largest jobs, without those that were deleted since."""
    sizes = dict(use.jobs) if use else {}
    jobs = runs.jobs_of(workspace).in_bulk(sizes.keys())
    return [JobUse(jobs[pk], size) for pk, size in sizes.items() if pk in jobs and size]


def _uploaded(use: TokenUse) -> int:
    return use.lines[0].used or 0


def _window(
    quota: Quota, workspace: Workspace, fields: dict[bytes, bytes] | None, hour: int
) -> QuotaLine:
    limit = quota.limit(workspace)
    if fields is None:
        return QuotaLine(quota, None, limit)
    known = {each: amount for each, amount in counters.amounts(fields, hour).items() if amount}
    used = sum(known.values())
    if not used:
        return QuotaLine(quota, 0, limit)
    # The time at which one more fits: within the limit, or below what is used.
    most = min(used, limit or used)
    return QuotaLine(quota, used, limit, _moment(frees_at_hour(known, hour, 1, most)))


def _stored(fields: dict[bytes, bytes] | None) -> int | None:
    """Return the stored bytes; None before the first count, because what was stored before it is
    unknown.
    """
    if not fields or b"counted" not in fields:
        return None
    return int(fields[b"counted"]) + int(fields.get(b"since", 0))


def _moment(hour: int) -> datetime:
    return datetime.fromtimestamp(hour * counters.HOUR_SECONDS, UTC)
