"""Sentences about how a cost was calculated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

from advisor.costing.cost import CostPart, NodeUse, merge_intervals
from advisor.pricing.providers import minimum_seconds


def notes(
    uses: Sequence[NodeUse], own_shares: Mapping[str, Fraction], parts: Iterable[CostPart]
) -> list[str]:
    """Notes on machines that were charged in part, or for longer than they ran.

    Args:
        uses: the charged uses, scaled down if runs shared a machine.
        own_shares: node -> its share if no other run had used the machine.
        parts: the calculated cost.
    """
    return [*_partial(own_shares), *_shared(uses, own_shares), *_minimums(uses, parts)]


def _partial(own_shares: Mapping[str, Fraction]) -> list[str]:
    """Return one sentence for all nodes of one share."""
    shares = dict.fromkeys(share for share in own_shares.values() if share < 1)
    return [
        f"The run was allocated {_share(share)} of {_nodes(own_shares, share)} and is charged for "
        "that share."
        for share in shares
    ]


def _nodes(own_shares: Mapping[str, Fraction], share: Fraction) -> str:
    count = sum(own == share for own in own_shares.values())
    if count == len(own_shares):
        return "its machine" if count == 1 else "each machine"
    return "one of its machines" if count == 1 else f"{count} of its machines"


def _share(share: Fraction) -> str:
    if share.denominator <= 16:
        return f"{share.numerator}/{share.denominator}"
    return f"{float(100 * share):.0f} %"


def _shared(uses: Iterable[NodeUse], own_shares: Mapping[str, Fraction]) -> list[str]:
    scaled = {use.node_key for use in uses if use.share < own_shares[use.node_key]}
    if not scaled:
        return []
    return [
        "Overlapping runs used the same machine, so its cost is split between them by their shares."
    ]


def _minimums(uses: Sequence[NodeUse], parts: Iterable[CostPart]) -> list[str]:
    held = sum((_held(use) for use in uses), timedelta())
    charged = sum(part.seconds for part in parts)
    least = {minimum_seconds()[u.price_key.service] for u in uses if _has_minimum(u)}
    more = charged - Decimal(held // timedelta(microseconds=1)).scaleb(-6)
    if not least or more <= 0:
        return []
    return [
        f"{more.normalize():f} s are charged beyond the time that the machines ran: "
        f"the provider bills at least {max(least)} s per start."
    ]


def _has_minimum(use: NodeUse) -> bool:
    return use.owns_machine and use.price_key.service in minimum_seconds()


def _held(use: NodeUse) -> timedelta:
    return sum((end - start for start, end in merge_intervals(use.intervals)), timedelta())
