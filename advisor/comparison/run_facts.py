"""The facts about a run that a comparison needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from advisor.comparison.startup import growing_share

FINISHED = "finished"


@dataclass(frozen=True)
class RunFacts:
    """The compared facts of a run. None is "not known", never 0."""

    number: int
    job: str
    state: str
    instance_types: tuple[str, ...] = ()
    node_count: int = 0
    usd_per_hour: Decimal | None = None
    """The price of one node, if all nodes are alike."""
    duration_seconds: float | None = None
    cost_usd: Decimal | None = None
    electricity_usd: Decimal = Decimal(0)
    """The electricity in the cost; 0 if it has none."""
    basis: str = "list"
    """The price basis: `list` or `your rate`."""
    work: Mapping[str, float] = field(default_factory=dict)
    """Unit (`samples`, `tokens`, `epochs`, `steps`) -> the amount done."""
    workload: Mapping[str, Any] = field(default_factory=dict)
    configuration: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    figures: object = None
    """`advisor.figures.Figures`, or anything with some of its attributes."""
    phase_seconds: Mapping[str, float] = field(default_factory=dict)
    quality: Mapping[str, float] | None = None
    """User metric -> its last value; None: not compared."""
    incomplete_because: tuple[str, ...] = ()
    """The things that are still missing, e.g. `node-2 hasn't reported its end`; empty if none
    is."""

    @property
    def growing_share(self) -> float | None:
        """Return the share of its time that grows with its work; None if not measured."""
        # A running run's cost and phases are those of its last analysis; its duration is of now.
        analysed = sum(self.phase_seconds.values()) if self.state == "running" else None
        return growing_share(self.phase_seconds, analysed or self.duration_seconds or 0.0)

    @property
    def settings(self) -> dict[str, Any]:
        """Return all settings that can be tuned, the machines first."""
        machines = {
            "instance_type": ", ".join(self.instance_types) or None,
            "node_count": self.node_count or None,
        }
        return {**machines, **self.configuration, **self.parameters}

    @property
    def machines(self) -> str:
        """Write `3 × ml.p3.8xlarge`; empty if unknown."""
        if not self.node_count or not self.instance_types:
            return ""
        return f"{self.node_count} × {' + '.join(self.instance_types)}"

    def figure(self, name: str) -> float | None:
        value = getattr(self.figures, name, None)
        return None if value is None else float(value)
