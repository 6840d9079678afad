"""Finds which runs follow which recommendations.

A run follows a recommendation if its machines equal a row of the candidate table that was promised
to be cheaper, or if it has the recommended setting, or if the rules passed whose findings the
recommendation answers. A run on other machines that were measured to be cheaper follows it in its
own way. A run that is as the evidence was has gone back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from advisor.proof.runs import MACHINE, SIZE, CompleteRun, Promise

PASSED, FIRED = "passed", "fired"

Key = Hashable
IsCheaper = Callable[[Promise, Sequence[CompleteRun]], bool]
"""A function that returns whether runs in one configuration were certainly cheaper than the
promise's evidence."""


@dataclass(frozen=True)
class FollowedChange:
    """The way in which a run follows. `candidate` is the row that it equals, if it is about
    machines.
    """

    candidate: Mapping[str, Any] | None = None
    is_own_way: bool = False


@dataclass
class Followers:
    """The runs that follow a recommendation, and those that went back, by their places among the
    runs of its workload."""

    choices: dict[int, FollowedChange] = field(default_factory=dict)
    gone_back: list[int] = field(default_factory=list)
    is_replaced: bool = False
    """A run that had gone back gave a newer recommendation of its kind: that one counts since."""

    @property
    def first(self) -> int:
        return min(self.choices)


def follows(promise: Promise, run: CompleteRun) -> bool | None:
    """Return whether the run itself shows that it follows; None: it doesn't tell."""
    if promise.bought:
        return _has_settings(promise, promise.bought, run.configuration)
    if promise.is_about_machine:
        return not _is_on_machine(promise, run) and (
            promise.candidate_of(run.configuration) is not None
        )
    if _has_settings(promise, promise.change, run.configuration):
        return True
    states = [run.rules.get(rule) for rule in promise.rules]
    if not states:
        is_told = bool(promise.change) and promise.change.keys() <= run.configuration.keys()
        return False if is_told else None
    if FIRED in states:
        return False
    return True if all(state == PASSED for state in states) else None


def has_gone_back(promise: Promise, run: CompleteRun) -> bool:
    """Return whether the run is as the evidence was before the change."""
    if promise.bought or promise.is_about_machine:
        return _is_on_machine(promise, run)
    return follows(promise, run) is False


