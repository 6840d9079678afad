"""Where the difference between two runs' costs came from, as terms that add up exactly.

LMDI-I (Ang, "Decomposition analysis for policymaking in energy", Energy Policy 32, 2004): for a
cost that is a product of factors, factor k changed it by `L(b, a) * ln(b_k / a_k)`, where L is the
logarithmic mean of both costs. Unlike "one factor after the other" it depends on no order and
leaves no rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext

DIGITS = 50
NANO_USD = Decimal(1).scaleb(-9)
_SECONDS_PER_HOUR = 3600
_SAME = Decimal("1e-6")


@dataclass(frozen=True)
class CostFactors:
    """`cost_usd` = `usd_per_hour` (of one node) x `node_count` x hours x what is left over."""

    cost_usd: Decimal
    usd_per_hour: Decimal
    node_count: int
    duration_seconds: Decimal


@dataclass(frozen=True)
class Term:
    """`usd` below 0: this made the second run cheaper."""

    name: str
    """`instance type`, `node count`, `duration`, or `other`: shares of machines, nodes that came
    and went, prices that changed, a provider's minimum."""
    usd: Decimal


def attribute(a: CostFactors, b: CostFactors) -> tuple[Term, ...] | None:
    """The terms of `b`'s cost minus `a`'s in whole nano-USD; they sum to it exactly.

    None where any cost, price, count or duration is 0: a ratio to nothing says nothing. `other` is
    there only where it isn't the same in both.
    """
    if min(*_numbers(a), *_numbers(b)) <= 0:
        return None
    with localcontext() as context:
        context.prec = DIGITS
        before, after = _factors(a), _factors(b)
        mean = _logarithmic_mean(b.cost_usd, a.cost_usd)
        exact = {name: mean * (after[name] / before[name]).ln() for name in before}
        difference = b.cost_usd - a.cost_usd
    # Costs are whole nano-dollars, so `other` is seldom the very same.
    rounding = NANO_USD / min(a.cost_usd, b.cost_usd)
    ratio = after["other"] / before["other"]
    if max(ratio, 1 / ratio) - 1 <= max(_SAME, rounding):
        del exact["other"]
    return _rounded(exact, difference)


def _numbers(run: CostFactors) -> tuple[Decimal, ...]:
    return run.cost_usd, run.usd_per_hour, Decimal(run.node_count), run.duration_seconds


def _factors(run: CostFactors) -> dict[str, Decimal]:
    hours = run.duration_seconds / _SECONDS_PER_HOUR
    whole = run.usd_per_hour * run.node_count * hours
    return {
        "instance type": run.usd_per_hour,
        "node count": Decimal(run.node_count),
        "duration": hours,
        "other": run.cost_usd / whole,
    }


def _logarithmic_mean(x: Decimal, y: Decimal) -> Decimal:
    return x if x == y else (x - y) / (x / y).ln()


def _rounded(exact: dict[str, Decimal], difference: Decimal) -> tuple[Term, ...]:
    """In nano-USD; the largest term takes what rounding left over."""
    rounded = {name: usd.quantize(NANO_USD) for name, usd in exact.items()}
    largest = max(rounded, key=lambda name: abs(rounded[name]))
    rounded[largest] += difference - sum(rounded.values(), Decimal(0))
    return tuple(Term(name, usd) for name, usd in rounded.items())
