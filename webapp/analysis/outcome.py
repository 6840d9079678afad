"""What an analysis found, before it is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from advisor.costing.cost import NodeUse, RunCost
from advisor.figures import Figures
from advisor.pricing.book import PriceBook
from advisor.probing.loop_speed import LoopSpeed
from rules.checkpoints import CheckpointFile
from rules.engine import Judgement
from rules.ledger import Ledger
from rules.lives import Life
from rules.lost_steps import RunSteps
from rules.slowdown import Block
from webapp.runs.models import Node, Run

FollowUp = Callable[[Run], None]
"""Writes what another package derived from the outcome. Called with the locked run at the end of
the same transaction."""


@dataclass(frozen=True)
class Measured:
    """The results from the samples."""

    judgements: list[Judgement]
    ledger: Ledger
    figures: Figures
    unreadable: tuple[str, ...]
    unsampled_seconds: float
    """Of the run, those of which nothing was ever stored, but for short gaps."""
    too_large: str = ""
    """Of what the run has too much to be judged, in words; empty: it was judged."""
    speed: LoopSpeed | None = None
    """Of its training loop; None: too few steps."""
    steps: RunSteps | None = None
    """Their numbers within the training; None: not measured."""
    blocks: tuple[Block, ...] = ()
    """Of the steps that count."""
    checkpoint_files: tuple[CheckpointFile, ...] = ()
    lives: tuple[Life, ...] = ()
    quiet_until: datetime | None = None
    """No window rule finds more than now before this time; None: not known."""


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
    """None: the samples are deleted or weren't read; earlier results from them are kept."""
    follow_ups: tuple[FollowUp, ...] = ()
