"""The time of a machine that its platform bills, instead of that for which it was held."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from fractions import Fraction
from typing import Any

from advisor.costing.cost import NodeUse, merge_intervals

LONGEST_SECONDS = 100 * 86_400
"""Longer times are taken for damaged ones: a training job ends after 28 days."""
_MOST_NOTES = 20
_NOTE_CHARS = 1_000
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Billing:
    """The billed time of one machine.

    Attributes:
        billed_seconds: of the time for which the run held the machine; None: all of it.
        retained_seconds: for which the machine was kept after the run, billed too.
        is_at_least: the platform bills more than is known.
        notes: sentences about how it bills.
    """

    billed_seconds: int | None = None
    retained_seconds: int = 0
    is_at_least: bool = False
    notes: tuple[str, ...] = ()


AS_HELD = Billing()
"""The time for which the machine was held is billed."""


def bill_use(use: NodeUse, billing: Billing) -> NodeUse:
    """Return the use, charged as its platform bills it."""
    use = replace(use, retained_seconds=billing.retained_seconds)
    if billing.billed_seconds is None or not use.intervals:
        return use
    held = sum((end - start for start, end in merge_intervals(use.intervals)), timedelta())
    if held:
        share = Fraction(billing.billed_seconds * 10**6, held // _MICROSECOND)
        return replace(use, billed_share=share)
    start = use.intervals[0][0]
    return replace(use, intervals=((start, start + timedelta(seconds=billing.billed_seconds)),))


def notes_of(billings: Iterable[Billing]) -> list[str]:
    """Return the sentences of a run's machines, each once."""
    return list(dict.fromkeys(note for billing in billings for note in billing.notes))


def as_document(billing: Billing) -> dict[str, Any]:
    """Return JSON; empty if the platform bills the time for which the machine was held."""
    return {} if billing == AS_HELD else asdict(billing)


def from_document(document: Mapping[str, Any]) -> Billing:
    """Return the billing that `as_document` wrote.

    Raises:
        ValueError: it has another shape, or an impossible time.
    """
    known = Billing(**{**document, "notes": tuple(document.get("notes", ()))})
    times = [known.retained_seconds]
    times += [] if known.billed_seconds is None else [known.billed_seconds]
    if not all(type(each) is int and 0 <= each <= LONGEST_SECONDS for each in times):
        raise ValueError("a billed time is impossible")
    texts = all(isinstance(note, str) and len(note) <= _NOTE_CHARS for note in known.notes)
    if len(known.notes) > _MOST_NOTES or not texts or type(known.is_at_least) is not bool:
        raise ValueError("the billed times have another shape")
    return known
