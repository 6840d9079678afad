"""Answers "what if": the same job with another objective, region, way of buying, interval or amount
of work.

A pure function over the same candidates as the recommendations. Nothing here is advice by itself:
"fastest" and "deadline" may cost more than today.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType

from advisor.money import rounded_usd
from advisor.pricing.book import PriceBook
from advisor.pricing.machine import InstanceType
from advisor.sizing.candidates import Candidate, Fit, fits, order, price_candidate
from advisor.sizing.demand import BALANCED, Demand, Preset
from advisor.sizing.objective import Cheapest, Objective, choose_best, pareto
from advisor.sizing.spot import Interruptions, best_interval_seconds, expected_seconds

SPOT = "spot"
NOWHERE: Mapping[str, Mapping[str, InstanceType]] = MappingProxyType({})
NEVER = 1e6
"""The factor in place of infinite: no interval ends before the next interruption."""


@dataclass(frozen=True)
class WhatIfQuestion:
    """The differences from the run. None: as in the run, or the best."""

    objective: Objective = field(default_factory=Cheapest)
    regions: tuple[str, ...] = ()
    """The regions; empty for the run's."""
    options: tuple[str, ...] = ()
    """`on_demand`, `spot`; empty: the run's."""
    checkpoint_seconds: float | None = None
    """The time for which one checkpoint stops the training; None if none are saved."""
    checkpoint_interval_seconds: float | None = None
    interruption_hours: float = 24.0
    """Mean time between interruptions of a spot node."""
    work: float = 1.0
    """Epochs, or another amount of training, over the run's."""
    fixed_seconds: float = 0.0
    """The part of the run's duration that doesn't grow with the work, such as start-up."""
    runs_a_month: float = 1.0


@dataclass(frozen=True)
class WhatIfAnswer:
    """Costs are of one run; a month's are `runs_a_month` times as much."""

    chosen: Candidate | None
    """The best candidate; None if the objective allows none."""
    front: list[Candidate]
    """The candidates than which none is both faster and cheaper, the fastest first."""
    table: list[Candidate]
    """All, those that fit first, then by cost."""
    monthly_usd: Decimal | None
    """The cost of the chosen one."""
    interval_seconds: float | None
    """The time between checkpoints, on spot; None without checkpoints, or not on spot."""


def what_if(
    demand: Demand,
    asked: WhatIfQuestion,
    book: PriceBook,
    catalogue: Mapping[str, InstanceType],
    as_of: datetime,
    preset: Preset = BALANCED,
    elsewhere: Mapping[str, Mapping[str, InstanceType]] = NOWHERE,
) -> WhatIfAnswer:
    """Return the best candidate for the question, and all others.

    Args:
        elsewhere: other regions -> the types offered there; one that isn't named offers the same.
        as_of: the time whose prices and availability count; aware.
    """
    fixed = min(max(asked.fixed_seconds, 0.0), demand.duration_seconds)
    seconds = fixed + (demand.duration_seconds - fixed) * asked.work
    then = replace(demand, duration_seconds=seconds)
    fitting = fits(then, catalogue, preset)
    table = sorted(_table(then, asked, book, fitting, as_of, elsewhere), key=order)
    chosen = choose_best(asked.objective, table, seconds)
    is_on_spot = SPOT in (asked.options or (demand.purchase_option,))
    return WhatIfAnswer(
        chosen=chosen,
        front=pareto(table),
        table=table,
        monthly_usd=_monthly_usd(chosen, asked.runs_a_month),
        interval_seconds=_interval(then, asked) if is_on_spot else None,
    )


def _table(
    demand: Demand,
    asked: WhatIfQuestion,
    book: PriceBook,
    fitting: Sequence[Fit],
    as_of: datetime,
    elsewhere: Mapping[str, Mapping[str, InstanceType]],
) -> list[Candidate]:
    """Limits on time are the objective's, not the preset's."""
    table = []
    for region in asked.regions or (demand.region,):
        offered = elsewhere.get(region, {})
        for option in asked.options or (demand.purchase_option,):
            bought = replace(demand, region=region, purchase_option=option)
            for fit in fitting:
                nodes = fit.planned.node_count
                factor = _slowdown(bought, asked, nodes) if option == SPOT else 1.0
                machine = offered.get(fit.machine.name, fit.machine)
                there = fit if machine is fit.machine else replace(fit, machine=machine)
                table.append(price_candidate(there, bought, book, as_of, math.inf, factor))
    return table


def _interval(demand: Demand, asked: WhatIfQuestion) -> float | None:
    if asked.checkpoint_seconds is None:
        return None
    of = _interruptions(asked, demand.node_count)
    return asked.checkpoint_interval_seconds or best_interval_seconds(of)


def _slowdown(demand: Demand, asked: WhatIfQuestion, node_count: int) -> float:
    """Return the expected time on spot, over the time without interruptions."""
    seconds = max(demand.duration_seconds, 1.0)
    of = _interruptions(asked, node_count)
    interval = _interval(replace(demand, node_count=node_count), asked) or seconds
    factor = expected_seconds(seconds, interval, of) / seconds
    return max(factor, 1.0) if math.isfinite(factor) else NEVER


def _interruptions(asked: WhatIfQuestion, node_count: int) -> Interruptions:
    mean = 3600 * asked.interruption_hours
    return Interruptions.of_nodes(mean, node_count, asked.checkpoint_seconds or 0.0)


def _monthly_usd(chosen: Candidate | None, runs: float) -> Decimal | None:
    if chosen is None or chosen.cost_mid_usd is None:
        return None
    return rounded_usd(chosen.cost_mid_usd * Decimal(str(runs)))
