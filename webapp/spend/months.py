"""Calendar months in a workspace's time zone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from webapp.accounts.models import Workspace

_MONTH = re.compile(r"(\d{4})-(\d{2})")


@dataclass(frozen=True)
class Month:
    """Month of a workspace. `start` and `end` are in UTC; the end is the start of the next one."""

    year: int
    month: int
    zone: ZoneInfo

    def __str__(self) -> str:
        return f"{self.year:04}-{self.month:02}"

    @property
    def title(self) -> str:
        return f"{self.first_day:%B %Y}"

    @property
    def first_day(self) -> date:
        return date(self.year, self.month, 1)

    @property
    def start(self) -> datetime:
        return datetime(self.year, self.month, 1, tzinfo=self.zone).astimezone(UTC)

    @property
    def end(self) -> datetime:
        return self.months_later(1).start

    def months_later(self, by: int) -> Month:
        """Return the month that many months later."""
        number = self.year * 12 + self.month - 1 + by
        return Month(number // 12, number % 12 + 1, self.zone)


def zone_of(workspace: Workspace) -> ZoneInfo:
    return ZoneInfo(workspace.time_zone)


def current_month(workspace: Workspace, now: datetime) -> Month:
    local = now.astimezone(zone_of(workspace))
    return Month(local.year, local.month, zone_of(workspace))


def parse_month(text: str, workspace: Workspace, now: datetime) -> Month:
    """Return the month of a text such as `2026-11`; the current one if it is empty.

    Raises:
        ValueError: not a month, before 2000, or in the future.
    """
    present = current_month(workspace, now)
    if not text:
        return present
    match = _MONTH.fullmatch(text)
    if match is None or not 1 <= int(match[2]) <= 12:
        raise ValueError("Write a month as YYYY-MM, for example 2026-11.")
    month = Month(int(match[1]), int(match[2]), present.zone)
    if month.year < 2000 or month.start > present.start:
        raise ValueError("Choose a month between 2000-01 and the current month.")
    return month
