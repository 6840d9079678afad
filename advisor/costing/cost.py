"""The cost of a run: price x seconds x share, one part per node and UTC day.

Times become whole microseconds, and the rest is exact rational arithmetic, so the order of nodes
and the split of a time into intervals change nothing. Costs are rounded once: each node's running
total is rounded to a nano-USD (half up) at the end of each day, and a day's part is the difference
of two totals. So the parts of a node add up exactly to its rounded cost, and those of a run to the
run's cost. k equal nodes cost exactly k times one node, and a run that continues never changes the
parts of past days.

A provider's minimum is charged once for each start of a machine, whichever nodes of the run used
it: the seconds of the minimum that no node used follow the node that used the machine before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

from advisor.costing.charges import Charge, DayCharges
from advisor.costing.electricity import DayEnergy, Electricity, rate_words, usd_of_joules
from advisor.money import rounded_usd
from advisor.pricing import providers
from advisor.pricing.book import PriceBook, PriceSpan
from advisor.pricing.price import PriceKey, PriceRow

Interval = tuple[datetime, datetime]

_MICROSECOND = timedelta(microseconds=1)
_SECONDS_PER_HOUR = 3600


@dataclass(frozen=True)
class NodeUse:
    """The time in which a run held a machine, and its share of it.

    Attributes:
        node_key: identifies the node within the run. A node may have several uses with different
            shares, which must not overlap.
        intervals: aware times, start and end; those of one use may overlap and are merged.
        share: allocated over total GPUs (cores where there are none), above 0 and at most 1.
        units: the number of priced units of the machine: its GPUs if the price is per GPU-hour.
        owns_machine: the machine was started for this run, so the provider's minimum applies.
        machine_start: identifies one start of a machine; nodes that share it share its minimum.
            Empty: no other node of the run used the machine.
        crowding: the part that is left of the run's share while other runs hold the machine, too.
        energy: what the run's GPUs on the node took, by day, as measured.
        billed_share: the seconds that the platform bills over those for which the machine was
            held; 1 unless it says so.
        retained_seconds: for which the machine was kept after its last interval, charged too.
    """

    node_key: str
    price_key: PriceKey
    intervals: tuple[Interval, ...]
    share: Fraction = Fraction(1)
    owns_machine: bool = False
    units: int = 1
    machine_start: str = ""
    crowding: Fraction = Fraction(1)
    energy: tuple[DayEnergy, ...] = ()
    billed_share: Fraction = Fraction(1)
    retained_seconds: int = 0


_Held = tuple[datetime, datetime, NodeUse]


@dataclass(frozen=True)
class CostPart:
    """One node on one UTC day. `seconds` are wall-clock, before the share."""

    node_key: str
    day: date
    seconds: Decimal
    charges: DayCharges
    price_rows: tuple[PriceRow, ...]
    later_price: bool
    """A later price was used, because none was valid at the time."""
    estimated: bool

    @property
    def usd(self) -> Decimal:
        return self.charges.usd


@dataclass(frozen=True)
class RunCost:
    """`total_usd` None is "no price". `missing` names the nodes without a price."""

    parts: tuple[CostPart, ...]
    total_usd: Decimal | None
    missing: tuple[str, ...]
    electricity: Electricity | None = None
    """The electricity in the parts; None: no rate of these machines has a price for it."""

    @property
    def known_usd(self) -> Decimal:
        """Return the sum of the parts that have a price."""
        return sum((part.usd for part in self.parts), Decimal(0))


@dataclass(frozen=True)
class _Piece:
    """A time on one node at one price and share, within one UTC day."""

    span: PriceSpan
    units: Fraction
    """Priced units of this run: the machine's units times the run's share."""
    crowding: Fraction = Fraction(1)
    watts: Fraction | None = None
    """Mean power of the run's GPUs on that day, its share of them while other runs use them, too.
    None: not measured."""
    measured_share: Fraction = Fraction(0)
    """The share of the day's time on the node in which the power was measured."""

    @property
    def day(self) -> date:
        return self.span.start.astimezone(UTC).date()

    @property
    def microseconds(self) -> int:
        return (self.span.end - self.span.start) // _MICROSECOND

    def charge(self, row: PriceRow) -> Charge:
        hourly = Fraction(row.usd_per_hour) * self.units
        if self.watts is not None:
            hourly += usd_of_joules(self.watts * _SECONDS_PER_HOUR, row)
        return Charge(self.span.start, self.span.end, hourly)

    @property
    def joules(self) -> Fraction | None:
        """The energy in this time; None: not measured."""
        return None if self.watts is None else self.watts * self.microseconds / 10**6


