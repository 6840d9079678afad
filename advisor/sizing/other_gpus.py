"""The run's speed on other GPU models: what is known of it, and what a machine there would cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal

from advisor.pricing.book import PriceBook
from advisor.pricing.machine import InstanceType
from advisor.sizing.candidates import Candidate, candidates
from advisor.sizing.cpu import RatioInterval
from advisor.sizing.demand import Demand, GpuSpeed, Preset
from advisor.sizing.layout import is_other_gpu
from advisor.speed.knowledge import Knowledge
from advisor.speed.measurement import Measurement, Target
from advisor.speed.prediction import HISTORY, MEASURED, SAME, Prediction, Speed, predict

SURE = frozenset({MEASURED, HISTORY})
"""Rungs that allow a switch."""
HISTORY_DEVIATIONS = 2.0
"""The adverse end of what other jobs tell: they may differ from this one."""
WHOLE = 1.0


@dataclass(frozen=True)
class SpeedEvidence:
    """The measurements of the job and of the workspace's other jobs.

    Attributes:
        measured: the present run first, then probes and other runs of the job. Empty: only that it
            ran on its GPU.
        rounds: of probes that were already answered.
    """

    measured: tuple[Measurement, ...] = ()
    knowledge: Knowledge = field(default_factory=Knowledge)
    rounds: int = 0
    machines: Mapping[str, RatioInterval] = field(default_factory=dict)
    """See `Demand.machine_speeds`."""


@dataclass(frozen=True)
class Offers:
    """The cheapest machine for each GPU model that could do the work, and the predicted speeds."""

    candidates: tuple[Candidate, ...]
    prediction: Prediction
    """The prediction, in the same order."""
    present_usd_per_hour: Decimal
    """The present price of all nodes."""

    def hourly_usd(self, number: int) -> Decimal:
        """Return the price of all nodes of a candidate."""
        chosen = self.candidates[number]
        return (chosen.usd_per_hour or Decimal(0)) * chosen.node_count


def speeds(
    demand: Demand, catalogue: Mapping[str, InstanceType], evidence: SpeedEvidence
) -> dict[str, GpuSpeed]:
    """Return GPU -> the run's speed on as many of them; of the models whose data sheets are
    known.
    """
    now = catalogue.get(demand.instance_type)
    if now is None or not demand.gpus_used or now.gpu_fraction != WHOLE:
        return {}
    others = _other_models(now, catalogue)
    predicted = predict(
        _measured(demand, now, evidence), _targets(demand, others), evidence.knowledge
    )
    known = zip(others, predicted.speeds, strict=True)
    return {gpu: _gpu_speed(speed) for gpu, speed in known if speed.rung}


def rung_of(demand: Demand, now: InstanceType, other: InstanceType, node_count: int) -> str:
    """Return how the run's speed on other machines is known."""
    if other.name in demand.machine_speeds and node_count == demand.node_count:
        return MEASURED
    known = demand.gpu_speeds.get(other.gpu_key)
    return known.rung if known and is_other_gpu(now, other) else SAME


def sure_speeds(known: Mapping[str, GpuSpeed]) -> dict[str, GpuSpeed]:
    """Return the speeds that allow a switch."""
    return {gpu: speed for gpu, speed in known.items() if speed.rung in SURE}


def offers(
    demand: Demand,
    book: PriceBook,
    catalogue: Mapping[str, InstanceType],
    as_of: datetime,
    preset: Preset,
    evidence: SpeedEvidence,
) -> Offers | None:
    """Return the offers, or None if no other model could do the work, or today's machines have no
    price.
    """
    every = replace(demand, gpu_speeds=speeds(demand, catalogue, evidence))
    open_ended = replace(preset, slowdown_limit=float("inf"))
    table = candidates(every, book, catalogue, as_of, open_ended)
    now = catalogue.get(demand.instance_type)
    present = book.price_at(demand.price_key(demand.instance_type), as_of)
    if now is None or present is None:
        return None
    chosen: dict[str, Candidate] = {}
    for each in table:
        is_sure = not each.rejected_because and not each.to_check
        if is_sure and is_other_gpu(now, each.machine):
            chosen.setdefault(each.machine.gpu_key, each)
    if not chosen:
        return None
    asked = _targets(demand, tuple(chosen))
    prediction = predict(_measured(demand, now, evidence), asked, evidence.knowledge)
    hourly = present.row.usd_per_hour * demand.node_count
    return Offers(tuple(chosen.values()), prediction, hourly)


def _measured(demand: Demand, now: InstanceType, evidence: SpeedEvidence) -> Sequence[Measurement]:
    busy = demand.gpu_use.busy if demand.gpu_use else None
    present = Measurement(
        workload="this job",
        gpu=now.gpu_key,
        throughput=1.0,
        gpus=demand.gpus_used,
        util_pct=None if busy is None else 100 * busy,
        util_kind="busy",
    )
    return evidence.measured or (present,)


def _targets(demand: Demand, gpus: Sequence[str]) -> list[Target]:
    return [Target(gpu, demand.gpus_used) for gpu in gpus]


def _other_models(now: InstanceType, catalogue: Mapping[str, InstanceType]) -> tuple[str, ...]:
    """Return the other models of the same vendor, whose programs run there too."""
    alike = (
        each
        for each in catalogue.values()
        if each.provider == now.provider and each.gpu_vendor == now.gpu_vendor
    )
    keys = {each.gpu_key for each in alike if each.gpu_key and each.gpu_fraction == WHOLE}
    return tuple(sorted(keys - {now.gpu_key}))


def _gpu_speed(speed: Speed) -> GpuSpeed:
    low = speed.low(HISTORY_DEVIATIONS) if speed.rung == HISTORY else speed.low()
    return GpuSpeed(RatioInterval(low, speed.median, speed.high()), speed.rung)
