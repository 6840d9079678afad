"""Random runs around the ends of months, and what each of their seconds cost by another way.

The oracle knows nothing of pieces, days or rows: it cuts the time at every edge there is, and asks
for each cut who used the machine, at which price.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from random import Random

from advisor.costing.cost import NodeUse
from advisor.pricing.price import PriceKey, PriceRow

KEY = PriceKey("aws", "ec2", "us-east-1", "p3.8xlarge", "on_demand")
MINIMUM = timedelta(seconds=60)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Asia/Kathmandu",
         "Australia/Lord_Howe", "Pacific/Chatham", "Pacific/Auckland")  # fmt: skip
YEAR = 2026
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
_HOUR_MICROSECONDS = 3600 * 10**6


@dataclass(frozen=True)
class RandomRun:
    uses: tuple[NodeUse, ...]
    rows: tuple[PriceRow, ...]

    @property
    def start(self) -> datetime:
        return min(start for use in self.uses for start, _ in use.intervals)


def random_run(random: Random) -> RandomRun:
    """Return one to three nodes, on one machine or on several, around the beginning of a month."""
    month = datetime(YEAR, random.randint(1, 12), 1, tzinfo=UTC)
    began_at = month + _between(random, -26 * HOUR, 14 * HOUR)
    began_at = random.choice([began_at, _on_a_boundary(random, month), month])
    is_one_machine = random.random() < 0.5
    uses: list[NodeUse] = []
    now = began_at
    for number in range(1, random.randint(1, 3) + 1):
        now += random.choice([timedelta(), _between(random, timedelta(), 3 * MINIMUM)])
        machine = "i-1" if is_one_machine else f"i-{number}"
        used, ended_at = _node(random, f"node-{number}", machine, now)
        uses += used
        now = ended_at if is_one_machine else began_at
    return RandomRun(tuple(uses), _prices(random, began_at))


def _node(random: Random, key: str, machine: str, now: datetime) -> tuple[list[NodeUse], datetime]:
    """Return sessions with breaks, and shares that change when neighbours come and go."""
    owns = random.random() < 0.6
    uses = []
    for _ in range(random.randint(1, 4)):
        end = now + random.choice(
            [
                timedelta(),
                _between(random, timedelta(), MINIMUM),
                _between(random, timedelta(), 5 * HOUR),
                _between(random, timedelta(), 3 * DAY),
            ]
        )
        share = Fraction(random.randint(1, 7), random.randint(7, 13))
        uses.append(NodeUse(key, KEY, ((now, end),), share, owns, random.randint(1, 8), machine))
        now = end + random.choice([timedelta(), _between(random, timedelta(), 2 * MINIMUM)])
    return uses, now


def _on_a_boundary(random: Random, month: datetime) -> datetime:
    """Return a few seconds around where the month begins in one of the zones."""
    minutes = random.choice([0, 60, 120, 240, 300, 330, 345, 630, 660, 720, 765, 780, 825])
    offset = timedelta(minutes=minutes * random.choice([-1, 1]))
    return month + offset + _between(random, -MINIMUM, MINIMUM)


def _prices(random: Random, began_at: datetime) -> tuple[PriceRow, ...]:
    """Return one to three prices, one after the other. The first may begin after the run."""
    starts = sorted(began_at + _between(random, -DAY, 2 * DAY) for _ in range(random.randint(0, 2)))
    first = random.choice([began_at - 30 * DAY, began_at + _between(random, -HOUR, HOUR)])
    turns = [first, *(turn for turn in starts if turn > first)]
    return tuple(
        PriceRow(KEY, Decimal(random.randint(1, 10**11)).scaleb(-9), start, end, "list", id=number)
        for number, (start, end) in enumerate(pairwise([*turns, None]), start=1)
    )


def _between(random: Random, least: timedelta, most: timedelta) -> timedelta:
    return timedelta(microseconds=random.randint(_microseconds(least), _microseconds(most)))


def _microseconds(length: timedelta) -> int:
    return length // timedelta(microseconds=1)


def exact_usd(run: RandomRun, node_key: str, moment: datetime) -> Fraction:
    """Return what the node cost until a moment."""
    charged = [*run.uses, *_minimums(run.uses)]
    mine = [use for use in charged if use.node_key == node_key]
    edges = {edge for use in mine for interval in use.intervals for edge in interval}
    edges |= {row.valid_from for row in run.rows} | {moment}
    total = Fraction(0)
    for start, end in pairwise(sorted(edges)):
        if end <= moment:
            rate = sum((use.share * use.units for use in mine if _covers(use, start)), Fraction(0))
            total += rate * _price(run.rows, start) * _microseconds(end - start)
    return total / _HOUR_MICROSECONDS


def _price(rows: Iterable[PriceRow], when: datetime) -> Fraction:
    """Return the last price that had begun, else the first to come."""
    begun = [row for row in rows if row.valid_from <= when]
    row = max(begun, key=lambda r: r.valid_from) if begun else min(rows, key=lambda r: r.valid_from)
    return Fraction(row.usd_per_hour)


def _covers(use: NodeUse, when: datetime) -> bool:
    return any(start <= when < end for start, end in use.intervals)


def _minimums(uses: Iterable[NodeUse]) -> list[NodeUse]:
    """Return the unused time of the first minute of each machine, as uses of the node before."""
    added = []
    for machine in {use.machine_start for use in uses}:
        mine = sorted((use for use in uses if use.machine_start == machine), key=_ends)
        first = min(use.intervals[0][0] for use in mine)
        if not any(use.owns_machine for use in mine):
            continue
        edges = {edge for use in mine for edge in use.intervals[0]} | {first, first + MINIMUM}
        inside = sorted(edge for edge in edges if edge <= first + MINIMUM)
        for start, end in pairwise(inside):
            if not any(_covers(use, start) for use in mine):
                before = [use for use in mine if use.intervals[0][1] <= start]
                added.append(replace(before[-1], intervals=((start, end),)))
    return added


def _ends(use: NodeUse) -> tuple[datetime, bool, datetime]:
    start, end = use.intervals[0]
    return end, start < end, start


def rounded(usd: Fraction) -> Fraction:
    """Round to the nano-dollar, a half up."""
    return Fraction((usd * 10**9 * 2 + 1) // 2, 10**9)
