"""A month's spend as a table by job, owner or tag, or one line per month."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from urllib.parse import urlencode

from webapp.accounts.models import Workspace
from webapp.spend import sums
from webapp.spend.months import Month
from webapp.spend.sums import JOB_ID, TAGS, Spend, spends
from webapp.spend.year import by_month

JOB, OWNER, TAG, MONTH = "job", "owner", "tag", "month"
BY = {JOB: "Job", OWNER: "Owner", TAG: "Tag", MONTH: "Month"}
GROUPS = {JOB: (JOB_ID,), OWNER: (JOB_ID, sums.OWNER), TAG: (JOB_ID, TAGS)}
"""The columns of runs that tell the lines apart."""
MONTHS_SHOWN = 12
NOBODY = "nobody"
NONE = "(none)"
"""The empty owner or value of a tag in URLs."""


MOST_LINES = 100
"""The most lines on a page; the CSV has them all."""


@dataclass
class SpendLine:
    """One line, or the total; see `Spend`."""

    label: str
    query: str = ""
    """The query of the list of its runs, with the month; empty if no page lists it."""
    usd: Decimal | None = None
    """The amount; None if no run has a price."""
    run_count: int = 0
    unpriced_count: int = 0
    billed_usd: Decimal | None = None
    counted_usd: Decimal | None = None

    @property
    def difference_usd(self) -> Decimal | None:
        """Billed minus counted, for runs with a billed amount."""
        if self.billed_usd is None or self.counted_usd is None:
            return None
        return self.billed_usd - self.counted_usd

    def add(self, spend: Spend | SpendLine) -> None:
        self.usd = _sum(self.usd, _known(spend))
        self.run_count += spend.run_count
        self.unpriced_count += spend.unpriced_count
        self.billed_usd = _sum(self.billed_usd, spend.billed_usd)
        self.counted_usd = _sum(self.counted_usd, spend.counted_usd)


@dataclass(frozen=True)
class Table:
    """Lines that add up to `total` exactly."""

    month: Month
    by: str
    key: str
    """The tag's key, if lines are by tag."""
    keys: list[str]
    """All tag keys of the month's runs; empty, unless lines are by tag."""
    lines: list[SpendLine]
    total: SpendLine

    @property
    def shown(self) -> list[SpendLine]:
        """Return what a page lists. The others are one line, so that it still adds up."""
        others = self.lines[MOST_LINES:]
        if not others:
            return self.lines
        rest = SpendLine(f"{len(others):,} others, in the CSV")
        for line in others:
            rest.add(line)
        return [*self.lines[:MOST_LINES], rest]

    @property
    def is_empty(self) -> bool:
        return not self.total.run_count and self.total.usd is None

    @property
    def has_bills(self) -> bool:
        return self.total.billed_usd is not None


def table(workspace: Workspace, month: Month, by: str, key: str = "") -> Table:
    """Return the table. `by` is as in `BY`; an empty `key` is the most common tag."""
    spent = spends(workspace, month.start, month.end, GROUPS[by]) if by != MONTH else []
    keys = _keys(spent) if by == TAG else []
    key = key or (keys[0] if keys else "")
    lines = (
        _grouped(spent, _label(by, key), _query(by, key))
        if by != MONTH
        else _months(workspace, month)
    )
    total = SpendLine("Together")
    for line in lines:
        total.add(line)
    return Table(month, by, key if by == TAG else "", keys, lines, total)


def _keys(spent: Iterable[Spend]) -> list[str]:
    """Return the keys, the most common first. Those with one value separate nothing, and come
    last.
    """
    counts: Counter[str] = Counter()
    values: defaultdict[str, set[str]] = defaultdict(set)
    for spend in spent:
        for key, value in spend.tags.items():
            counts[key] += spend.run_count
            values[key].add(value)
    return sorted(counts, key=lambda key: (len(values[key]) == 1, -counts[key], key))


def _label(by: str, key: str) -> Callable[[Spend], str]:
    if by == OWNER:
        return lambda spend: spend.owner or NOBODY
    if by == TAG:
        return lambda spend: _tag(spend, key)
    return lambda spend: spend.job


def _tag(spend: Spend, key: str) -> str:
    if key not in spend.tags:
        return f"no {key}" if key else "no tags"
    return str(spend.tags[key]) or "(empty)"


def _query(by: str, key: str) -> Callable[[Spend], str]:
    """Return the query of the list of runs; empty if it can't tell them from others."""
    if by == OWNER:
        return lambda spend: urlencode({"owner": spend.owner or NONE})
    if by == TAG and key:
        return lambda spend: urlencode({"tag": f"{key}={spend.tags.get(key) or NONE}"})
    return lambda spend: urlencode({"job": spend.job}) if by == JOB else ""


def _grouped(
    spent: Iterable[Spend], label: Callable[[Spend], str], query: Callable[[Spend], str]
) -> list[SpendLine]:
    """Return the lines, the most expensive first; lines without a price last."""
    lines: dict[str, SpendLine] = {}
    first: dict[str, Spend] = {}
    for spend in spent:
        name = label(spend)
        if name not in lines:
            lines[name], first[name] = SpendLine(name), spend
        lines[name].add(spend)
    ordered = sorted(lines.values(), key=lambda of: (of.usd is None, -(of.usd or 0), of.label))
    for line in ordered[:MOST_LINES]:
        line.query = query(first[line.label])
    return ordered


def _months(workspace: Workspace, last: Month) -> list[SpendLine]:
    """Return the months up to that one, newest first, without those before the first run."""
    months = [last.months_later(-back) for back in range(MONTHS_SHOWN)]
    lines = []
    for month, spend in zip(months, by_month(workspace, months), strict=True):
        lines.append(SpendLine(str(month), f"month={month}"))
        lines[-1].add(spend)
    while len(lines) > 1 and not lines[-1].run_count and lines[-1].usd is None:
        lines.pop()
    return lines


def _known(spend: Spend | SpendLine) -> Decimal | None:
    """Return the amount, or None if it is unknown. A priced run may have cost nothing yet."""
    if spend.usd is None and spend.unpriced_count < spend.run_count:
        return Decimal(0)
    return spend.usd


def _sum(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    if one is None or other is None:
        return other if one is None else one
    return one + other
