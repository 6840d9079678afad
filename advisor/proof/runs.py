"""The input of the proof: complete runs of a job, and what was promised to it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from advisor.successive.machine_time import MachineWork

MACHINE = ("instance_type", "node_count", "purchase_option")
SIZE = ("instance_type", "node_count")
PLACE = ("region", "service")
BOUGHT = ("purchase_option", *PLACE)
"""The settings on which only the price of machines depends: how and where they are bought."""


@dataclass(frozen=True)
class CompleteRun:
    """A finished run of which everything is known."""

    number: int
    at: datetime
    workload_key: str
    configuration_key: str
    configuration: Mapping[str, Any]
    """Machines and parameters; region and service only if a promise is about them."""
    worked: MachineWork
    cost_usd: Decimal | None
    usd_per_hour: Decimal | None
    """The price of one node at the time of the run; None without a price, or for unequal nodes."""
    rules: Mapping[str, str] = field(default_factory=dict)
    """Rule -> its state on this run."""
    results: Mapping[str, float] = field(default_factory=dict)
    """The last values of its user metrics."""

    @property
    def order(self) -> tuple[datetime, int]:
        return self.at, self.number

    @property
    def machine(self) -> tuple[Any, ...]:
        """Return what identifies a machine with a price of its own."""
        return tuple(self.configuration.get(name) for name in ("instance_type", *BOUGHT))

    @property
    def machines(self) -> Hashable:
        """Return all of its machines, and how and where they were bought."""
        return self.configuration.get("node_count"), self.machine

    @property
    def choice(self) -> Hashable:
        """Return its configuration, and where its machines were bought."""
        return self.configuration_key, self.machine

    @property
    def usd_per_machine_second(self) -> Decimal | None:
        """Return the price with its share of the machine, or None without a price."""
        if self.cost_usd is None or not self.worked.machine_seconds:
            return None
        return self.cost_usd / Decimal(str(self.worked.machine_seconds))


PriceOf = Callable[[CompleteRun, datetime], Decimal | None]
"""USD per hour that a node of the run's machine cost at another time; None: no price."""


@dataclass(frozen=True)
class PromisedSaving:
    """The promised saving: USD on the run that is the evidence, which cost `cost_usd` and took
    `duration_seconds`. None without a price.
    """

    low_usd: Decimal | None
    usd: Decimal | None
    high_usd: Decimal | None
    cost_usd: Decimal | None
    duration_seconds: float | None

    def shares(self) -> tuple[Decimal, Decimal, Decimal] | None:
        """Return the saving as shares of the cost: low, middle, high."""
        if not self.cost_usd or self.low_usd is None or self.usd is None or self.high_usd is None:
            return None
        return tuple(usd / self.cost_usd for usd in (self.low_usd, self.usd, self.high_usd))  # type: ignore[return-value]


@dataclass(frozen=True)
class CandidateTable:
    """The candidates that people were shown beside a run that cost `cost_usd`; None: no price."""

    cost_usd: Decimal | None
    rows: Sequence[Mapping[str, Any]]

    def cheaper_row(
        self, configuration: Mapping[str, Any], change: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Return the row with the machines of the configuration, if they fit and were promised to
        be cheaper. Without a price only the recommended machines count."""
        machine = {name: configuration.get(name) for name in MACHINE}
        for row in self.rows:
            is_it = all(row.get(name) == value for name, value in machine.items() if name in row)
            if is_it and not row.get("rejected_because") and self._is_cheaper(row, change):
                return row
        return None

    def _is_cheaper(self, row: Mapping[str, Any], change: Mapping[str, Any]) -> bool:
        promised_usd = row.get("cost_mid_usd")
        if promised_usd is None or self.cost_usd is None:
            return all(row.get(name) == change[name] for name in SIZE if name in change)
        return Decimal(str(promised_usd)) < self.cost_usd


@dataclass(frozen=True)
class Promise:
    """A recommendation that later runs may follow. `number` and `at` are those of the run that is
    its evidence."""

    key: Hashable
    number: int
    at: datetime
    workload_key: str
    configuration: Mapping[str, Any]
    change: Mapping[str, Any]
    tables: Sequence[CandidateTable]
    """Every table that was shown, the newest first."""
    rules: Sequence[str]
    estimate: PromisedSaving
    kind: str = ""
    """The kind of change that it is about. A newer one of its kind, from a run that has gone back,
    takes its place; empty if none does."""
    followed_since: datetime | None = None
    """A person says that runs from then on follow it."""
    until: tuple[datetime, int] | None = None
    """The last run that may claim it, by its order: it expired then."""

    @property
    def order(self) -> tuple[datetime, int]:
        return self.at, self.number

    @property
    def is_about_machine(self) -> bool:
        return self._has_candidates or any(name in self.change for name in {*MACHINE, *BOUGHT})

    @property
    def _has_candidates(self) -> bool:
        return any(table.rows for table in self.tables)

    @property
    def bought(self) -> dict[str, Any]:
        """Return how the same machines are to be bought; empty if it isn't about that."""
        named = {} if self._has_candidates else self.change
        return {name: value for name, value in named.items() if name in BOUGHT}

    def candidate_of(self, configuration: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the cheaper candidate that the configuration's machines equal."""
        rows = (table.cheaper_row(configuration, self.change) for table in self.tables)
        return next((row for row in rows if row is not None), None)
