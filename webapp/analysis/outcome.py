"""The results of an analysis, before they are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from advisor.costing.cost import NodeUse, RunCost
from advisor.costing.electricity import DayEnergy
from advisor.figures import Figures
from advisor.pricing.book import PriceBook
from advisor.probing.loop_speed import LoopSpeed
from rules.checkpoints import CheckpointFile
from rules.engine import Judgement
from rules.ledger import WasteLedger
from rules.lives import RunLife
from rules.lost_steps import RunSteps
from rules.slowdown import StepStretch
from webapp.runs.models import Node, Run

FollowUp = Callable[[Run], None]
"""Writes what another package derived from the outcome. Called with the locked run at the end of
the same transaction."""


@dataclass(frozen=True)
class SampleResults:
    """The results from the samples."""

    judgements: list[Judgement]
    ledger: WasteLedger
    figures: Figures
    unreadable: tuple[str, ...]
    unsampled_seconds: float
    """The seconds of the run of which nothing was ever stored, except for short gaps."""
    too_large: str = ""
    """The part of the run that is too large to be judged, in words; empty if the run was judged."""
    speed: LoopSpeed | None = None
    """The speed of the training loop; None for too few steps."""
    steps: RunSteps | None = None
    """The numbers of the steps within the training; None if not measured."""
    blocks: tuple[StepStretch, ...] = ()
    """The blocks of the steps that count."""
    checkpoint_files: tuple[CheckpointFile, ...] = ()
    lives: tuple[RunLife, ...] = ()
    energy: Mapping[str, tuple[DayEnergy, ...]] | None = None
    """The energy of the GPUs by the node's key and day; None if the samples weren't read."""
    quiet_until: datetime | None = None
    """The time before which no window rule finds more than now; None if unknown."""


@dataclass(frozen=True)
class Outcome:
    """Result of an analysis, not yet written."""

    run: Run
    nodes: Sequence[Node]
    is_final: bool
    uses: Sequence[NodeUse]
    cost: RunCost
    book: PriceBook
    measured: SampleResults | None
    """The results from the samples; None if these are deleted or weren't read. Earlier results from
    them are kept."""
    follow_ups: tuple[FollowUp, ...] = ()
