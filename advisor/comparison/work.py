"""The amount of work that two runs did, in the first unit that both counted, and its cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

UNITS = ("samples", "tokens", "epochs", "steps")
"""The units in the order in which they are tried. Steps are last, because they compare only at
equal batch size."""
WHOLE_RUN = "run"
LEAST_AMOUNT = 1e-3
"""Amounts of a unit below this count as none."""
SAME_WORK = 0.001
"""Amounts within 0.1 % are the same work, because a last batch may be dropped."""
SAME_DATA = 0.05
"""Samples (or tokens) an epoch within 5 % are the same data. Ours: larger batches drop more of an
epoch's end."""


class CostAndWork(Protocol):
    """A run's cost and the work it did."""

    @property
    def number(self) -> int: ...
    @property
    def cost_usd(self) -> Decimal | None: ...
    @property
    def work(self) -> Mapping[str, float]: ...
    @property
    def growing_share(self) -> float | None: ...


@dataclass(frozen=True)
class OtherData:
    """The runs' epochs have different sizes: `a` and `b` are `unit` an epoch."""

    unit: str
    a: float
    b: float


@dataclass(frozen=True)
class SharedWork:
    """`a` and `b` are amounts of `unit`. The costs are USD per unit; None: no price."""

    unit: str
    a: float
    b: float
    a_usd: Decimal | None
    b_usd: Decimal | None
    warnings: tuple[str, ...] = ()
    a_growing_usd: Decimal | None = None
    """The cost of a unit without start-up and end, which don't grow with the work (`startup`);
    None: also if they weren't measured, or whole runs are compared."""
    b_growing_usd: Decimal | None = None
    other_data: OtherData | None = None

    @property
    def is_same(self) -> bool:
        """Return whether the runs did equal amounts of the same data, as far as known."""
        return self.is_equal and self.other_data is None

    @property
    def is_equal(self) -> bool:
        return abs(self.a - self.b) <= SAME_WORK * max(self.a, self.b)


def shared_work(a: CostAndWork, b: CostAndWork, *, batch_differs: bool) -> SharedWork:
    """Return both runs' amounts in the first common unit; without one, the unit is `run`.

    Args:
        batch_differs: equal steps with unequal batches are not equal work, so steps are left out.
    """
    for unit in UNITS:
        done, wanted = a.work.get(unit, 0.0), b.work.get(unit, 0.0)
        if _is_counted(done) and _is_counted(wanted) and not (unit == "steps" and batch_differs):
            return SharedWork(
                unit,
                done,
                wanted,
                _each(a, done),
                _each(b, wanted),
                a_growing_usd=_growing_each(a, done),
                b_growing_usd=_growing_each(b, wanted),
                other_data=_other_data(a.work, b.work),
            )
    warnings = (_why_whole(a, b, batch_differs=batch_differs),)
    return SharedWork(WHOLE_RUN, 1, 1, a.cost_usd, b.cost_usd, warnings)


def quantity(amount: float) -> str:
    """Write `19,200`, `0.5`, `0.004`."""
    if float(amount).is_integer():
        return f"{amount:,.0f}"
    return f"{amount:,.1f}" if abs(amount) >= 1 else f"{amount:.1g}"


def _is_counted(amount: float) -> bool:
    """Return whether the amount is large enough: the cost per unit of a tiny one means nothing."""
    return math.isfinite(amount) and amount >= LEAST_AMOUNT


def _each(run: CostAndWork, amount: float) -> Decimal | None:
    return None if run.cost_usd is None else run.cost_usd / Decimal(str(amount))


def _growing_each(run: CostAndWork, amount: float) -> Decimal | None:
    each, share = _each(run, amount), run.growing_share
    return None if share is None or each is None else each * Decimal(str(share))


def _other_data(a: Mapping[str, float], b: Mapping[str, float]) -> OtherData | None:
    """Return the sizes of the runs' epochs, or None if they are alike or unknown."""
    for unit in ("samples", "tokens"):
        counted = [run.get(name, 0.0) for run in (a, b) for name in (unit, "epochs")]
        if all(map(_is_counted, counted)):
            sizes = counted[0] / counted[1], counted[2] / counted[3]
            is_same = max(sizes) - min(sizes) <= SAME_DATA * max(sizes)
            return None if is_same else OtherData(unit, *sizes)
    return None


def _why_whole(a: CostAndWork, b: CostAndWork, *, batch_differs: bool) -> str:
    if batch_differs and a.work.get("steps") and b.work.get("steps"):
        return "The batch size differs, so steps are not comparable; whole runs are compared."
    uncounted = [f"#{run.number}" for run in (a, b) if not any(map(run.work.get, UNITS))]
    if not uncounted:
        return "The runs have no unit of work in common; whole runs are compared."
    which = " and ".join(uncounted)
    return f"No amount of work was recorded for run {which}; whole runs are compared."
