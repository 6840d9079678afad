"""The text of a comparison. Its first sentence claims no more than is known."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from advisor.comparison.attribution import Term
from advisor.comparison.quality import Quality
from advisor.comparison.refusals import describe_unfinished, is_unfinished, other_data
from advisor.comparison.run_facts import RunFacts
from advisor.comparison.work import WHOLE_RUN, SharedWork, quantity
from advisor.durations import display_seconds
from advisor.money import (
    MINUS,
    display_signed_usd,
    display_usd,
    display_usd_per_unit,
    exact_usd,
)

NOTABLE_WAIT_POINTS = 5
"""A smaller change of data wait, in points, is not mentioned."""
LEAST_SHOWN_USD = Decimal("0.00005")
"""Less is written as nothing. The exact amounts are beside it."""
SAME_PCT = 0.05
"""A smaller change would be shown as 0.0 %."""


def sentence(
    a: RunFacts,
    b: RunFacts,
    work: SharedWork,
    quality: Quality,
    *,
    is_same_workload: bool,
) -> str:
    """Compare `b` with the earlier `a`. Says "less" or "more" only if both runs finished the same
    work and have a price.

    Args:
        quality: results that are or may be worse in `b`, so that no saving is claimed.
    """
    is_same_work = is_same_workload and work.is_same
    for run in (b, a):
        if is_unfinished(run):
            return _unfinished(run, a, b)
    if a.cost_usd is None or b.cost_usd is None:
        return _without_price(a, b, work, is_same_work)
    if is_same_work:
        clauses = _clauses(a, b, work)
        reasons = f": {clauses}" if clauses else ""
        return f"{_difference(a, b, a.cost_usd, b.cost_usd)}{reasons}{_but(quality)}."
    if not is_same_workload:
        return (
            f"{_run(b)} cost {display_usd(b.cost_usd)} and {_run(a, start=False)} "
            f"{display_usd(a.cost_usd)}, but they are different workloads, so no saving is claimed."
        )
    return _other_work(a, b, work)


def describe_causes(terms: Sequence[Term] | None) -> str:
    """Return the causes of the difference in cost, the largest first; empty if unknown."""
    ordered = sorted(terms or (), key=lambda term: -abs(term.usd))
    parts = [
        f"{display_signed_usd(term.usd)} {term.name}{_by_phase(term)}"
        for term in ordered
        if abs(term.usd) >= LEAST_SHOWN_USD
    ]
    if not parts:
        return ""
    difference = sum((term.usd for term in ordered), Decimal(0))
    return f"{display_signed_usd(difference)} in total: {', '.join(parts)}."


def describe_calculation(
    old: Decimal | None, new: Decimal | None, terms: Sequence[Term] | None
) -> str:
    """Return the calculation from one cost to the other, to the nano-dollar; empty if unknown.

    `$2.00 − $0.75 instance type + $0.25 duration = $1.50 (−25.00 %)`
    """
    if old is None or new is None or terms is None:
        return ""
    changes = [
        f"{MINUS if term.usd < 0 else '+'} {_every_digit(term.usd)} {term.name}"
        for term in terms
        if term.usd
    ]
    percent = change_pct(old, new)
    change = "" if percent is None else f" ({write_signed(percent, 2)} %)"
    return f"{' '.join([_every_digit(old), *changes])} = {_every_digit(new)}{change}"


def _every_digit(usd: Decimal) -> str:
    return f"${exact_usd(abs(usd))}"


def _by_phase(term: Term) -> str:
    parts = [part for part in term.parts if abs(part.usd) >= LEAST_SHOWN_USD]
    moved = [f"{part.name} {display_signed_usd(part.usd)}" for part in parts]
    return f" ({', '.join(moved)})" if moved else ""


def _run(run: RunFacts, *, start: bool = True) -> str:
    return f"{'Run' if start else 'run'} #{run.number}"


def _unfinished(run: RunFacts, a: RunFacts, b: RunFacts) -> str:
    costs = f"{display_usd(a.cost_usd)} and {display_usd(b.cost_usd)}"
    is_growing = any(
        each.state in ("running", "lost") or each.incomplete_because for each in (a, b)
    )
    so_far = " so far" if is_growing else ""
    return f"{_start(describe_unfinished(run))}, so the costs{so_far}, {costs}, are not compared."


def _start(clause: str) -> str:
    return clause[:1].upper() + clause[1:]


def _without_price(a: RunFacts, b: RunFacts, work: SharedWork, is_same_work: bool) -> str:
    unpriced = [run for run in (a, b) if run.cost_usd is None]
    names = " and ".join(f"#{run.number}" for run in unpriced)
    who = f"runs {names} have" if len(unpriced) == 2 else f"run {names} has"
    clauses = _clauses(a, b, work) if is_same_work else ""
    if not clauses:
        return f"{who[0].upper()}{who[1:]} no price, so no saving is claimed."
    return f"{_run(b)} against #{a.number}: {clauses}; {who} no price, so no saving is claimed."


def _difference(a: RunFacts, b: RunFacts, old: Decimal, new: Decimal) -> str:
    percent = change_pct(old, new)
    if new == old or (percent is not None and abs(percent) < SAME_PCT):
        return f"{_run(b)} cost the same as run #{a.number}, {display_usd(new)}"
    word = "less" if new < old else "more"
    amount = display_usd(abs(new - old))
    return f"{_run(b)} cost {amount} {word} than run #{a.number}{_in_brackets(percent)}"


def _other_work(a: RunFacts, b: RunFacts, work: SharedWork) -> str:
    """Return the sentence for different amounts of the same workload, or for other data."""
    if work.other_data is not None:
        costs = f"{display_usd(a.cost_usd)} and {display_usd(b.cost_usd)}"
        difference = _start(other_data(work.other_data, a, b))
        return f"{difference}, so it is different work and the costs, {costs}, are not compared."
    amounts = f"{quantity(work.b)} and {quantity(work.a)} {work.unit}"
    unit, old, new = work.unit.removesuffix("s"), work.a_growing_usd, work.b_growing_usd
    if old is None or new is None:
        return (
            f"The runs did different amounts, {amounts}, and their start-up wasn't measured, so "
            f"the costs per {unit} are not compared."
        )
    return (
        f"Per {unit} and without start-up, run #{b.number} cost {display_usd_per_unit(new)} and "
        f"run #{a.number} {display_usd_per_unit(old)}{_in_brackets(change_pct(old, new))}; they "
        f"did different amounts, {amounts}, so no saving is claimed."
    )


def _but(quality: Quality) -> str:
    if quality.worse:
        results = ", ".join(map(str, quality.worse))
        return f"; but its results are worse ({results}), so no saving is claimed"
    if quality.unclear:
        moved = ", ".join(f"{m.name} moved from {m.a:.4g} to {m.b:.4g}" for m in quality.unclear)
        known = "whether that is better isn't known"
        return f"; but {moved} and {known}, so no saving is claimed"
    return ""


def _in_brackets(percent: float | None) -> str:
    return "" if percent is None else f" ({write_signed(percent, 1)} %)"


def _clauses(a: RunFacts, b: RunFacts, work: SharedWork) -> str:
    clauses = (_time(a, b, work), _machines(a, b), _data_wait(a, b))
    return "; ".join(clause for clause in clauses if clause)


def _time(a: RunFacts, b: RunFacts, work: SharedWork) -> str:
    if a.duration_seconds is None or b.duration_seconds is None:
        return ""
    old, new = display_seconds(a.duration_seconds), display_seconds(b.duration_seconds)
    took = f"it took {new}" if old == new else f"it took {new} instead of {old}"
    same = "" if work.unit == WHOLE_RUN else f" for the same {quantity(work.b)} {work.unit}"
    return took + same


def _machines(a: RunFacts, b: RunFacts) -> str:
    if not a.machines or not b.machines or a.machines == b.machines:
        return ""
    return f"it ran on {b.machines} instead of {a.machines}"


def _data_wait(a: RunFacts, b: RunFacts) -> str:
    old, new = a.figure("data_wait_share"), b.figure("data_wait_share")
    if old is None or new is None or abs(new - old) * 100 < NOTABLE_WAIT_POINTS:
        return ""
    verb = "fell" if new < old else "rose"
    return f"data wait {verb} from {100 * old:.0f} % to {100 * new:.0f} % of step time"


def change_pct(old: Decimal | float, new: Decimal | float) -> float | None:
    """Return the change in percent; None if there is nothing to compare with."""
    return 100 * (float(new) / float(old) - 1) if old else None


def write_signed(number: float, digits: int) -> str:
    """Write `+1.5`, `−0.2`, and `0.0` without a sign."""
    shown = f"{abs(number):.{digits}f}"
    if not float(shown):
        return shown
    return f"{MINUS if number < 0 else '+'}{shown}"


def write_setting(value: Any) -> str:
    """Return a setting's value, as people read it."""
    return "not set" if value is None else str(value)