def cost_of_run(uses: Iterable[NodeUse], book: PriceBook) -> RunCost:
    """Return the cost of all nodes of a run, at the prices of their own time; no nodes cost $0.

    Raises:
        ValueError: a time without zone, an end before its start, a share outside 0..1, or
            overlapping uses of one node; names the node.
    """
    by_node: dict[str, list[NodeUse]] = defaultdict(list)
    for use in uses:
        by_node[use.node_key].append(_checked(use))
    billed = _billed(by_node)
    parts: list[CostPart] = []
    missing: list[str] = []
    metered: list[_Piece] = []
    for node_key, node_uses in sorted(by_node.items()):
        pieces = _with_power(_pieces(billed[node_key], book), node_uses[0].energy)
        metered += (piece for piece in pieces if piece.span.row and piece.span.row.usd_per_kwh)
        parts += _parts(node_key, pieces)
        if any(piece.span.row is None for piece in pieces) or not _is_priced(node_uses, book):
            missing.append(node_key)
    total = None if missing else sum((part.usd for part in parts), Decimal("0E-9"))
    return RunCost(tuple(parts), total, tuple(missing), _electricity(metered))


def _is_priced(uses: list[NodeUse], book: PriceBook) -> bool:
    """Return whether a machine has a price, even if it was held for no time."""
    starts = ((use.price_key, start) for use in uses for start, _ in use.intervals)
    return all(book.price_at(key, start) is not None for key, start in starts)


def _checked(use: NodeUse) -> NodeUse:
    if not 0 < use.share <= 1:
        raise ValueError(f"node {use.node_key}: share is {use.share}; it must be in 0..1, not 0")
    if use.billed_share < 0 or use.retained_seconds < 0:
        raise ValueError(f"node {use.node_key}: the billed time is negative")
    if use.units < 1:
        raise ValueError(f"node {use.node_key}: {use.units} units; it must be at least 1")
    for start, end in use.intervals:
        if start.tzinfo is None or end.tzinfo is None:
            raise ValueError(f"node {use.node_key}: intervals need a time zone; give them in UTC")
        if end < start:
            raise ValueError(f"node {use.node_key}: interval ends at {end}, before its {start}")
    return use


def _billed(by_node: Mapping[str, list[NodeUse]]) -> dict[str, list[_Held]]:
    """Return node -> when it was held or paid for, in order and without overlaps."""
    billed = {node_key: _held(uses) for node_key, uses in by_node.items()}
    retained = {node_key: list(_retained(held)) for node_key, held in billed.items()}
    by_start: dict[tuple[str, str], list[_Held]] = defaultdict(list)
    for node_key, held in sorted(billed.items()):
        for entry in held:
            start = entry[2].machine_start
            by_start[start, "" if start else node_key].append(entry)
    for together in by_start.values():
        for entry in _rest_of_minimum(together):
            billed[entry[2].node_key].append(entry)
    return {
        node_key: [*sorted(held, key=_times), *retained[node_key]]
        for node_key, held in billed.items()
    }


def _retained(held: list[_Held]) -> Iterator[_Held]:
    """Yield the time for which the machine was kept after the run, of which all is billed."""
    if held and held[-1][2].retained_seconds:
        _, end, use = held[-1]
        kept = timedelta(seconds=use.retained_seconds)
        yield end, end + kept, replace(use, billed_share=Fraction(1))


def _times(held: _Held) -> Interval:
    return held[:2]


def _held(uses: list[NodeUse]) -> list[_Held]:
    """Return when the node was held, in order and without overlaps."""
    held = sorted(
        ((*interval, use) for use in uses for interval in merge_intervals(use.intervals)),
        key=_times,
    )
    for (_, end, use), (start, _, _) in pairwise(held):
        if start < end:
            raise ValueError(f"node {use.node_key}: two uses overlap at {start}")
    return held


def _rest_of_minimum(together: list[_Held]) -> Iterator[_Held]:
    """Yield the seconds of the provider's minimum in which nobody used the machine after its start,
    so that no second is charged twice. Each follows the uses that ended before it.
    """
    used = merge_intervals((start, end) for start, end, _ in together)
    paid_until = used[0][0] + timedelta(seconds=max(_minimum_seconds(use) for *_, use in together))
    following = [*(start for start, _ in used[1:]), paid_until]
    for (_, end), start in zip(used, following, strict=True):
        if end < paid_until:
            ended = [each for each in together if each[1] == end]
            last = [each for each in ended if each[0] < end] or ended[-1:]
            yield from ((end, min(start, paid_until), use) for *_, use in last)


def _minimum_seconds(use: NodeUse) -> int:
    return providers.minimum_seconds().get(use.price_key.service, 0) if use.owns_machine else 0


def merge_intervals(intervals: Iterable[Interval]) -> list[Interval]:
    """Join overlapping and touching intervals, in UTC, in order."""
    joined: list[Interval] = []
    for start, end in sorted((a.astimezone(UTC), b.astimezone(UTC)) for a, b in intervals):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def _pieces(held: list[_Held], book: PriceBook) -> list[_Piece]:
    return [
        _Piece(span, use.units * use.share * use.billed_share, use.crowding)
        for start, end, use in held
        for day_start, day_end in _days(start, end)
        for span in book.spans(use.price_key, day_start, day_end)
    ]


