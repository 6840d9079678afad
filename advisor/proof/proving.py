"""The proof of a job's recommendations: who followed, what was saved, and whether that is certain.

A saving is the adjusted baseline minus what the run cost. Of several changes, one after the other,
each is measured by the runs between it and the next: together they save what the first baseline
costs more than the last run. Changes that came with the same run are split.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any

from advisor.comparison.job_metrics import MetricSettings
from advisor.money import rounded_usd
from advisor.proof.baseline import (
    Level,
    MissingError,
    Priced,
    actual,
    common_quantity,
    in_one_configuration,
    level_of,
)
from advisor.proof.claims import Claim, claim_of
from advisor.proof.results import check_results
from advisor.proof.runs import BOUGHT, MACHINE, CompleteRun, Estimate, PriceOf, Promise
from advisor.proof.saving import Realised, RunSaving, running
from advisor.proof.splitting import UNRECOMMENDED_MOVE, Part, split
from advisor.proof.stretches import Stretches
from advisor.successive.machine_time import Quantity
from advisor.successive.noise import Prior

CLAIMED, VERIFIED = "claimed", "verified"
FAILED, UNVERIFIABLE = "failed", "unverifiable"
COUNTED = timedelta(days=365)
"""After a year a change is how things are done."""
DECIDING_RUNS = 5
"""A change that has saved nothing in so many runs has failed (ours)."""
MOST_REASONS = 3
NINE_TENTHS = 3.29
"""Standard deviations between the ends of a 90 % interval."""
LEAST_RATIO = 0.01


@dataclass(frozen=True)
class Proof:
    """What later runs tell of one recommendation that was followed."""

    state: str
    claimed_by: int
    proven_by: int | None = None
    """The run after which the state was certain."""
    candidate: Mapping[str, Any] | None = None
    savings: tuple[RunSaving, ...] = ()
    missing: tuple[str, ...] = ()
    """Of which runs nothing is counted, and why."""

    @property
    def realised(self) -> Realised | None:
        return running(self.savings)[-1] if self.savings else None


def prove(
    promises: Iterable[Promise],
    runs: Sequence[CompleteRun],
    prices: PriceOf = lambda run, at: None,
    prior: Prior | None = None,
    metrics: MetricSettings | None = None,
) -> dict[Hashable, Proof]:
    """The proof of each promise that was followed, by key. In the order of the runs' times;
    the order of the promises and other workloads don't matter.

    Args:
        metrics: what people set about the job's metrics. Runs with worse results prove no saving.
    """
    proofs: dict[Hashable, Proof] = {}
    ordered = sorted(runs, key=lambda run: run.order)
    by_workload: dict[str, list[Promise]] = defaultdict(list)
    for promise in promises:
        by_workload[promise.workload_key].append(promise)
    for workload, own in by_workload.items():
        alike = [run for run in ordered if run.workload_key == workload]
        proofs |= _Workload(alike, own, prices, prior or Prior(), metrics or {}).proofs()
    return proofs


@dataclass
class _Tally:
    """What is counted of one claim."""

    savings: list[RunSaving] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


class _Workload:
    """The runs of one workload, and what was promised for it."""

    def __init__(
        self,
        runs: Sequence[CompleteRun],
        promises: Sequence[Promise],
        prices: PriceOf,
        prior: Prior,
        metrics: MetricSettings,
    ) -> None:
        self._runs, self._prices, self._prior = runs, prices, prior
        self._metrics = metrics
        self._promises = {promise.key: promise for promise in promises}
        claims = ((key, claim_of(each, runs)) for key, each in self._promises.items())
        self._claims = {key: claim for key, claim in claims if claim is not None}
        self._stretches = Stretches(len(runs), self._claims)
        self._levels: dict[tuple[int, Quantity], Level] = {}
        """By the first run of a stretch."""

    def proofs(self) -> dict[Hashable, Proof]:
        return {key: self._proof(key, claim) for key, claim in self._claims.items()}

    def _proof(self, key: Hashable, claim: Claim) -> Proof:
        tally, since = _Tally(), self._runs[claim.at].at
        for place in sorted(claim.places):
            run = self._runs[place]
            if run.at - since > COUNTED:
                break
            try:
                tally.savings.append(self._saving(key, claim, run, place))
            except MissingError as error:
                tally.missing.append(f"run #{run.number}: {error}")
        state, proven_by = _state(tally.savings)
        return Proof(
            state=state,
            claimed_by=self._runs[claim.at].number,
            proven_by=proven_by,
            candidate=claim.candidate,
            savings=tuple(tally.savings),
            missing=tuple(tally.missing[:MOST_REASONS]),
        )

    def _saving(self, key: Hashable, claim: Claim, run: CompleteRun, place: int) -> RunSaving:
        first = self._stretches.first(claim)
        level = self._level(self._stretches.before(claim), run)
        check_results(level.runs, run, self._metrics)
        before, now = level.adjusted_to(run, self._prices), actual(run)
        common, own = [_error(level, before)], level.spread * float(before.usd)
        if place in first:
            after, changed = now, run
        else:
            settled = self._level(first, run)
            after, changed = settled.adjusted_to(run, self._prices), settled.runs[-1]
            common.append(_error(settled, after))
            own = 0.0
        together = self._stretches.together(claim)
        parts = [_part(self._promises[each], self._claims[each]) for each in together]
        if _is_moved(level.runs[-1], changed) and not any(p.is_about_machine for p in parts):
            parts.append(UNRECOMMENDED_MOVE)
        at = together.index(key)
        return RunSaving(
            number=run.number,
            usd=split(parts, before, after)[at],
            baseline_usd=before.usd,
            common_usd=math.hypot(*common),
            own_usd=own,
            predicted_usd=_predicted(self._shares(together), at, before.usd),
        )

    def _level(self, places: Sequence[int], run: CompleteRun) -> Level:
        alike = in_one_configuration([self._runs[place] for place in places])
        quantity = common_quantity(alike, run)
        known = self._levels.get((places[0], quantity))
        if known is None:
            known = level_of(alike, quantity, self._prior)
            self._levels[places[0], quantity] = known
        return known

    def _shares(self, keys: Sequence[Hashable]) -> list[tuple[Decimal, Decimal, Decimal] | None]:
        return [_promised_shares(self._promises[key], self._claims[key]) for key in keys]


def _state(savings: Sequence[RunSaving]) -> tuple[str, int | None]:
    """Decided by the sum over all runs; the run that proved it is the first from which on the sum
    said so."""
    if not savings:
        return UNVERIFIABLE, None
    states = [_state_of(realised) for realised in running(savings)]
    last = len(states) - 1
    while last and states[last - 1] == states[-1]:
        last -= 1
    return states[-1], None if states[-1] == CLAIMED else savings[last].number


def _state_of(realised: Realised) -> str:
    if realised.low_usd > 0:
        return VERIFIED
    has_had_time = realised.runs >= DECIDING_RUNS and realised.usd <= 0
    return FAILED if realised.high_usd < 0 or has_had_time else CLAIMED


def _is_moved(before: CompleteRun, after: CompleteRun) -> bool:
    """To other machines, or another number of them, or bought otherwise."""
    names = {*MACHINE, *BOUGHT}
    return any(before.configuration.get(name) != after.configuration.get(name) for name in names)


def _error(level: Level, priced: Priced) -> float:
    """The standard error of a level's cost."""
    return level.spread * float(priced.usd) / math.sqrt(len(level.runs))


