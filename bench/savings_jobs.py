"""Jobs whose true times and prices are known, for the ledger of savings.

A job runs on one machine until a recommendation is followed. From then on its runs go back and
forth, move on, or choose machines that nobody recommended, as people do.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from advisor.money import rounded_usd
from advisor.proof.runs import CandidateTable, CompleteRun, Promise, PromisedSaving
from advisor.successive.machine_time import MachineWork

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
MACHINE_KIND, LOADER_KIND = "change_instance_type", "fix_input_pipeline"
OLD, ADVISED, THIRD, OWN, DEARER = "old", "advised", "third", "own", "dearer"
USUAL_SAMPLES, START_UP_SECONDS = 50_000, 90.0


@dataclass(frozen=True)
class SimulatedMachine:
    """`ms_per_sample`: with a loader that isn't fixed."""

    name: str
    ms_per_sample: float
    usd_per_hour: float
    is_offered: bool = True
    """True if it is in the tables of candidates."""


@dataclass(frozen=True)
class Plan:
    """The machine and the loader that a run is started with."""

    machine: str
    is_loader_fixed: bool = False


@dataclass
class SimulatedJob:
    """Runs, what was promised to them, and what each change truly saved."""

    seed: int
    runs: list[CompleteRun] = field(default_factory=list)
    promises: list[Promise] = field(default_factory=list)
    truth_usd: float = 0.0
    """The cost of the work in the reference configuration less that in the run's, without noise, of
    each run that followed."""
    reference_usd: float = 0.0
    """The cost that the work of the same runs would have had in the reference configuration."""
    squares: float = 0.0
    """The squares of the noise of each of these runs, in USD."""
    reference_runs: int = 0
    """The number of runs before the first change."""

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.noise = self.dice.uniform(0.01, 0.03)
        self.loader_share = self.dice.uniform(0.15, 0.35)
        self.machines = self._machines()
        self.prices_since: list[tuple[datetime, float]] = [(BEGAN, 1.0)]
        self._simulate()

    @property
    def error_usd(self) -> float:
        """Return the standard error that the noise of the runs leaves any count of the savings."""
        of_reference = self.noise / math.sqrt(self.reference_runs) * self.reference_usd
        return math.hypot(of_reference, math.sqrt(self.squares))

    def price_at(self, run: CompleteRun, at: datetime) -> Decimal:
        return self._usd_per_hour(run.configuration["instance_type"], at)

    def _machines(self) -> dict[str, SimulatedMachine]:
        """Draw the machines. The advised one costs 30 to 75 % of the old one per sample, the others
        something near.
        """
        old_price = self.dice.uniform(2.0, 12.0)
        shares = {
            ADVISED: self.dice.uniform(0.35, 0.75),
            THIRD: self.dice.uniform(0.75, 0.9),
            OWN: self.dice.uniform(0.3, 0.8),
            DEARER: self.dice.uniform(1.2, 2.5),
        }
        found = {OLD: SimulatedMachine(OLD, 40.0, old_price)}
        for name, share in shares.items():
            slower = self.dice.uniform(0.8, 1.6)
            price = old_price * share / slower
            is_offered = name in (ADVISED, THIRD) or (name == DEARER and self.dice.random() < 0.5)
            found[name] = SimulatedMachine(name, 40.0 * slower, price, is_offered)
        return found

    def _simulate(self) -> None:
        count = self.dice.randint(40, 200)
        self.reference_runs = self.dice.randint(6, max(7, count // 3))
        way = self.dice.choice([_steady, _alternating, _relapsing, _moving_on, _in_own_way])
        fixes_at = self.dice.choice([None, 0, (count - self.reference_runs) // 2])
        undone = self.dice.choice([{DEARER}, {DEARER, OLD}])
        plans = [Plan(OLD)] * self.reference_runs
        for number, machine in enumerate(way(self.dice, count - self.reference_runs)):
            is_fixed = fixes_at is not None and number >= fixes_at
            plans.append(Plan(machine, is_fixed and machine not in undone))
        if self.dice.random() < 0.4:
            at = BEGAN + timedelta(hours=12 * self.dice.randint(0, count))
            self.prices_since.append((at, self.dice.uniform(0.7, 1.3)))
        for number, plan in enumerate(plans, start=1):
            self._run(number, plan)
        self._promise(fixes_at is not None)

    def _run(self, number: int, plan: Plan) -> None:
        at = BEGAN + timedelta(hours=12 * number)
        samples = round(USUAL_SAMPLES * self.dice.uniform(0.5, 2.0))
        if self.dice.random() < 0.1:
            samples = round(samples * self.dice.uniform(0.25, 0.9))
        loop = self._loop_seconds(plan, samples) * math.exp(self.dice.gauss(0, self.noise))
        seconds = loop + START_UP_SECONDS
        price = self._usd_per_hour(plan.machine, at)
        machines = {
            "instance_type": plan.machine,
            "node_count": 1,
            "purchase_option": "on_demand",
        }
        self.runs.append(
            CompleteRun(
                number=number,
                at=at,
                workload_key="work",
                configuration_key=plan.machine,
                configuration=machines,
                worked=MachineWork(
                    seconds,
                    seconds,
                    {"samples": float(samples)},
                    {"initialise": START_UP_SECONDS, "train": loop},
                ),
                cost_usd=rounded_usd(price * Decimal(str(seconds)) / 3600),
                usd_per_hour=price,
                rules={"input_bound": "passed" if plan.is_loader_fixed else "fired"},
            )
        )
        has_followed = plan.is_loader_fixed or plan.machine not in (OLD, DEARER)
        if number > self.reference_runs and has_followed:
            self._add_truth(plan, samples, at)

    def _add_truth(self, plan: Plan, samples: float, at: datetime) -> None:
        before = self._usd(Plan(OLD), samples, at)
        now = self._usd(plan, samples, at)
        self.truth_usd += before - now
        self.reference_usd += before
        self.squares += (self.noise * now) ** 2

    def _loop_seconds(self, plan: Plan, samples: float) -> float:
        loading = 1 - self.loader_share if plan.is_loader_fixed else 1.0
        return samples * self.machines[plan.machine].ms_per_sample / 1000 * loading

    def _usd(self, plan: Plan, samples: float, at: datetime) -> float:
        seconds = self._loop_seconds(plan, samples) + START_UP_SECONDS
        return seconds * float(self._usd_per_hour(plan.machine, at)) / 3600

    def _usd_per_hour(self, machine: str, at: datetime) -> Decimal:
        factor = [factor for since, factor in self.prices_since if since <= at][-1]
        return rounded_usd(Decimal(self.machines[machine].usd_per_hour * factor))

    def _promise(self, has_loader: bool) -> None:
        """Promise what the service would advise: from the last run before each change, and from the
        first run on a machine from which another one is still cheaper."""
        last = self.runs[self.reference_runs - 1]
        self.promises.append(self._to_machine(last, "machine", ADVISED))
        if has_loader:
            self.promises.append(self._to_loader(last))
        on_third = [run for run in self.runs if run.configuration["instance_type"] == THIRD]
        if on_third:
            self.promises.append(self._to_machine(on_third[0], "second machine", ADVISED))

    def _to_machine(self, evidence: CompleteRun, key: str, machine: str) -> Promise:
        rows = [self._row(evidence, each) for each in self.machines.values() if each.is_offered]
        cost = float(evidence.cost_usd or 0)
        mid = cost - next(float(row["cost_mid_usd"]) for row in rows if row["is"] == machine)
        promise = self._of(evidence, key, MACHINE_KIND, (mid * 0.6, mid, mid * 1.2))
        change = {"instance_type": machine, "node_count": 1}
        return replace(promise, change=change, tables=[CandidateTable(evidence.cost_usd, rows)])

    def _row(self, evidence: CompleteRun, machine: SimulatedMachine) -> dict[str, Any]:
        """Return the row of a machine, predicted to within about 5 %."""
        present = self.machines[evidence.configuration["instance_type"]]
        time_ratio = machine.ms_per_sample / present.ms_per_sample
        seconds = (evidence.worked.machine_seconds or 0.0) * time_ratio
        seconds *= math.exp(self.dice.gauss(0, 0.05)) if machine is not present else 1.0
        row: dict[str, Any] = {"instance_type": machine.name, "node_count": 1, "is": machine.name}
        row["purchase_option"] = "on_demand"
        for name, wide in (("low", 0.9), ("mid", 1.0), ("high", 1.1)):
            row[f"time_{name}_seconds"] = seconds * wide
            usd = seconds * wide * float(self._usd_per_hour(machine.name, evidence.at)) / 3600
            row[f"cost_{name}_usd"] = f"{usd:.9f}"
        return row

    def _to_loader(self, evidence: CompleteRun) -> Promise:
        mid = float(evidence.cost_usd or 0) * self.loader_share
        promise = self._of(evidence, "loader", LOADER_KIND, (mid * 0.8, mid, mid * 1.2))
        return replace(promise, rules=["input_bound"])

    def _of(
        self, evidence: CompleteRun, key: str, kind: str, usd: tuple[float, float, float]
    ) -> Promise:
        low, mid, high = (rounded_usd(Decimal(each)) for each in usd)
        return Promise(
            key=key,
            number=evidence.number,
            at=evidence.at,
            workload_key=evidence.workload_key,
            configuration=evidence.configuration,
            change={},
            tables=[],
            rules=[],
            estimate=PromisedSaving(
                low, mid, high, evidence.cost_usd, evidence.worked.duration_seconds
            ),
            kind=kind,
        )


def _steady(dice: random.Random, count: int) -> Sequence[str]:
    return [ADVISED] * count


def _alternating(dice: random.Random, count: int) -> Sequence[str]:
    return [ADVISED if number % 2 == 0 else OLD for number in range(count)]


def _relapsing(dice: random.Random, count: int) -> Sequence[str]:
    """Return stretches of some runs, forth and back, with a more expensive machine now and then."""
    machines: list[str] = []
    while len(machines) < count:
        machine = dice.choice([ADVISED, ADVISED, OLD, THIRD, DEARER])
        machines += [machine if machines else ADVISED] * dice.randint(1, 12)
    return machines[:count]


def _moving_on(dice: random.Random, count: int) -> Sequence[str]:
    """Return first a row of the table that wasn't the best, then the best, with relapses."""
    at = dice.randint(3, max(4, count // 2))
    machines = [THIRD] * at + [ADVISED] * (count - at)
    return [OLD if n and dice.random() < 0.15 else each for n, each in enumerate(machines)]


def _in_own_way(dice: random.Random, count: int) -> Sequence[str]:
    return [OLD if n and dice.random() < 0.3 else OWN for n in range(count)]
