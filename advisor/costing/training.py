"""The ledger of a training: all attempts of all of its runs, in microseconds and nano-dollars.

Sums only, so neither the order in which attempts arrive nor how they are divided into runs changes
anything, and a training of one attempt has the ledger of its run. Time in which the training held
no machine, between the end of an attempt and the start of the next, costs nothing and is told
beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from rules.ledger_labels import LABELS

NOT_GOOD = ("initialise", "compile", "first_steps", "restore", "restart", "lost", "checkpoint")
"""The labels that goodput leaves out. Google's ml-goodput-measurement calls them TPU_INITIALIZATION
and TRAINING_PREP (`initialise`), PROGRAM_STARTUP (`compile`, `first_steps`), CHECKPOINT_RESTORE
(`restore`), INFRASTRUCTURE_RECOVERY (`restart`), WASTED_PROGRESS (`lost`) and CHECKPOINT_SAVE
(`checkpoint`)."""
UNKNOWN, EFFECTIVE = "gap", "effective"


@dataclass(frozen=True)
class LabelCost:
    """The time of one label on one GPU, or on a node without GPUs."""

    label: str
    microseconds: int
    usd: Decimal | None
    """The cost; None without a price."""


@dataclass(frozen=True)
class Attempt:
    """One start of a run's processes on one set of nodes."""

    held_us: tuple[tuple[int, int], ...]
    """The times in which its nodes were held, on one clock for all attempts."""
    parts: tuple[LabelCost, ...]


@dataclass(frozen=True)
class Wait:
    """Time between attempts in which no machine was held."""

    began_us: int
    ended_us: int

    @property
    def microseconds(self) -> int:
        return self.ended_us - self.began_us


@dataclass(frozen=True)
class TrainingLedger:
    """`parts` has one part a label, in the order of `LABELS`."""

    parts: tuple[LabelCost, ...]
    waits: tuple[Wait, ...]

    @property
    def microseconds(self) -> int:
        return sum(part.microseconds for part in self.parts)

    @property
    def usd(self) -> Decimal | None:
        """Return the cost, or None if a part has no price."""
        return added_usd(part.usd for part in self.parts)

    @property
    def goodput(self) -> Fraction | None:
        """Return the share, of the held time whose use is known, that was not start, load, restart,
        lost work or checkpoint; None if nothing is known.
        """
        known = self.microseconds - self._time(UNKNOWN)
        bad = sum(self._time(label) for label in NOT_GOOD)
        return Fraction(known - bad, known) if known else None

    @property
    def effective_share(self) -> Fraction | None:
        """Return effective dollars divided by paid dollars; None without a price, or if nothing was
        paid.
        """
        paid = self.usd
        effective = added_usd(part.usd for part in self.parts if part.label == EFFECTIVE)
        return Fraction(effective) / Fraction(paid) if paid and effective is not None else None

    def _time(self, label: str) -> int:
        return sum(part.microseconds for part in self.parts if part.label == label)


def training_ledger(attempts: Sequence[Attempt]) -> TrainingLedger:
    """Add up the attempts, which may come in any order."""
    every: dict[str, list[LabelCost]] = {}
    for attempt in attempts:
        for part in attempt.parts:
            every.setdefault(part.label, []).append(part)
    parts = (_sum(label, every[label]) for label in LABELS if label in every)
    return TrainingLedger(tuple(parts), tuple(_waits(attempts)))


def added_usd(amounts: Iterable[Decimal | None]) -> Decimal | None:
    """Return the sum, or None if one of the amounts is None."""
    known = list(amounts)
    return None if None in known else sum((usd for usd in known if usd is not None), Decimal(0))


def _sum(label: str, parts: Sequence[LabelCost]) -> LabelCost:
    time = sum(part.microseconds for part in parts)
    return LabelCost(label, time, added_usd(part.usd for part in parts))


def _waits(attempts: Sequence[Attempt]) -> Iterable[Wait]:
    held = sorted(span for attempt in attempts for span in attempt.held_us)
    reached: int | None = None
    for began, ended in held:
        if reached is not None and began > reached:
            yield Wait(reached, began)
        reached = ended if reached is None else max(reached, ended)