def _part(promise: Promise, claim: Claim) -> Part:
    if promise.bought:
        return Part(is_about_machine=True, time_ratio=1.0)
    low, mid, high = _time_ratios(promise.estimate, claim.candidate)
    spread = math.log(high / low) / NINE_TENTHS
    return Part(promise.is_about_machine, mid, spread)


def _time_ratios(
    estimate: Estimate, candidate: Mapping[str, Any] | None
) -> tuple[float, float, float]:
    """The promised duration over the one before: low, middle, high; 1: nothing was promised."""
    if candidate is not None:
        names = ("time_low_seconds", "time_mid_seconds", "time_high_seconds")
        before, seconds = estimate.duration_seconds, [candidate.get(name) for name in names]
        if not before or not all(seconds):
            return 1.0, 1.0, 1.0
        low, mid, high = (float(value) / before for value in seconds if value)
        return low, mid, high
    shares = estimate.shares()
    if shares is None:
        return 1.0, 1.0, 1.0
    high, mid, low = (max(float(1 - share), LEAST_RATIO) for share in shares)
    return low, mid, high


def _promised_shares(promise: Promise, claim: Claim) -> tuple[Decimal, Decimal, Decimal] | None:
    """Of the cost before: low, middle, high. By the row that was chosen, else as recommended."""
    row, cost = claim.candidate, promise.estimate.cost_usd
    names = ("cost_high_usd", "cost_mid_usd", "cost_low_usd")
    if row is None or not cost or any(row.get(name) is None for name in names):
        return promise.estimate.shares()
    low, mid, high = (1 - Decimal(str(row[name])) / cost for name in names)
    return low, mid, high


def _predicted(
    shares: Sequence[tuple[Decimal, Decimal, Decimal] | None], at: int, baseline_usd: Decimal
) -> tuple[Decimal, Decimal, Decimal] | None:
    """In USD. Changes at the same time apply to what the others leave."""
    own = shares[at]
    if own is None:
        return None
    middles = [each[1] for each in shares if each is not None]
    left = Decimal(1)
    for middle in middles:
        left *= 1 - middle
    whole = sum(middles, Decimal(0))
    reduced = (1 - left) / whole if whole else Decimal(1)
    low, mid, high = (rounded_usd(baseline_usd * share * reduced) for share in own)
    return low, mid, high
