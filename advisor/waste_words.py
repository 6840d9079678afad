"""Says what a run wasted where no rule says it: it is too short, or nothing explains it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from advisor.money import display_usd
from rules.ledger_labels import NO_WASTE
from rules.ledger_words import WORDS
from rules.wording import lasting

SHORT_SECONDS = 300.0
LEAST_SHARE = 0.05
LARGE_SHARE = 0.2


@dataclass(frozen=True)
class LedgerPart:
    """The part of a run that has one label. `share` is 0 to 1; `usd` None: no price."""

    label: str
    share: float
    usd: Decimal | None = None


def describe_short_run(
    parts: Iterable[LedgerPart], run_seconds: float, judged: int, applicable: int
) -> str:
    """Say that a run is too short to judge, and what it went to, the most first; empty: it isn't
    short, or most rules had enough data.

    Args:
        judged: the number of rules that had enough data, of the `applicable` ones.
    """
    if run_seconds >= SHORT_SECONDS or judged > applicable / 2:
        return ""
    told = f"Too short to judge: in {lasting(run_seconds)}, {judged} of {applicable} rules had"
    large = [part for part in parts if part.label not in NO_WASTE and part.share >= LEAST_SHARE]
    ordered = sorted(large, key=lambda part: (-part.share, part.label))
    if not ordered:
        return f"{told} enough data."
    first, *others = (_words(part) for part in ordered)
    share, _, what = first.partition(" % ")
    return f"{told} enough data. {', '.join([f'{share} % of it was {what}', *others])}."


def describe_large_waste(parts: Iterable[LedgerPart]) -> str:
    """Return a clause about waste that is too large to be silent about where nothing is found;
    empty: there is none.
    """
    wasted = [part for part in parts if part.label in WORDS]
    share = sum(part.share for part in wasted)
    if share < LARGE_SHARE:
        return ""
    most = max(wasted, key=lambda part: part.share)
    known = [part.usd for part in wasted if part.usd is not None]
    cost = f"{display_usd(sum(known, Decimal(0)))}, " if len(known) == len(wasted) else ""
    of = "cost," if cost else "time"
    return f"{cost}{100 * share:.0f} % of its {of} was waste, most of it {WORDS[most.label]}"


def _words(part: LedgerPart) -> str:
    cost = "" if part.usd is None else f" ({display_usd(part.usd)})"
    return f"{100 * part.share:.0f} % {WORDS[part.label]}{cost}"