class Walk:
    """Finds the followers of each promise that has any, among the ordered runs of a workload. What
    a run follows depends on what the runs before it followed."""

    def __init__(
        self, promises: Mapping[Key, Promise], runs: Sequence[CompleteRun], is_cheaper: IsCheaper
    ) -> None:
        self._promises, self._runs, self._is_cheaper = promises, runs, is_cheaper
        self.followers: dict[Key, Followers] = {}
        self._cheaper: dict[tuple[Key, Hashable], bool] = {}
        self._credited: set[Hashable] = set()
        """Configurations that a run has chosen in its own way, or by a table."""
        self._runs_by_number = {run.number: run for run in runs}
        self._followed: set[int] = set()
        """The numbers of the runs that follow something."""
        self.reference: CompleteRun | None = None
        """The last run before the first change that was followed."""
        for place in range(len(runs)):
            self._visit(place)

    def _visit(self, place: int) -> None:
        run = self._runs[place]
        here = dict(self._chosen(place))
        others = (key for key in self._promises if key not in here and self._counts(key))
        own = [key for key in others if self._is_own_way(key, run)]
        here |= {key: FollowedChange(is_own_way=True) for key in own if key in self.followers}
        if run.choice not in self._credited and not self._is_named(here):
            new = [key for key in own if key not in self.followers and self._may_adopt(key, run)]
            if new:
                here[max(new, key=self._precedence)] = FollowedChange(is_own_way=True)
        if here and self.reference is None:
            here = self._begin(here, place)
        if here:
            self._credited.add(run.choice)
            self._followed.add(run.number)
        for key, choice in here.items():
            self.followers.setdefault(key, Followers()).choices[place] = choice
        for key, followers in self.followers.items():
            promise = self._promises[key]
            if key not in here and not followers.is_replaced and has_gone_back(promise, run):
                followers.gone_back.append(place)
                followers.is_replaced = self._is_replaced(promise, run)

    def _begin(self, here: dict[Key, FollowedChange], place: int) -> dict[Key, FollowedChange]:
        """Set the reference: the newest evidence for other machines, else for a fix on the run's
        own, else the run before. Evidence from other machines isn't what the run changed."""
        evidence = {key: found for key in here if (found := self._evidence_on_machine(key))}
        run, before = self._runs[place], self._runs[place - 1] if place else None
        of_fixes = (self._runs_by_number.get(self._promises[key].number) for key in here)
        alike = [each for each in of_fixes if each is not None and each.machines == run.machines]
        reference = max(evidence.values() or alike, key=lambda each: each.order, default=before)
        self.reference = reference
        if reference is None:
            return here
        others = {key for key, run in evidence.items() if run.machines != reference.machines}
        return {key: choice for key, choice in here.items() if key not in others}

    def _evidence_on_machine(self, key: Key) -> CompleteRun | None:
        """Return the evidence for other machines; None if it is about something else, or
        unknown.
        """
        promise = self._promises[key]
        return self._runs_by_number.get(promise.number) if promise.is_about_machine else None

    def _chosen(self, place: int) -> Iterator[tuple[Key, FollowedChange]]:
        """Yield the promises that the run follows as they were made."""
        run = self._runs[place]
        for key, promise in self._promises.items():
            if key in self.followers:
                told = self._counts(key) and self._still_follows(key, place)
            else:
                told = self._may_adopt(key, run) and _adopts(promise, run)
            if told:
                yield key, FollowedChange(promise.candidate_of(run.configuration))

    def _counts(self, key: Key) -> bool:
        return key not in self.followers or not self.followers[key].is_replaced

    def _is_replaced(self, promise: Promise, run: CompleteRun) -> bool:
        return any(
            promise.kind and (other.number, other.kind) == (run.number, promise.kind)
            for other in self._promises.values()
        )

    def _still_follows(self, key: Key, place: int) -> bool:
        """Return whether the run still follows. One that doesn't tell is as the run before it
        was.
        """
        promise, run = self._promises[key], self._runs[place]
        if promise.followed_since is not None:
            return not (promise.is_about_machine and has_gone_back(promise, run))
        told = follows(promise, run)
        return place - 1 in self.followers[key].choices if told is None else told

    def _may_adopt(self, key: Key, run: CompleteRun) -> bool:
        promise = self._promises[key]
        is_in_time = promise.until is None or run.order <= promise.until
        return run.order > promise.order and is_in_time and self._leads_on(key)

    def _leads_on(self, key: Key) -> bool:
        """Return whether the promise starts from the reference, or from what following led to: a
        detour to a more expensive machine and back saves nothing.
        """
        evidence = self._evidence_on_machine(key)
        if evidence is None or self.reference is None:
            return True
        return evidence.number in self._followed or evidence.machines == self.reference.machines

    def _is_own_way(self, key: Key, run: CompleteRun) -> bool:
        promise = self._promises[key]
        if run.order <= promise.order or not _is_elsewhere(promise, run):
            return False
        asked = key, run.choice
        if asked not in self._cheaper:
            alike = [each for each in self._runs if each.choice == run.choice]
            later = [each for each in alike if each.order > promise.order]
            self._cheaper[asked] = self._is_cheaper(promise, later)
        return self._cheaper[asked]

    def _is_named(self, here: Mapping[Key, FollowedChange]) -> bool:
        """Return whether a promise names the run's machines."""
        return any(
            self._promises[key].is_about_machine and not choice.is_own_way
            for key, choice in here.items()
        )

    def _precedence(self, key: Key) -> tuple[Any, ...]:
        """Return the precedence: the newest advice, and of one run's that which promised most."""
        promise = self._promises[key]
        return (*promise.order, promise.estimate.usd or Decimal(0), str(key))


def _adopts(promise: Promise, run: CompleteRun) -> bool:
    if promise.followed_since is not None:
        is_back = promise.is_about_machine and has_gone_back(promise, run)
        return run.at >= promise.followed_since and not is_back
    return follows(promise, run) is True


def _is_elsewhere(promise: Promise, run: CompleteRun) -> bool:
    """Return whether a person chose another thing of the kind that the promise is about."""
    if promise.bought:
        names: Sequence[str] = list(promise.bought)
    elif promise.is_about_machine:
        names = SIZE
    else:
        return False
    return any(run.configuration.get(name) != promise.configuration.get(name) for name in names)


def _is_on_machine(promise: Promise, run: CompleteRun) -> bool:
    names = list(promise.bought) or MACHINE
    return all(run.configuration.get(name) == promise.configuration.get(name) for name in names)


def _has_settings(
    promise: Promise, wanted: Mapping[str, Any], configuration: Mapping[str, Any]
) -> bool:
    known = bool(wanted) and all(name in configuration for name in wanted)
    return (
        known
        and all(str(configuration[name]) == str(value) for name, value in wanted.items())
        and any(
            str(promise.configuration.get(name)) != str(value) for name, value in wanted.items()
        )
    )
