"""The causes of the difference between two runs' costs, as terms that add up exactly.

LMDI-I (Ang, "Decomposition analysis for policymaking in energy", Energy Policy 32, 2004): for a
cost that is a product of factors, factor k changed it by `L(b, a) * ln(b_k / a_k)`, where L is the
logarithmic mean of both costs. Unlike "one factor after the other", the result depends on no order
and leaves no residual. The term of duration is then split by phases, which add up: a second of any
phase costs the same, so phases may be absent or take no time.

If a factor is 0 in one of the runs (an own machine that costs nothing), the limit of the formula
applies: the factors that are 0 account for the whole difference (Ang, Liu, "Handling zero values in
the logarithmic mean Divisia index decomposition approach", Energy Policy 35, 2007).

The electricity of own machines is a product of its own: its price per hour x nodes x hours. The
terms of the sum are those of both products, added up: LMDI-I is consistent in aggregation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, localcontext

from advisor.money import NANO_USD, rounded_usd

DIGITS = 50
MACHINES, ELECTRICITY, DURATION = "instance type", "electricity", "duration"
OTHER_TIME = "other time"
_PRICE = "price"
_SECONDS_PER_HOUR = 3600
_SAME = Decimal("1e-6")
_Exact = dict[str, Decimal]


@dataclass(frozen=True)
class CostFactors:
    """`cost_usd` = `usd_per_hour` (of one node) x `node_count` x hours x a remaining factor, and
    `electricity_usd`."""

    cost_usd: Decimal
    usd_per_hour: Decimal
    node_count: int
    duration_seconds: Decimal
    phase_seconds: Mapping[str, Decimal] = field(default_factory=dict)
    """Parts of the duration; empty: not known."""
    electricity_usd: Decimal = Decimal(0)
    """The part of the cost that is electricity."""


@dataclass(frozen=True)
class Term:
    """A negative `usd` made the second run cheaper."""

    name: str
    """`instance type`, `node count`, `duration`, `electricity`: the GPUs' power and its price; or
    `other`: shares of machines, nodes that joined or left, price changes, a provider's minimum. For
    a part: the phase."""
    usd: Decimal
    parts: tuple[Term, ...] = ()
    """The term of duration by phase, if both runs have phases. The parts add up to `usd`."""


def attribute(a: CostFactors, b: CostFactors) -> tuple[Term, ...] | None:
    """Return the terms of `b`'s cost minus `a`'s in whole nano-USD. They add up to it exactly.

    Return None if the figures are inconsistent: one is negative, or a cost is 0 and none of its
    factors is, or the reverse. `other` and `electricity` are present only if needed.
    """
    with localcontext() as context:
        context.prec = DIGITS
        products = {MACHINES: (_machines(a), _machines(b))}
        if a.electricity_usd or b.electricity_usd:
            products[ELECTRICITY] = _electricity(a), _electricity(b)
        pairs = list(products.values())
        if any(min(_numbers(run)) < 0 or not _agrees(run) for pair in pairs for run in pair):
            return None
        terms = _rounded(_summed(products), b.cost_usd - a.cost_usd)
        return tuple(
            _with_phases(term, a, b, pairs) if term.name == DURATION else term for term in terms
        )


def _machines(run: CostFactors) -> CostFactors:
    """Return the run without its electricity. Both are rounded apart, so a machine that costs
    nothing may seem to cost some nano-dollars.
    """
    usd = run.cost_usd - run.electricity_usd
    rounding = max(NANO_USD * run.node_count, _SAME * run.cost_usd)
    is_free = run.electricity_usd and not run.usd_per_hour and abs(usd) <= rounding
    return replace(run, cost_usd=Decimal(0) if is_free else usd)


def _electricity(run: CostFactors) -> CostFactors:
    """Return the electricity alone, at its price for an hour of a node."""
    node_hours = run.node_count * run.duration_seconds / _SECONDS_PER_HOUR
    usd_per_hour = run.electricity_usd / node_hours if node_hours else Decimal(0)
    return replace(run, cost_usd=run.electricity_usd, usd_per_hour=usd_per_hour)


def _summed(products: Mapping[str, tuple[CostFactors, CostFactors]]) -> _Exact:
    """Return the sums of the products' terms; each product's price is a term of its own."""
    exact: _Exact = {}
    for price, (a, b) in products.items():
        terms = _terms(a, b) if a.cost_usd and b.cost_usd else _with_zeros(a, b)
        for name, usd in terms.items():
            of = price if name == _PRICE else name
            exact[of] = exact.get(of, Decimal(0)) + usd
    return exact


def _agrees(run: CostFactors) -> bool:
    """Return whether the cost is 0 if and only if one of its factors is."""
    return (min(_factors(run).values()) == 0) == (run.cost_usd == 0)


def _numbers(run: CostFactors) -> tuple[Decimal, ...]:
    return run.cost_usd, *_factors(run).values(), *run.phase_seconds.values()


def _factors(run: CostFactors) -> _Exact:
    return {
        _PRICE: run.usd_per_hour,
        "node count": Decimal(run.node_count),
        DURATION: run.duration_seconds / _SECONDS_PER_HOUR,
    }


def _terms(a: CostFactors, b: CostFactors) -> _Exact:
    before, after = _with_other(a), _with_other(b)
    mean = _logarithmic_mean(b.cost_usd, a.cost_usd)
    exact = {name: mean * (after[name] / before[name]).ln() for name in before}
    # Costs are whole nano-dollars, so `other` is rarely exactly equal.
    rounding = NANO_USD / min(a.cost_usd, b.cost_usd)
    ratio = after["other"] / before["other"]
    if max(ratio, 1 / ratio) - 1 <= max(_SAME, rounding):
        del exact["other"]
    return exact


def _with_other(run: CostFactors) -> _Exact:
    factors = _factors(run)
    whole = Decimal(1)
    for factor in factors.values():
        whole *= factor
    return {**factors, "other": run.cost_usd / whole}


def _with_zeros(a: CostFactors, b: CostFactors) -> _Exact:
    """Return the whole difference, assigned to the factors that are 0 in one of the runs."""
    before, after = _factors(a), _factors(b)
    turned = [name for name in before if (before[name] == 0) != (after[name] == 0)]
    each = (b.cost_usd - a.cost_usd) / len(turned) if turned else Decimal(0)
    return {name: each if name in turned else Decimal(0) for name in before}


def _logarithmic_mean(x: Decimal, y: Decimal) -> Decimal:
    return x if x == y else (x - y) / (x / y).ln()


def _with_phases(
    term: Term, a: CostFactors, b: CostFactors, products: Sequence[tuple[CostFactors, CostFactors]]
) -> Term:
    paid = [(x.cost_usd, y.cost_usd) for x, y in products if x.cost_usd and y.cost_usd]
    if not a.phase_seconds or not b.phase_seconds or not paid:
        return term
    before, after = _all_time(a), _all_time(b)
    costs = sum((_logarithmic_mean(y, x) for x, y in paid), Decimal(0))
    usd_per_second = costs / _logarithmic_mean(b.duration_seconds, a.duration_seconds)
    moved = {
        name: usd_per_second * (after.get(name, Decimal(0)) - before.get(name, Decimal(0)))
        for name in dict.fromkeys([*before, *after])
    }
    return Term(term.name, term.usd, _rounded(moved, term.usd))


def _all_time(run: CostFactors) -> _Exact:
    """Return the phases, and the rest of the duration."""
    rest = run.duration_seconds - sum(run.phase_seconds.values(), Decimal(0))
    return {**run.phase_seconds, OTHER_TIME: rest} if rest else dict(run.phase_seconds)


def _rounded(exact: _Exact, difference: Decimal) -> tuple[Term, ...]:
    """Return the terms in nano-USD. The largest one takes the rounding difference."""
    rounded = {name: rounded_usd(usd) for name, usd in exact.items()}
    largest = max(rounded, key=lambda name: abs(rounded[name]))
    rounded[largest] += difference - sum(rounded.values(), Decimal(0))
    return tuple(Term(name, usd) for name, usd in rounded.items())
