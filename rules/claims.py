"""The claims of findings on the ledger's time, and how much of it each of them gets.

A finding claims seconds of the ledger's labels. Each label's seconds are divided among the claims
on it: what the run told comes before what was measured, and that before symptoms, which get only
what no cause claimed. Claims of one directness share in proportion. So whatever rules claim, what
is counted under a label is at most the label's time, and in sum at most the run's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from rules.ledger_labels import LABELS, LEFT_TO_SYMPTOMS

MOST = 0.5
"""A finding that gets less than other findings took of its time is shown under the one that took
most (ours)."""
LEAST_SECONDS = 1e-3
"""Less is the rounding of a sum."""
Cells = NDArray[np.float64]
"""Node-seconds by node and label."""


class Directness(IntEnum):
    """The directness with which a rule knows the cause of the time that it claims, the most direct
    first.
    """

    TOLD_CAUSE = 0
    MEASURED_CAUSE = 1
    SYMPTOM = 2


@dataclass(frozen=True)
class Claim:
    """Time of labels that a fix gives back in part."""

    labels: tuple[str, ...]
    """The labels, of `rules.ledger_labels.LABELS`. The first is claimed first, the next ones as far
    as those before have too little time."""
    seconds: float
    """The seconds of the whole run, at its price: ten seconds of one of two nodes are five."""
    low: float
    high: float
    """The share of the seconds that a fix gives back, as a range within 0 to 1."""

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high <= 1:
            raise ValueError(f"{self.low} to {self.high} is no range of shares")
        if not 0 <= self.seconds < math.inf:
            raise ValueError(f"{self.seconds} s can't be claimed")
        if not self.labels or not set(self.labels) <= set(LABELS):
            raise ValueError(f"{self.labels} are no labels of the ledger")

    @classmethod
    def from_range(cls, labels: tuple[str, ...], low_seconds: float, high_seconds: float) -> Claim:
        """Return a claim on `high_seconds`, of which a fix gives back at least `low_seconds`."""
        return cls(labels, high_seconds, low_seconds / high_seconds if high_seconds else 1.0, 1.0)


@dataclass(frozen=True)
class Portion:
    """The part that one finding gets of what it claims, in node-seconds."""

    claimed: float = 0.0
    """The claimed time: at most what its labels hold."""
    labels: Mapping[str, float] = field(default_factory=dict)
    """The time that it gets of each label."""
    low: Mapping[str, float] = field(default_factory=dict)
    high: Mapping[str, float] = field(default_factory=dict)
    """The time that a fix gives back, by node."""
    taken: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The claimed time that more direct findings took, by rule and node; the most first."""
    under: str = ""
    """The rule under whose finding this one is shown, and which explains it; empty: it stands by
    itself."""

    @property
    def got(self) -> float:
        return sum(self.labels.values())

    @property
    def lost(self) -> float:
        """Return the time that more direct findings took."""
        return sum(seconds for by_node in self.taken.values() for seconds in by_node.values())


def divide(
    claims: Mapping[str, Sequence[Claim]],
    directness: Mapping[str, Directness],
    held: Mapping[str, Mapping[str, float]],
    run_seconds: float,
) -> dict[str, Portion]:
    """Divide the ledger's time among the findings of one run.

    Args:
        claims: rule id -> its claims, for every rule that fired.
        directness: rule id -> how directly it knows the cause.
        held: node -> label -> seconds of the node, as `Ledger.held_seconds`.
    """
    cells = np.array([[labels.get(label, 0.0) for label in LABELS] for labels in held.values()])
    cells = cells.reshape(len(held), len(LABELS))
    scale = float(cells.sum()) / run_seconds if run_seconds > 0 else 0.0
    wanted = {
        rule: [_spread(claim, claim.seconds * scale, cells) for claim in claims[rule]]
        for rule in sorted(claims)
    }
    shares = _shares(wanted, directness, cells)
    got = {rule: _sum(wanted[rule], cells) * shares[directness[rule]] for rule in wanted}
    portions = {}
    for rule, parts in wanted.items():
        share, nodes = shares[directness[rule]], tuple(held)
        whole = _sum(parts, cells)
        before = {r: g for r, g in got.items() if directness[r] < directness[rule]}
        portions[rule] = Portion(
            claimed=float(whole.sum()),
            labels={n: s for n, s in zip(LABELS, got[rule].sum(axis=0).tolist(), strict=True) if s},
            low=_by_node(nodes, [c.low for c in claims[rule]], parts, share),
            high=_by_node(nodes, [c.high for c in claims[rule]], parts, share),
            taken=_taken(nodes, whole - got[rule], before),
        )
    return _placed(portions)


