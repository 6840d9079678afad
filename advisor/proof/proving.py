"""The proof of a job's recommendations: who followed, what was saved, and whether that is certain.

It is read from the ledger of the runs: the state of a recommendation depends only on runs that
followed it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from advisor.comparison.job_metrics import MetricSettings
from advisor.proof.baseline import MissingFigureError
from advisor.proof.followers import Key
from advisor.proof.ledger import SavingsLedger
from advisor.proof.runs import CompleteRun, PriceOf, Promise
from advisor.proof.saving import RealisedTotal, RunSaving, running
from advisor.successive.noise import Prior

CLAIMED, VERIFIED = "claimed", "verified"
FAILED, UNVERIFIABLE = "failed", "unverifiable"
DECIDING_RUNS = 5
"""A change that has saved nothing in so many runs has failed (ours)."""
MOST_REASONS = 3


@dataclass(frozen=True)
class Proof:
    """The evidence of later runs about one recommendation that was followed."""

    state: str
    claimed_by: int
    proven_by: int | None = None
    """The run after which the state was certain."""
    candidate: Mapping[str, Any] | None = None
    savings: tuple[RunSaving, ...] = ()
    missing: tuple[str, ...] = ()
    """The runs of which nothing is counted, and why."""
    gone_back: tuple[int, ...] = ()
    """Later runs that are as the evidence was, before the change."""
    is_lapsed: bool = False
    """The newest run has gone back."""

    @property
    def realised(self) -> RealisedTotal | None:
        return running(self.savings)[-1] if self.savings else None


def prove(
    promises: Iterable[Promise],
    runs: Sequence[CompleteRun],
    prices: PriceOf = lambda run, at: None,
    prior: Prior | None = None,
    metrics: MetricSettings | None = None,
) -> dict[Key, Proof]:
    """Return the proof of each promise that was followed, by key. The runs count in the order of
    their times; the order of the promises and other workloads don't matter.

    Args:
        metrics: what people set about the job's metrics. Runs with worse results prove no saving.
    """
    proofs: dict[Key, Proof] = {}
    ordered = sorted(runs, key=lambda run: run.order)
    by_workload: dict[str, dict[Key, Promise]] = defaultdict(dict)
    for promise in promises:
        by_workload[promise.workload_key][promise.key] = promise
    for workload, own in by_workload.items():
        alike = [run for run in ordered if run.workload_key == workload]
        proofs |= _proofs(SavingsLedger(alike, own, prices, prior or Prior(), metrics or {}))
    return proofs


def _proofs(ledger: SavingsLedger) -> dict[Key, Proof]:
    savings: dict[Key, list[RunSaving]] = defaultdict(list)
    missing: dict[Key, list[str]] = defaultdict(list)
    for place, run in enumerate(ledger.runs):
        counted = [key for key in ledger.followed[place] if ledger.is_counted(key, place)]
        try:
            for key, saved in (ledger.rows(place) if counted else {}).items():
                savings[key].append(saved)
        except MissingFigureError as error:
            for key in counted:
                missing[key].append(f"run #{run.number}: {error}")
    return {key: _proof(ledger, key, savings[key], missing[key]) for key in ledger.followers}


def _proof(
    ledger: SavingsLedger, key: Key, savings: Sequence[RunSaving], missing: Sequence[str]
) -> Proof:
    followers, numbers = ledger.followers[key], [run.number for run in ledger.runs]
    state, proven_by = _state(savings)
    return Proof(
        state=state,
        claimed_by=numbers[followers.first],
        proven_by=proven_by,
        candidate=followers.choices[followers.first].candidate,
        savings=tuple(savings),
        missing=tuple(missing[:MOST_REASONS]),
        gone_back=tuple(numbers[place] for place in followers.gone_back),
        is_lapsed=len(numbers) - 1 in followers.gone_back and not followers.is_replaced,
    )


def _state(savings: Sequence[RunSaving]) -> tuple[str, int | None]:
    """Return the state and the run that proved it. The sum over all runs decides; the run that
    proved it is the first from which on the sum said so.
    """
    if not savings:
        return UNVERIFIABLE, None
    states = [_state_of(realised) for realised in running(savings)]
    last = len(states) - 1
    while last and states[last - 1] == states[-1]:
        last -= 1
    return states[-1], None if states[-1] == CLAIMED else savings[last].number


def _state_of(realised: RealisedTotal) -> str:
    if realised.low_usd > 0:
        return VERIFIED
    has_had_time = realised.runs >= DECIDING_RUNS and realised.usd <= 0
    return FAILED if realised.high_usd < 0 or has_had_time else CLAIMED
