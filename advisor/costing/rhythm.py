"""The rhythm in which spend repeats: what a day usually costs.

Days are alike by a number: all of them, those of the same weekday, or those of the same place in
the month (day or working day, counted from its start or its end). The rhythm is the one that best
predicts each known day from the others like it.
"""

from __future__ import annotations

from calendar import SATURDAY, monthrange
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache, cached_property
from statistics import fmean

Rhythm = Callable[[date], int]
"""Days of the same number are expected to cost the same."""
Daily = Mapping[date, float]
"""USD by day."""

LEAST_REPEATS = 14
"""A rhythm is tried if so many days have another one like them."""
MOST_ERROR = 0.9
"""A rhythm is taken if it has at most this share of the squared error of the plain mean. The mean
of `n` other days without a rhythm has `1 + 1/n`: about 1.08 for weekdays in 13 weeks."""
BLOCK_DAYS = 7
"""Spend that comes in bursts is more uncertain in sum than its single days say."""
LEAST_BLOCKS = 4


def every_day(day: date) -> int:
    return 0


def weekday(day: date) -> int:
    return day.weekday()


def day_of_month(day: date) -> int:
    return day.day


def day_before_month_end(day: date) -> int:
    return _month_days(day) - day.day


def working_day_of_month(day: date) -> int:
    """Return the number of the working day. Saturdays and Sundays are alike; public holidays aren't
    known.
    """
    return _working_days(day, 1, day.day)


def working_day_before_month_end(day: date) -> int:
    return _working_days(day, day.day, _month_days(day))


RHYTHMS: tuple[Rhythm, ...] = (
    weekday,
    day_of_month,
    day_before_month_end,
    working_day_of_month,
    working_day_before_month_end,
)


@cache
def _month_days(day: date) -> int:
    return monthrange(day.year, day.month)[1]


@cache
def _working_days(day: date, first: int, last: int) -> int:
    """Return the working days from day `first` to day `last` of the month; 0 if `day` itself isn't
    a working day.
    """
    if day.weekday() >= SATURDAY:
        return 0
    return sum(day.replace(day=each).weekday() < SATURDAY for each in range(first, last + 1))


@dataclass(frozen=True)
class UsualDay:
    """The usual cost of a day, from the `known` days, of which there is at least one."""

    known: Daily
    rhythm: Rhythm

    @cached_property
    def mean_usd(self) -> float:
        return fmean(self.known.values())

    @cached_property
    def _numbers(self) -> list[int]:
        """Return the numbers of the known days."""
        return [self.rhythm(day) for day in self.known]

    @cached_property
    def _alike(self) -> dict[int, list[float]]:
        alike = defaultdict(list)
        for number, usd in zip(self._numbers, self.known.values(), strict=True):
            alike[number].append(usd)
        return dict(alike)

    @cached_property
    def _means(self) -> dict[int, float]:
        return {number: fmean(usd) for number, usd in self._alike.items()}

    def usd(self, days: Iterable[date]) -> float:
        """Return the usual spend. A day of a number that was never seen costs the mean."""
        return sum(self._means.get(self.rhythm(day), self.mean_usd) for day in days)

    @cached_property
    def misses(self) -> dict[date, float]:
        """Return each day's spend less the mean of the others like it, where there are others."""
        means = {number: (self._means[number], len(usd)) for number, usd in self._alike.items()}
        missed = {}
        for number, (day, usd) in zip(self._numbers, self.known.items(), strict=True):
            mean, alike = means[number]
            if alike > 1:
                missed[day] = (usd - mean) * alike / (alike - 1)
        return missed

    @cached_property
    def dispersion_usd(self) -> float:
        """Return the variance of a sum of days, per USD that they usually cost.

        It is as for a quasi-Poisson variable: days without usual spend have no variance. One more
        miss, by the mean, stands for what few days can't show.
        """
        if not self.mean_usd:
            return 0.0
        squares = sum(miss**2 for miss in self.misses.values()) + self.mean_usd**2
        return max(squares / (self.mean_usd * len(self.known)), self._block_dispersion_usd())

    def _block_dispersion_usd(self) -> float:
        misses = list(self.misses.values())
        starts = range(0, len(misses) - BLOCK_DAYS + 1, BLOCK_DAYS)
        if len(starts) < LEAST_BLOCKS:
            return 0.0
        squares = [sum(misses[start : start + BLOCK_DAYS]) ** 2 for start in starts]
        return fmean(squares) / (self.mean_usd * BLOCK_DAYS)


def predict_usual_day(known: Daily) -> UsualDay:
    """Return what is usual by the rhythm that predicts the known days best."""
    plain = UsualDay(known, every_day)
    best, least = plain, MOST_ERROR
    for rhythm in RHYTHMS:
        tried = UsualDay(known, rhythm)
        error = _error(tried, plain)
        if error < least:
            best, least = tried, error
    return best


def _error(tried: UsualDay, plain: UsualDay) -> float:
    """Return the squared error of each day's prediction, as a share of that of the plain mean."""
    if len(tried.misses) < LEAST_REPEATS:
        return 1.0
    whole = sum(plain.misses[day] ** 2 for day in tried.misses)
    return sum(miss**2 for miss in tried.misses.values()) / whole if whole else 1.0
