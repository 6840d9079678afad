"""The cost of a run: price x seconds x share, one part per node and UTC day.

Times become whole microseconds, and the rest is exact rational arithmetic, so the order of nodes
and the split of a time into intervals change nothing. Costs are rounded once: each node's running
total is rounded to a nano-USD (half up) at the end of each day, and a day's part is the difference
of two totals. So the parts of a node add up exactly to its rounded cost, and those of a run to the
run's cost. k equal nodes cost exactly k times one node, and a run that continues never changes the
parts of past days.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

from advisor.money import rounded_usd
from advisor.pricing import providers
from advisor.pricing.book import PriceBook, Span
from advisor.pricing.price import PriceKey, PriceRow

Interval = tuple[datetime, datetime]

_MICROSECOND = timedelta(microseconds=1)
_MICROSECONDS_PER_HOUR = 3600 * 10**6


@dataclass(frozen=True)
class NodeUse:
    """When a run held a machine, and its share of it.

    Attributes:
        node_key: identifies the node within the run. A node may have several uses with different
            shares, which must not overlap.
        intervals: aware times, start and end; those of one use may overlap and are merged.
        share: allocated over total GPUs (cores where there are none), above 0 and at most 1.
        units: the number of priced units of the machine: its GPUs if the price is per GPU-hour.
        owns_machine: the machine was started for this run, so the provider's minimum applies.
    """

    node_key: str
    price_key: PriceKey
    intervals: tuple[Interval, ...]
    share: Fraction = Fraction(1)
    owns_machine: bool = False
    units: int = 1


@dataclass(frozen=True)
class CostPart:
    """One node on one UTC day. `seconds` are wall-clock, before the share."""

    node_key: str
    day: date
    seconds: Decimal
    usd: Decimal
    price_rows: tuple[PriceRow, ...]
    later_price: bool
    """A later price was used, because none was valid at the time."""
    estimated: bool


@dataclass(frozen=True)
class RunCost:
    """`total_usd` None is "no price". `missing` names the nodes without a price."""

    parts: tuple[CostPart, ...]
    total_usd: Decimal | None
    missing: tuple[str, ...]

    @property
    def known_usd(self) -> Decimal:
        """The sum of the parts that have a price."""
        return sum((part.usd for part in self.parts), Decimal(0))


@dataclass(frozen=True)
class _Piece:
    """A time on one node at one price and share, within one UTC day."""

    span: Span
    units: Fraction
    """Priced units of this run: the machine's units times the run's share."""

    @property
    def day(self) -> date:
        return self.span.start.astimezone(UTC).date()

    @property
    def microseconds(self) -> int:
        return (self.span.end - self.span.start) // _MICROSECOND

    def usd(self, row: PriceRow) -> Fraction:
        return Fraction(row.usd_per_hour) * self.microseconds * self.units / _MICROSECONDS_PER_HOUR


def cost_of_run(uses: Iterable[NodeUse], book: PriceBook) -> RunCost:
    """The cost of all nodes of a run, at the prices of their own time; no nodes cost $0.

    Raises:
        ValueError: a time without zone, an end before its start, a share outside 0..1, or
            overlapping uses of one node; names the node.
    """
    least = providers.minimum_seconds()
    by_node: dict[str, list[NodeUse]] = defaultdict(list)
    for use in uses:
        by_node[use.node_key].append(_checked(use))
    parts: list[CostPart] = []
    missing: list[str] = []
    for node_key, node_uses in sorted(by_node.items()):
        pieces = _pieces(_held(node_uses, least), book)
        parts += _parts(node_key, pieces)
        if any(piece.span.row is None for piece in pieces) or not _is_priced(node_uses, book):
            missing.append(node_key)
    total = None if missing else sum((part.usd for part in parts), Decimal("0E-9"))
    return RunCost(tuple(parts), total, tuple(missing))


def _is_priced(uses: list[NodeUse], book: PriceBook) -> bool:
    """Whether a machine has a price, even if it was held for no time."""
    starts = ((use.price_key, start) for use in uses for start, _ in use.intervals)
    return all(book.price_at(key, start) is not None for key, start in starts)


def _checked(use: NodeUse) -> NodeUse:
    if not 0 < use.share <= 1:
        raise ValueError(f"node {use.node_key}: share is {use.share}; it must be in 0..1, not 0")
    if use.units < 1:
        raise ValueError(f"node {use.node_key}: {use.units} units; it must be at least 1")
    for start, end in use.intervals:
        if start.tzinfo is None or end.tzinfo is None:
            raise ValueError(f"node {use.node_key}: intervals need a time zone; give them in UTC")
        if end < start:
            raise ValueError(f"node {use.node_key}: interval ends at {end}, before its {start}")
    return use


def _held(
    uses: list[NodeUse], minimum_seconds: Mapping[str, int]
) -> list[tuple[datetime, datetime, NodeUse]]:
    """When the node was held and billed, in order and without overlaps."""
    held = sorted(
        ((*interval, use) for use in uses for interval in merged(use.intervals)),
        key=lambda entry: entry[:2],
    )
    for (_, end, use), (start, _, _) in pairwise(held):
        if start < end:
            raise ValueError(f"node {use.node_key}: two uses overlap at {start}")
    return _with_minimum(held, minimum_seconds)


def _with_minimum(
    held: list[tuple[datetime, datetime, NodeUse]], minimum_seconds: Mapping[str, int]
) -> list[tuple[datetime, datetime, NodeUse]]:
    """Each interval without a break is one start. A short one is extended to the minimum, or to the
    node's next interval, so that no second is charged twice."""
    billed = []
    began: datetime | None = None
    for index, (start, end, use) in enumerate(held):
        began = start if began is None else began
        following = held[index + 1][0] if index + 1 < len(held) else None
        if following != end:
            least = minimum_seconds.get(use.price_key.service, 0) if use.owns_machine else 0
            end = max(end, began + timedelta(seconds=least))
            end = min(end, following) if following else end
            began = None
        billed.append((start, end, use))
    return billed


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Overlapping and touching intervals joined, in UTC, in order."""
    joined: list[Interval] = []
    for start, end in sorted((a.astimezone(UTC), b.astimezone(UTC)) for a, b in intervals):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def _pieces(held: list[tuple[datetime, datetime, NodeUse]], book: PriceBook) -> list[_Piece]:
    return [
        _Piece(span, use.units * use.share)
        for start, end, use in held
        for day_start, day_end in _days(start, end)
        for span in book.spans(use.price_key, day_start, day_end)
    ]


def _days(start: datetime, end: datetime) -> Iterator[Interval]:
    """The interval, split at each UTC midnight."""
    while start < end:
        midnight = datetime(start.year, start.month, start.day, tzinfo=UTC) + timedelta(days=1)
        yield start, min(midnight, end)
        start = midnight


def _parts(node_key: str, pieces: list[_Piece]) -> list[CostPart]:
    days: dict[date, list[tuple[_Piece, PriceRow]]] = defaultdict(list)
    for piece in pieces:
        if piece.span.row is not None:
            days[piece.day].append((piece, piece.span.row))
    parts, total, written = [], Fraction(0), Decimal("0E-9")
    for day, priced in sorted(days.items()):
        total += sum(piece.usd(row) for piece, row in priced)
        rounded = rounded_usd(total)
        parts.append(_part(node_key, day, priced, rounded - written))
        written = rounded
    return parts


def _part(
    node_key: str, day: date, priced: list[tuple[_Piece, PriceRow]], usd: Decimal
) -> CostPart:
    rows = tuple(dict.fromkeys(row for _, row in priced))
    microseconds = sum(piece.microseconds for piece, _ in priced)
    return CostPart(
        node_key=node_key,
        day=day,
        seconds=Decimal(microseconds).scaleb(-6),
        usd=usd,
        price_rows=rows,
        later_price=any(piece.span.later for piece, _ in priced),
        estimated=any(row.estimated for row in rows),
    )


def shares_on_machine(uses: Iterable[NodeUse]) -> tuple[NodeUse, ...]:
    """The uses of one machine by any runs, scaled down while their shares add up to more than 1.

    During that time each share is divided by the sum, so the machine is paid once. A use whose
    share changes is returned in several pieces with the same `node_key`, which must identify the
    run as well.
    """
    given = [_checked(use) for use in uses]
    edges = sorted({time for use in given for interval in use.intervals for time in interval})
    held: dict[tuple[int, Fraction], list[Interval]] = defaultdict(list)
    for start, end in pairwise(edges):
        active = [i for i, use in enumerate(given) if _holds(use, start)]
        total = sum(given[i].share for i in active)
        for i in active:
            held[i, given[i].share / max(total, Fraction(1))].append((start, end))
    return tuple(
        replace(given[i], share=share, intervals=tuple(merged(intervals)))
        for (i, share), intervals in sorted(held.items())
    )


def _holds(use: NodeUse, when: datetime) -> bool:
    return any(start <= when < end for start, end in use.intervals)
