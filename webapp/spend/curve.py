"""The curve of savings that were added up, with its axis, as parts of an SVG drawing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import ceil
from typing import NamedTuple

from advisor.money import round_amount_above
from webapp.advice.selectors.savings import UsdRange

WIDTH, HEIGHT = 1000.0, 160.0
NOTHING = Decimal(0)


class Tick(NamedTuple):
    """A round amount on the axis, `y` from the top."""

    usd: Decimal
    y: float


@dataclass(frozen=True)
class Curve:
    """Curve in a box of WIDTH x HEIGHT. `line` and `band` are SVG points, and `zero_y` is where 0
    USD is.
    """

    line: str
    band: str
    zero_y: float
    ticks: list[Tick]


def curve(sums: Sequence[UsdRange]) -> Curve:
    """Return the curve of at least two sums, from the left edge to the right one."""
    amounts = _axis(min(each.low for each in sums), max(each.high for each in sums))
    top, bottom = amounts[0], amounts[-1]
    step = WIDTH / (len(sums) - 1)

    def y(usd: Decimal) -> float:
        return round(HEIGHT * float((top - usd) / (top - bottom)), 1)

    def points(sums_usd: Iterable[Decimal]) -> list[str]:
        return [f"{n * step:.1f},{y(usd):.1f}" for n, usd in enumerate(sums_usd)]

    low, high = points(each.low for each in sums), points(each.high for each in sums)
    return Curve(
        line=" ".join(points(each.mid for each in sums)),
        band=" ".join([*high, *reversed(low)]),
        zero_y=y(NOTHING),
        ticks=[Tick(usd, y(usd)) for usd in amounts],
    )


def _axis(least_usd: Decimal, most_usd: Decimal) -> list[Decimal]:
    """Round amounts from the highest to the lowest, $0 among them."""
    unit = round_amount_above(max(most_usd, -least_usd, NOTHING) / 3)
    above, below = (ceil(max(usd, NOTHING) / unit) for usd in (most_usd, -least_usd))
    return [unit * n for n in range(max(above, 0 if below else 1), -below - 1, -1)]
