"""What an analysis found, before it is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from advisor.costing.cost import NodeUse, RunCost
from advisor.figures import Figures
from advisor.pricing.book import PriceBook
from rules.engine import Judgement
from rules.ledger import Ledger
from webapp.runs.models import Node, Run

FollowUp = Callable[[Run], None]
"""Writes what another package made of the outcome. Called with the run, locked, once the rest is
written, in the same transaction."""


@dataclass(frozen=True)
class Measured:
    """What was found in the samples."""

    judgements: list[Judgement]
    ledger: Ledger
    figures: Figures
    unreadable: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """What an analysis found. Nothing is written yet."""

    run: Run
    nodes: Sequence[Node]
    is_final: bool
    uses: Sequence[NodeUse]
    cost: RunCost
    book: PriceBook
    measured: Measured | None
    """None: they are deleted, or weren't read; what was found in them stays as it is."""
    follow_ups: tuple[FollowUp, ...] = ()
