"""The facts of a run that must be known before anybody may say that no other machine pays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from trimtab.wire import NodeFacts

from advisor import machine
from advisor.advice.recommendation import RuleJudgement
from advisor.pricing.machine import InstanceType
from advisor.pricing.price import PriceKey
from advisor.sizing.accelerators import unmeasured_accelerator
from advisor.sizing.demand import MINIMUM_SECONDS, Use, missing_for_demand
from advisor.sizing.doubt import doubts
from advisor.sizing.gpu_use import gpu_use
from advisor.speed.data_sheets import data_sheet
from rules.wording import lasting

Name = Literal["price", "fit", "speed", "availability"]


@dataclass(frozen=True)
class Input:
    """One thing that a statement about machines rests on."""

    name: Name
    found: str
    """The words for what is known of it, with its date if it has one; or for what is missing."""
    step: str = ""
    """The words for what to do about it; empty if it is known."""

    @property
    def is_known(self) -> bool:
        return not self.step


@dataclass(frozen=True)
class KnownPrices:
    """The prices that are known in a run's region and way to buy."""

    has_run: bool
    """The run itself has a price."""
    has_others: bool
    """True if at least one other machine has a price."""


def machine_inputs(
    nodes: Sequence[NodeFacts],
    measured: Use,
    duration_seconds: float,
    judgements: Sequence[RuleJudgement],
    prices: KnownPrices,
    catalogue: Mapping[str, InstanceType],
) -> list[Input]:
    """Return the price, fit, speed and availability behind "no other machine pays", for a run."""
    if not nodes:
        return [Input("fit", "on which machine it ran", "Name the machine of the run.")]
    key = machine.price_key(nodes[0])
    known = catalogue.get(key.instance_type)
    return [
        _price(key, bool(nodes[0].instance_type), prices),
        _fit(nodes, measured, judgements, known),
        _speed(nodes, duration_seconds, known),
        _availability(key, known, catalogue),
    ]


def missing_words(inputs: Sequence[Input]) -> str:
    """Write `Not judged: price: ..., fit: .... STEP`; empty if everything is known."""
    missing = [each for each in inputs if not each.is_known]
    if not missing:
        return ""
    listed = "; ".join(each.found for each in missing)
    return f"Not judged: {listed}. {missing[0].step}"


def _price(key: PriceKey, has_type: bool, prices: KnownPrices) -> Input:
    if prices.has_run and prices.has_others:
        return Input("price", "the run and other machines have prices")
    what = "other machines have no price" if prices.has_run else "the run has no price"
    if not has_type:
        return Input("price", what, "Enter a rate in Settings, Rates.")
    if not key.region:
        return Input("price", f"{what}: its region isn't known", "Choose the machine's region.")
    refresh = f"manage.py refresh_prices --catalogue --region {key.region}"
    step = f"Enter a rate in Settings, Rates, or refresh prices: {refresh}."
    return Input("price", f"{what} in {key.region}", step)


def _fit(
    nodes: Sequence[NodeFacts],
    measured: Use,
    judgements: Sequence[RuleJudgement],
    known: InstanceType | None,
) -> Input:
    missing = missing_for_demand(nodes, measured)
    if missing:
        what = missing[0].rstrip(".")
        return Input("fit", what[:1].lower() + what[1:], _step_for_fit(nodes, measured))
    if known is None:
        name = nodes[0].instance_type
        if name:
            what = f"the hardware of {name} isn't described"
            return Input(
                "fit", what, "Read the machines of its provider: manage.py refresh_prices."
            )
        what = "own machines aren't compared with machines to rent"
        return Input("fit", what, "Ask for a price of the same GPU elsewhere under Prices.")
    if not known.physical_cores:
        what = f"the physical cores of {known.name} aren't stated, so none can be compared"
        return Input("fit", what, "Compare prices per GPU under Prices.")
    if machine.allocated_gpus(nodes[0]) and gpu_use(judgements) is None:
        return Input("fit", "how busy each GPU was isn't known", _SAMPLE)
    return Input("fit", "cores, memory and GPUs in use were measured")


_SAMPLE = "Run it with the agent, which samples that: trimtab run."


def _step_for_fit(nodes: Sequence[NodeFacts], measured: Use) -> str:
    if any(map(unmeasured_accelerator, nodes)):
        return "Compare prices under Prices."
    if doubts(nodes):
        return "Correct the machine of the run."
    if measured.cores_busy_p95 is None or measured.memory_p99_bytes is None:
        return _SAMPLE
    return "Look at a run that has machines of one type to itself."


def _speed(
    nodes: Sequence[NodeFacts], duration_seconds: float, known: InstanceType | None
) -> Input:
    if duration_seconds < MINIMUM_SECONDS:
        what = f"it took {lasting(duration_seconds)}, too short to tell what a longer one needs"
        return Input("speed", what, f"Look at a run of at least {MINIMUM_SECONDS:.0f} s.")
    key = known.gpu_key if known else ""
    if machine.allocated_gpus(nodes[0]) and not (key and data_sheet(key)):
        gpu = nodes[0].gpus[0].model
        what = f"its speed on other GPUs than {gpu} isn't known"
        return Input("speed", what, "Measure another machine: trimtab probe --steps 200.")
    return Input("speed", "cores by measured families, other GPUs by public measurements")


def _availability(
    key: PriceKey, known: InstanceType | None, catalogue: Mapping[str, InstanceType]
) -> Input:
    listed = [each.last_seen for each in catalogue.values() if each.provider == key.provider]
    if known is None or not listed:
        what = "which other machines are offered isn't known"
        return Input("availability", what, "Read lists of machines: manage.py refresh_prices.")
    newest: date = max(listed)
    return Input("availability", f"by the provider's list of {newest}")