def _with_power(pieces: list[_Piece], energy: Iterable[DayEnergy]) -> list[_Piece]:
    """Return the pieces of a node with its power, which is even over the time of each day."""
    by_day = {each.day: each for each in energy}
    held: dict[date, int] = defaultdict(int)
    for piece in pieces:
        held[piece.day] += piece.microseconds
    return [
        _powered(piece, by_day[piece.day], Fraction(held[piece.day], 10**6))
        if piece.day in by_day and held[piece.day]
        else piece
        for piece in pieces
    ]


def _powered(piece: _Piece, energy: DayEnergy, held_seconds: Fraction) -> _Piece:
    watts = energy.joules * piece.crowding / held_seconds
    share = min(Fraction(str(energy.seconds)) / held_seconds, Fraction(1))
    return replace(piece, watts=watts, measured_share=share)


def _electricity(metered: list[_Piece]) -> Electricity | None:
    """Return the electricity of the pieces whose rate has a price for it; None without any."""
    rows = [(piece, piece.span.row) for piece in metered if piece.span.row is not None]
    if not rows:
        return None
    whole = sum(piece.microseconds for piece, _ in rows)
    known = sum((piece.measured_share * piece.microseconds for piece, _ in rows), Fraction(0))
    measured = [(piece.joules, row) for piece, row in rows if piece.joules is not None]
    usd = sum((usd_of_joules(joules, row) for joules, row in measured), Fraction(0))
    return Electricity(
        usd=rounded_usd(usd) if measured else None,
        joules=round(sum((joules for joules, _ in measured), Fraction(0))) if measured else None,
        measured_share=float(known / whole) if whole else 0.0,
        rates=sorted({rate_words(row) for _, row in rows}),
    )


def _days(start: datetime, end: datetime) -> Iterator[Interval]:
    """Split the interval at each UTC midnight."""
    while start < end:
        midnight = datetime(start.year, start.month, start.day, tzinfo=UTC) + timedelta(days=1)
        yield start, min(midnight, end)
        start = midnight


def _parts(node_key: str, pieces: list[_Piece]) -> list[CostPart]:
    days: dict[date, list[tuple[_Piece, PriceRow]]] = defaultdict(list)
    for piece in pieces:
        if piece.span.row is not None:
            days[piece.day].append((piece, piece.span.row))
    parts, total = [], Fraction(0)
    for day, priced in sorted(days.items()):
        charges = DayCharges(total, tuple(piece.charge(row) for piece, row in priced))
        parts.append(_part(node_key, day, priced, charges))
        total = charges.total_usd
    return parts


def _part(
    node_key: str, day: date, priced: list[tuple[_Piece, PriceRow]], charges: DayCharges
) -> CostPart:
    rows = tuple(dict.fromkeys(row for _, row in priced))
    microseconds = sum(piece.microseconds for piece, _ in priced)
    return CostPart(
        node_key=node_key,
        day=day,
        seconds=Decimal(microseconds).scaleb(-6),
        charges=charges,
        price_rows=rows,
        later_price=any(piece.span.later for piece, _ in priced),
        estimated=any(row.estimated for row in rows),
    )


def shares_on_machine(
    uses: Iterable[NodeUse], wanted: Collection[str] | None = None
) -> tuple[NodeUse, ...]:
    """Return the uses of one machine by any runs, scaled down while their shares add up to more
    than 1.

    During that time each share is divided by the sum, so the machine is paid once. A use whose
    share changes is returned in several pieces with the same `node_key`, which must identify the
    run as well. A use of no length is returned as it is, because its machine was started.

    Args:
        wanted: return the uses of these node keys alone; None: of all. The time grows with their
            number times that of all intervals.
    """
    given = [_checked(use) for use in uses]
    returned = [i for i, use in enumerate(given) if wanted is None or use.node_key in wanted]
    instants = [given[i] for i in returned if all(s == e for s, e in given[i].intervals)]
    changes: dict[datetime, list[tuple[int, int]]] = defaultdict(list)
    for i, use in enumerate(given):
        for start, end in merge_intervals(use.intervals):
            changes[start].append((i, 1))
            changes[end].append((i, -1))
    held: dict[tuple[int, Fraction], list[Interval]] = defaultdict(list)
    total, is_active = Fraction(0), [False] * len(given)
    for start, end in pairwise(sorted(changes)):
        for i, sign in changes[start]:
            total += sign * given[i].share
            is_active[i] = sign > 0
        for i in returned:
            if is_active[i]:
                held[i, given[i].share / max(total, Fraction(1))].append((start, end))
    scaled = [
        replace(
            given[i],
            share=share,
            crowding=share / given[i].share,
            intervals=tuple(merge_intervals(intervals)),
        )
        for (i, share), intervals in sorted(held.items())
    ]
    return (*scaled, *instants)
