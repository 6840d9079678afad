"""Finds what changed from one run of a job to the next: price, hardware, and the advice it
follows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from advisor.money import display_usd
from webapp.runs.models import Run

ADVICE, PRICE, HARDWARE = "advice", "price", "hardware"
NOTABLE_PRICE = Decimal("0.005")
"""A smaller relative change is rounding."""


@dataclass(frozen=True)
class Mark:
    """Mark in the chart. `kind` is `advice`, `price` or `hardware`."""

    kind: str
    words: str


def changes(runs: Sequence[Run], followed: Mapping[int, str]) -> dict[int, list[Mark]]:
    """Return, by a run's number, what differs from the run before it.

    Args:
        runs: oldest first.
        followed: number of a run -> the advice that it was the first to follow.
    """
    found: dict[int, list[Mark]] = defaultdict(list)
    before: Run | None = None
    for run in runs:
        if run.number in followed:
            found[run.number].append(Mark(ADVICE, f"Followed: {followed[run.number]}"))
        if not run.summary.instance_types:
            continue  # not analysed, or of an unknown machine
        if before is not None:
            found[run.number] += _between(before, run)
        before = run
    return found


def _between(before: Run, run: Run) -> Iterator[Mark]:
    old, new = _machines(before), _machines(run)
    if old != new:
        yield Mark(HARDWARE, f"{old} → {new}")
    old, new = _purchase(before), _purchase(run)
    if old != new:
        yield Mark(PRICE, f"{old} → {new}")
    elif _machines(before) == _machines(run):
        yield from _price(before, run)


def _price(before: Run, run: Run) -> Iterator[Mark]:
    old, new = before.summary.usd_per_hour, run.summary.usd_per_hour
    if old is None or new is None:
        return
    if abs(new - old) > NOTABLE_PRICE * old:
        yield Mark(PRICE, f"{display_usd(old)} → {display_usd(new)} an hour")


def _machines(run: Run) -> str:
    count = run.summary.node_count or 1
    return f"{count} × {', '.join(run.summary.instance_types)}"


def _purchase(run: Run) -> str:
    """Return the purchase option and the basis of the price, as far as they are unusual."""
    option = str(run.configuration.get("purchase_option") or "on_demand").replace("_", " ")
    return option if run.summary.basis == "list" else f"{option}, {run.summary.basis}"