def _spread(claim: Claim, seconds: float, cells: Cells) -> Cells:
    """Lay the claimed node-seconds over the labels in order, and over the nodes in proportion to
    what they hold."""
    laid = np.zeros_like(cells)
    for label in dict.fromkeys(claim.labels):
        column = LABELS.index(label)
        holds = float(cells[:, column].sum())
        if holds > 0:
            part = min(seconds / holds, 1.0)
            laid[:, column] = part * cells[:, column]
            seconds = max(seconds - part * holds, 0.0)
    return laid


def _shares(
    wanted: Mapping[str, Sequence[Cells]], directness: Mapping[str, Directness], cells: Cells
) -> dict[Directness, Cells]:
    """Return, for each directness, the share of what is wanted of a cell that is left, 0 to 1."""
    left, shares = cells.copy(), {}
    may_have = np.array([label in LEFT_TO_SYMPTOMS for label in LABELS])
    for level in Directness:
        asked = np.zeros_like(cells)
        for rule, parts in wanted.items():
            if directness[rule] == level:
                asked += _sum(parts, cells)
        free = left * may_have if level == Directness.SYMPTOM else left
        share = np.ones_like(cells)
        np.divide(free, asked, out=share, where=asked > free)
        shares[level] = share
        left = np.maximum(left - asked * share, 0.0)
    return shares


def _sum(parts: Sequence[Cells], cells: Cells) -> Cells:
    summed: Cells = np.add.reduce([np.zeros_like(cells), *parts])
    return summed


def _by_node(
    nodes: tuple[str, ...], factors: Sequence[float], parts: Sequence[Cells], share: Cells
) -> dict[str, float]:
    sums = np.zeros(len(nodes))
    for factor, part in zip(factors, parts, strict=True):
        sums += factor * (part * share).sum(axis=1)
    return dict(zip(nodes, sums.tolist(), strict=True))


def _taken(
    nodes: tuple[str, ...], missing: Cells, before: Mapping[str, Cells]
) -> dict[str, dict[str, float]]:
    """Return what more direct findings took of `missing`, in proportion to what they have of a
    cell.
    """
    whole = _sum(list(before.values()), missing)
    most = np.maximum(missing, whole)
    part = np.divide(missing, most, out=np.zeros_like(missing), where=most > 0)
    took = {rule: (part * own).sum(axis=1) for rule, own in before.items()}
    ordered = sorted(took.items(), key=lambda each: (-each[1].sum(), each[0]))
    return {
        rule: dict(zip(nodes, by_node.tolist(), strict=True))
        for rule, by_node in ordered
        if by_node.sum() > LEAST_SECONDS
    }


def _placed(portions: Mapping[str, Portion]) -> dict[str, Portion]:
    """Return each portion with the finding under which it is shown: never one that is shown under
    another. That one explains it, so that nothing more of it counts.
    """

    def root(rule: str) -> str:
        each = portions[rule]
        is_own = not each.taken or each.got >= MOST * (each.got + each.lost)
        return rule if is_own else root(next(iter(each.taken)))

    roots = {rule: root(rule) for rule in portions}
    return {
        rule: each
        if roots[rule] == rule
        else Portion(each.claimed, taken=each.taken, under=roots[rule])
        for rule, each in portions.items()
    }
