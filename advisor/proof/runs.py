"""What the proof reads: complete runs of a job, and what was promised to it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from advisor.successive.machine_time import Worked

MACHINE = ("instance_type", "node_count", "purchase_option")
PLACE = ("region", "service")
BOUGHT = ("purchase_option", *PLACE)
"""How and where machines are bought: settings on which only their price depends."""


@dataclass(frozen=True)
class CompleteRun:
    """A finished run of which everything is known."""

    number: int
    at: datetime
    workload_key: str
    configuration_key: str
    configuration: Mapping[str, Any]
    """Machines and parameters; region and service only if a promise is about them."""
    worked: Worked
    cost_usd: Decimal | None
    usd_per_hour: Decimal | None
    """Of one node, at the time of the run; None: no price, or unequal nodes."""
    rules: Mapping[str, str] = field(default_factory=dict)
    """Rule -> its state on this run."""
    results: Mapping[str, float] = field(default_factory=dict)
    """The last values of its user metrics."""

    @property
    def order(self) -> tuple[datetime, int]:
        return self.at, self.number

    @property
    def machine(self) -> tuple[Any, ...]:
        """That has a price of its own."""
        return tuple(self.configuration.get(name) for name in ("instance_type", *BOUGHT))

    @property
    def usd_per_machine_second(self) -> Decimal | None:
        """With its share of the machine; None: no price."""
        if self.cost_usd is None or not self.worked.machine_seconds:
            return None
        return self.cost_usd / Decimal(str(self.worked.machine_seconds))


PriceOf = Callable[[CompleteRun, datetime], Decimal | None]
"""USD per hour that a node of the run's machine cost at another time; None: no price."""


@dataclass(frozen=True)
class Estimate:
    """What was promised: USD on the run that is the evidence, which cost `cost_usd` and took
    `duration_seconds`. None: no price."""

    low_usd: Decimal | None
    usd: Decimal | None
    high_usd: Decimal | None
    cost_usd: Decimal | None
    duration_seconds: float | None

    def shares(self) -> tuple[Decimal, Decimal, Decimal] | None:
        """The saving as shares of the cost: low, middle, high."""
        if not self.cost_usd or self.low_usd is None or self.usd is None or self.high_usd is None:
            return None
        return tuple(usd / self.cost_usd for usd in (self.low_usd, self.usd, self.high_usd))  # type: ignore[return-value]


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
    candidates: Sequence[Mapping[str, Any]]
    """Every row that was shown, the newest table first."""
    rules: Sequence[str]
    estimate: Estimate
    followed_since: datetime | None = None
    """A person says that runs from then on follow it."""
    until: tuple[datetime, int] | None = None
    """The last run that may claim it, by its order: it expired then."""

    @property
    def order(self) -> tuple[datetime, int]:
        return self.at, self.number

    @property
    def is_about_machine(self) -> bool:
        return bool(self.candidates) or any(name in self.change for name in {*MACHINE, *BOUGHT})

    @property
    def bought(self) -> dict[str, Any]:
        """How the same machines are to be bought; empty: it isn't about that."""
        named = {} if self.candidates else self.change
        return {name: value for name, value in named.items() if name in BOUGHT}
