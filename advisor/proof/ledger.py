"""The ledger of savings: what each run saved, divided among the recommendations that led to it.

A run's saving is what its work would have cost in the reference configuration, the one before the
first change that was followed, less what the run cost. It is divided step by step, in the order in
which the recommendations were adopted: each step costs the difference between the level of the runs
that had followed so many, and that of the runs that had followed one more. The last step ends with
the run itself, so the rows of a run sum to its saving exactly. Changes that came with the same run
are one step, split by LMDI.

The rows are a function of the set of runs: neither the order in which runs arrive nor an earlier
count matters.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from itertools import groupby, pairwise

from advisor.comparison.job_metrics import MetricSettings
from advisor.money import rounded_usd
from advisor.proof.baseline import (
    ConfigurationLevel,
    MissingFigureError,
    PricedTime,
    actual,
    common_quantity,
    level_of,
)
from advisor.proof.followers import Followers, Key, Walk
from advisor.proof.promised import promised_part, promised_shares
from advisor.proof.results import check_results
from advisor.proof.runs import BOUGHT, MACHINE, CompleteRun, PriceOf, Promise
from advisor.proof.saving import RunSaving, running
from advisor.proof.splitting import UNRECOMMENDED_MOVE, split
from advisor.successive.machine_time import Quantity
from advisor.successive.noise import Prior

COUNTED = timedelta(days=365)
"""The time for which savings count: after a year a change is how things are done."""

_Followed = frozenset[Key] | None
"""The recommendations that runs followed; None for runs up to the evidence, whatever they
followed."""


@dataclass(frozen=True)
class _State:
    """A run's work at one of the steps from the reference to the run. `common_usd` is the standard
    error that it shares with other runs, `own_usd` that of this run alone."""

    priced: PricedTime
    run: CompleteRun
    """The run that tells the machines."""
    common_usd: float
    own_usd: float


@dataclass(frozen=True)
class _Step:
    """Recommendations that were adopted together, and what the work cost with them."""

    keys: tuple[Key, ...]
    after: _State


class SavingsLedger:
    """The runs of one workload in the order of their start, and what was promised for it."""

    def __init__(
        self,
        runs: Sequence[CompleteRun],
        promises: Mapping[Key, Promise],
        prices: PriceOf,
        prior: Prior,
        metrics: MetricSettings,
    ) -> None:
        self.runs, self.promises = runs, promises
        self._prices, self._prior, self._metrics = prices, prior, metrics
        self._alike: dict[Hashable, list[CompleteRun]] = {}
        self._levels: dict[tuple[_Followed, int, Quantity], ConfigurationLevel] = {}
        walk = Walk(promises, runs, self._is_cheaper)
        self.followers: dict[Key, Followers] = walk.followers
        self._reference_run = walk.reference
        followed: list[set[Key]] = [set() for _ in runs]
        for key, each in self.followers.items():
            for place in each.choices:
                followed[place].add(key)
        self.followed = [frozenset(keys) for keys in followed]

    def rows(self, place: int) -> dict[Key, RunSaving]:
        """Return what the run saved by each recommendation that it follows and that is counted.
        Raises MissingError: the run can't be compared."""
        before = self._reference(place)
        run, rows = self.runs[place], dict[Key, RunSaving]()
        for step in self._steps(place, before):
            rows |= self._split(run, place, step, before)
            before = step.after
        return rows

    def is_counted(self, key: Key, place: int) -> bool:
        """Return whether the run began within a year of the first one that followed."""
        first = self.runs[self.followers[key].first]
        return self.runs[place].at - first.at <= COUNTED

    def _reference(self, place: int) -> _State:
        run, last = self.runs[place], self._reference_run
        if last is None:
            raise MissingFigureError("there is no complete run before it")
        level = self._level(frozenset(), last, run)
        check_results(level.runs, run, self._metrics)
        priced = level.adjusted_to(run, self._prices)
        return _State(priced, level.runs[-1], level.error(priced), level.spread * float(priced.usd))

    def _steps(self, place: int, reference: _State) -> list[_Step]:
        """Return the steps. One without comparable runs of its own is one with the next. So is a
        step to machines that none of its recommendations is about, with the one that is.
        """
        groups, run = self._groups(place), self.runs[place]
        steps: list[_Step] = []
        held: tuple[Key, ...] = ()
        done: frozenset[Key] = frozenset()
        for keys, following in pairwise(groups):
            held, done = (*held, *keys), done.union(keys)
            settled = self._settled(done, self.followers[following[0]].first, place)
            before = steps[-1].after if steps else reference
            if settled is not None and self._is_explained(held, before, settled):
                steps.append(_Step(held, settled))
                held = ()
        held, last = (*held, *groups[-1]), _State(actual(run), run, 0.0, reference.own_usd)
        while steps and not self._is_explained(held, steps[-1].after, last):
            held = (*steps.pop().keys, *held)
        return [*steps, _Step(held, last)]

    def _groups(self, place: int) -> list[tuple[Key, ...]]:
        """Return what the run follows, in the order of adoption."""
        keys = sorted(self.followed[place], key=lambda key: (self.followers[key].first, str(key)))
        by_first = groupby(keys, key=lambda key: self.followers[key].first)
        return [tuple(group) for _, group in by_first]

    def _is_explained(self, keys: Sequence[Key], before: _State, after: _State) -> bool:
        is_about_machine = any(self.promises[key].is_about_machine for key in keys)
        return is_about_machine or not _is_moved(before.run, after.run)

    def _settled(self, done: frozenset[Key], until: int, place: int) -> _State | None:
        """Return the run's work as the runs did it that followed these alone, before the next
        change.
        """
        alike = (at for at in range(until - 1, -1, -1) if self.followed[at] == done)
        last, run = next(alike, None), self.runs[place]
        if last is None:
            return None
        try:
            level = self._level(done, self.runs[last], run)
            priced = level.adjusted_to(run, self._prices)
        except MissingFigureError:
            return None
        return _State(priced, level.runs[-1], level.error(priced), 0.0)

    def _level(
        self, followed: _Followed, last: CompleteRun, run: CompleteRun
    ) -> ConfigurationLevel:
        """Return the level that held at the run `last`, of the runs that followed the same and
        chose the same.
        """
        chosen = followed, last.choice, last.number if followed is None else 0
        if chosen not in self._alike:
            self._alike[chosen] = self._runs_like(followed, last)
        alike = self._alike[chosen]
        quantity = common_quantity(alike, run)
        known = followed, last.number, quantity
        if known not in self._levels:
            self._levels[known] = level_of(alike, last, quantity, self._prior)
        return self._levels[known]

    def _runs_like(self, followed: _Followed, one: CompleteRun) -> list[CompleteRun]:
        own = [run for run in self.runs if run.choice == one.choice]
        if followed is None:
            return [run for run in own if run.order <= one.order]
        places = {run.number: place for place, run in enumerate(self.runs)}
        return [run for run in own if self.followed[places[run.number]] == followed]

    def _split(
        self, run: CompleteRun, place: int, step: _Step, before: _State
    ) -> dict[Key, RunSaving]:
        chosen = [self.followers[key].choices[place] for key in step.keys]
        promises = [self.promises[key] for key in step.keys]
        parts = [promised_part(*each) for each in zip(promises, chosen, strict=True)]
        if not self._is_explained(step.keys, before, step.after):
            parts.append(UNRECOMMENDED_MOVE)
        saved = split(parts, before.priced, step.after.priced)
        counted = {at: key for at, key in enumerate(step.keys) if self.is_counted(key, place)}
        # What isn't counted, or came from a move that nobody recommended, is no part of it.
        baseline_usd = step.after.priced.usd + sum((saved[at] for at in counted), Decimal(0))
        shares = [promised_shares(*each) for each in zip(promises, chosen, strict=True)]
        return {
            key: RunSaving(
                number=run.number,
                usd=saved[at],
                baseline_usd=baseline_usd,
                common_usd=math.hypot(before.common_usd, step.after.common_usd),
                own_usd=step.after.own_usd,
                predicted_usd=_predicted(shares, at, baseline_usd),
                is_own_way=chosen[at].is_own_way,
            )
            for at, key in counted.items()
        }

    def _is_cheaper(self, promise: Promise, chosen: Sequence[CompleteRun]) -> bool:
        evidence = next((run for run in self.runs if run.number == promise.number), None)
        if evidence is None:
            return False
        saved = [each for run in chosen if (each := self._saved(evidence, run)) is not None]
        return bool(saved) and running(saved)[-1].low_usd > 0

    def _saved(self, evidence: CompleteRun, run: CompleteRun) -> RunSaving | None:
        """Return what a run saved against the level of the evidence; None if they can't be
        compared.
        """
        try:
            level = self._level(None, evidence, run)
            before = level.adjusted_to(run, self._prices)
            saved = before.usd - actual(run).usd
        except MissingFigureError:
            return None
        own_usd = level.spread * float(before.usd)
        return RunSaving(run.number, saved, before.usd, level.error(before), own_usd)


def _is_moved(before: CompleteRun, after: CompleteRun) -> bool:
    """Return whether it moved to other machines, or another number of them, or was bought
    otherwise.
    """
    names = {*MACHINE, *BOUGHT}
    return any(before.configuration.get(name) != after.configuration.get(name) for name in names)


def _predicted(
    shares: Sequence[tuple[Decimal, Decimal, Decimal] | None], at: int, baseline_usd: Decimal
) -> tuple[Decimal, Decimal, Decimal] | None:
    """Return the saving in USD. Changes at the same time apply to what the others leave."""
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
