"""The resources that a run needs, and the headroom of each preset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Protocol

from trimtab.wire import NodeFacts

from advisor import machine
from advisor.pricing.price import PriceKey
from advisor.pricing.providers import sold_as
from advisor.sizing.accelerators import unmeasured_accelerator
from advisor.sizing.cpu import RatioInterval
from advisor.sizing.doubt import doubts
from advisor.sizing.gpu_use import GpuUse
from advisor.sizing.pace import LoaderPace
from rules.starvation import HIDING_SHARE

MINIMUM_SECONDS = 30.0
"""A shorter run says too little about the needs of the next one: 30 samples at one a second."""


@dataclass(frozen=True)
class GpuSpeed:
    """The run's speed on another GPU model, over that on its own; `rung`: how it is known."""

    ratio: RatioInterval
    rung: str


@dataclass(frozen=True)
class Demand:
    """A run's use of each of its nodes, and where it ran."""

    cores_busy_p95: float
    memory_p99_bytes: float
    gpus: int
    """GPUs of a node that the run was given."""
    duration_seconds: float
    instance_type: str
    region: str
    service: str = "ec2"
    provider: str = "aws"
    purchase_option: str = "on_demand"
    node_count: int = 1
    disk_bytes_per_second: float | None = None
    """The rate to and from the disks of a node, p95; None if not measured, as is the next."""
    network_bytes_per_second: float | None = None
    """The rate in the busier direction."""
    ran_on: date | None = None
    """The day of the run, on which machines of its family could be started; None: not known."""
    gpu_use: GpuUse | None = None
    """The use of the GPUs; None if there are none, or their use isn't known."""
    pace: LoaderPace | None = None
    """The pace, if the loader sets it; None if it doesn't, or that isn't known."""
    gpu_speeds: Mapping[str, GpuSpeed] = field(default_factory=dict)
    """Other GPU models that may be proposed, by key."""
    machine_speeds: Mapping[str, RatioInterval] = field(default_factory=dict)
    """Instance type -> the measured speed on as many machines of it, relative to now."""

    @property
    def gpus_used(self) -> int:
        """Return the GPUs in use over all nodes; all that were given, if their use isn't known."""
        return self.gpu_use.used if self.gpu_use else self.gpus * self.node_count

    def done_faster(self, saved_share: float) -> Demand:
        """Return what the same work needs if waiting no longer takes that share of the time.

        It never takes less time than the GPUs work. What was measured on other machines holds for
        the slower run only.
        """
        kept = max(1 - saved_share, self.gpu_use.busy if self.gpu_use else 0.0, 0.01)
        return replace(
            self,
            duration_seconds=self.duration_seconds * kept,
            cores_busy_p95=self.cores_busy_p95 / kept,
            gpu_use=self.gpu_use and replace(self.gpu_use, load=self.gpu_use.load / kept),
            disk_bytes_per_second=_over(self.disk_bytes_per_second, kept),
            network_bytes_per_second=_over(self.network_bytes_per_second, kept),
            pace=None,
            machine_speeds={},
        )

    def price_key(self, instance_type: str) -> PriceKey:
        """Return the price key of another machine in the same region, with the same service and
        purchase option.
        """
        return PriceKey(
            provider=self.provider,
            service=self.service,
            region=self.region,
            instance_type=instance_type,
            purchase_option=self.purchase_option,
        )

    def sold_as(self, name: str) -> str:
        """Return the service's name for a machine: SageMaker sells X as `ml.X`."""
        return sold_as(self.service, name)


def demand_of(
    nodes: Sequence[NodeFacts], measured: Use, duration_seconds: float, ran_on: date | None = None
) -> Demand | None:
    """Return a run's use of its nodes; None if CPU, memory or accelerators weren't measured,
    starvation hides the demand, the nodes differ, or one of them isn't what it is taken for.
    """
    if doubts(nodes) or _is_hidden(measured) or any(map(unmeasured_accelerator, nodes)):
        return None
    keys = {machine.price_key(node) for node in nodes}
    if len(keys) != 1 or measured.cores_busy_p95 is None or measured.memory_p99_bytes is None:
        return None
    key = keys.pop()
    return Demand(
        cores_busy_p95=measured.cores_busy_p95,
        memory_p99_bytes=measured.memory_p99_bytes,
        gpus=max(map(machine.allocated_gpus, nodes)),
        duration_seconds=duration_seconds,
        instance_type=key.instance_type,
        region=key.region,
        service=key.service,
        provider=key.provider,
        purchase_option=key.purchase_option,
        node_count=len(nodes),
        disk_bytes_per_second=measured.disk_bytes_per_second_p95,
        network_bytes_per_second=measured.network_bytes_per_second_p95,
        ran_on=ran_on,
    )


def _over(amount: float | None, share: float) -> float | None:
    return None if amount is None else amount / share


class Use(Protocol):
    """The use that a run made of its nodes; None if not measured."""

    @property
    def cores_busy_p95(self) -> float | None: ...
    @property
    def starved_share(self) -> float | None: ...
    @property
    def memory_p99_bytes(self) -> float | None: ...
    @property
    def disk_bytes_per_second_p95(self) -> float | None: ...
    @property
    def network_bytes_per_second_p95(self) -> float | None: ...


def missing_for_demand(nodes: Sequence[NodeFacts], measured: Use) -> list[str]:
    """Return in words why `demand_of` returns None; empty if it doesn't."""
    models = sorted({name for node in nodes if (name := unmeasured_accelerator(node))})
    missing = [f"No advice for {name}: the agent doesn't measure it." for name in models]
    missing += doubts(nodes)
    if len({machine.price_key(node) for node in nodes}) > 1:
        missing.append("The nodes are of different types, so no type fits all of them.")
    if measured.cores_busy_p95 is None:
        missing.append("How many cores were busy isn't known.")
    if measured.memory_p99_bytes is None:
        missing.append("How much memory was in use isn't known.")
    if _is_hidden(measured):
        missing.append(
            f"How many cores it needs: starved, it waited for a core in "
            f"{100 * (measured.starved_share or 0.0):.0f} % of the time. Run it without neighbours."
        )
    return missing


def _is_hidden(measured: Use) -> bool:
    """Return whether the run got too few cores to tell how many it needs."""
    return (measured.starved_share or 0.0) >= HIDING_SHARE


@dataclass(frozen=True)
class Preset:
    """Limits on a machine's utilisation and on how much slower a run may become."""

    name: str
    busy_target: float
    """The maximum of busy cores over cores."""
    gpu_target: float
    """The maximum of a GPU's utilisation after it took over the work of others."""
    memory_headroom: float
    """Extra memory, as a share of the run's use."""
    slowdown_limit: float
    """The maximum extra time, as a share of the run's duration."""


SAVE = Preset("save", busy_target=0.90, gpu_target=1.0, memory_headroom=0.05, slowdown_limit=0.50)
BALANCED = Preset(
    "balanced", busy_target=0.80, gpu_target=0.9, memory_headroom=0.10, slowdown_limit=0.10
)
SAFE = Preset("safe", busy_target=0.65, gpu_target=0.8, memory_headroom=0.20, slowdown_limit=0.0)
PRESETS = {preset.name: preset for preset in (SAVE, BALANCED, SAFE)}
