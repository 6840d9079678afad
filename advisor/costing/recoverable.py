"""The time and money of one run that fixes give back. No second and no cent counts twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from advisor.costing.cost import RunCost
from advisor.durations import display_seconds
from advisor.money import display_usd, share_of_usd
from rules import claims
from rules.claims import Claim, Directness, Portion
from rules.engine import Judgement
from rules.ledger import WasteLedger
from rules.registry import all_rules, title_of


@dataclass(frozen=True)
class TakenPart:
    """The part that a more direct finding takes of the time that another one claims."""

    rule: str
    seconds: float
    """The time as seconds of the run, at its price."""
    usd: Decimal | None
    """The amount; None without a price."""


@dataclass(frozen=True)
class RecoverablePart:
    """The part of the run that a fix of one finding gives back, without what other findings claim
    of it.
    """

    seconds_low: float = 0.0
    seconds_high: float = 0.0
    """The time at most, as seconds of the run, at its price."""
    usd_low: Decimal | None = None
    usd_high: Decimal | None = None
    """The amount at most; None without a price."""
    explained_by: str = ""
    """The rule whose finding explains this one; empty: it stands by itself."""
    taken: tuple[TakenPart, ...] = ()
    """The findings that explain parts of it, the most first."""

    @property
    def weight(self) -> tuple[Decimal, float]:
        """Return the weight: what is worth most sorts last."""
        return self.usd_high or Decimal(0), self.seconds_high


def recoverable_by_rule(
    judgements: Iterable[Judgement],
    ledger: WasteLedger,
    run_seconds: float,
    node_usd: Mapping[str, Decimal] | None,
) -> dict[str, RecoverablePart]:
    """Return what each rule that fired may give back; together at most the run's time and cost.

    Args:
        node_usd: the cost of each node; None: a node has no price.
    """
    fired = {j.rule_id: j.verdict.claims for j in judgements if j.verdict.state == "fired"}
    return recoverable_of_claims(fired, ledger, run_seconds, node_usd)


def recoverable_of_claims(
    claimed: Mapping[str, Sequence[Claim]],
    ledger: WasteLedger,
    run_seconds: float,
    node_usd: Mapping[str, Decimal] | None,
) -> dict[str, RecoverablePart]:
    """Return the same as `recoverable_by_rule`, from the claims of each rule that fired."""
    known = all_rules()
    directness = {
        rule: known[rule].directness if rule in known else Directness.MEASURED_CAUSE
        for rule in claimed
    }
    held = ledger.held_seconds()
    portions = claims.divide(claimed, directness, held, run_seconds)
    prices = _Prices({node: sum(s.values()) for node, s in held.items()}, run_seconds, node_usd)
    return {rule: prices.price_portion(portion) for rule, portion in portions.items()}


class _Prices:
    """Turns seconds of nodes into time and money of the run."""

    def __init__(
        self,
        held: Mapping[str, float],
        run_seconds: float,
        node_usd: Mapping[str, Decimal] | None,
    ) -> None:
        self._held, self._node_usd = held, node_usd
        whole = sum(held.values())
        self._of_run = run_seconds / whole if whole else 0.0

    def price_portion(self, portion: Portion) -> RecoverablePart:
        return RecoverablePart(
            self._seconds(portion.low),
            self._seconds(portion.high),
            self._usd(portion.low),
            self._usd(portion.high),
            portion.under,
            tuple(
                TakenPart(rule, self._seconds(by_node), self._usd(by_node))
                for rule, by_node in portion.taken.items()
            ),
        )

    def _seconds(self, by_node: Mapping[str, float]) -> float:
        return sum(by_node.values()) * self._of_run

    def _usd(self, by_node: Mapping[str, float]) -> Decimal | None:
        if self._node_usd is None:
            return None
        shares = {node: s / self._held[node] for node, s in by_node.items() if self._held[node]}
        costs = {node: self._node_usd.get(node, Decimal(0)) for node in shares}
        parts = (share_of_usd(costs[node], min(share, 1.0)) for node, share in shares.items())
        return sum(parts, Decimal(0))


def node_costs(cost: RunCost) -> dict[str, Decimal] | None:
    """Return the cost of each node of a run; None if a node has no price."""
    if cost.missing:
        return None
    summed: dict[str, Decimal] = defaultdict(Decimal)
    for part in cost.parts:
        summed[part.node_key] += part.usd
    return dict(summed)


def taken_words(taken: Sequence[TakenPart]) -> str:
    """Return a sentence about the findings that explain parts of this one's time; empty if none
    does.
    """
    if not taken:
        return ""
    parts = (f"{title_of(each.rule)} {_amount(each)}" for each in taken)
    return f"Part of this time is explained by other findings: {'; '.join(parts)}."


def _amount(taken: TakenPart) -> str:
    seconds = display_seconds(taken.seconds)
    return seconds if taken.usd is None else f"{seconds} ({display_usd(taken.usd)})"
