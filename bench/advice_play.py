"""Advice played to its end on public measurements: a probe is answered with the true speed."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from advisor.speed.data_sheets import data_sheet
from advisor.speed.decision import MAX_SLOWER, PROBE, SWITCH, Cost, decide
from advisor.speed.knowledge import Knowledge
from advisor.speed.measurement import Measurement, Target
from advisor.speed.prediction import PRIOR, predict
from tools.fit_speed.data import Case

Prices = Mapping[str, float]
"""USD per GPU-hour."""
_MOST_ANSWERS = 5


@dataclass(frozen=True)
class Outcome:
    """Savings are shares of the present cost."""

    kind: str
    rung: str
    saving: float
    """The true one of the advice; 0 if it is to stay."""
    reachable: float
    """An oracle's, that knows every speed."""
    is_too_slow: bool
    probes: int

    @property
    def is_dearer(self) -> bool:
        return self.kind == SWITCH and self.saving < 0


@dataclass(frozen=True)
class Summary:
    cases: int
    switches: int
    dearer: float
    too_slow: float
    """The share of the advice given that is too slow."""
    captured: float
    probes: float
    from_prior: int


def summary(outcomes: Sequence[Outcome]) -> Summary:
    advised = [each for each in outcomes if each.kind == SWITCH]
    given = max(len(advised), 1)
    reachable = sum(each.reachable for each in outcomes)
    return Summary(
        cases=len(outcomes),
        switches=len(advised),
        dearer=sum(each.is_dearer for each in advised) / given,
        too_slow=sum(each.is_too_slow for each in advised) / given,
        captured=sum(each.saving for each in outcomes) / reachable if reachable else math.nan,
        probes=float(np.mean([each.probes for each in outcomes])) if outcomes else 0.0,
        from_prior=sum(each.rung == PRIOR for each in advised),
    )


def aws_prices(facts: Path) -> dict[str, float]:
    """Return the cheapest on-demand price of each GPU in us-east-1."""
    prices: dict[str, float] = {}
    with (facts / "aws_instances.csv").open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            gpu, count, usd = row["gpu_key"], row["gpu_count"], row["od_usd_us-east-1"]
            if gpu and usd and count and float(count) >= 1:
                prices[gpu] = min(prices.get(gpu, math.inf), float(usd) / float(count))
    return prices


def synthetic_prices(gpus: Iterable[str], seed: int) -> dict[str, float]:
    """Return prices near the data sheets' speed, with a spread of 40 %."""
    random = np.random.default_rng(seed)
    sheets = {gpu: data_sheet(gpu) for gpu in sorted(gpus)}
    return {
        gpu: math.exp(0.9 * sheet.log_ratio - 5 + random.normal(0, 0.4))
        for gpu, sheet in sheets.items()
        if sheet is not None
    }


def dear_by_speed(case: Case, here: str) -> dict[str, float]:
    """Return prices at which every other GPU costs twice the present one for the same work."""
    own = case.throughputs[here]
    return {gpu: 1 if gpu == here else 2 * value / own for gpu, value in case.throughputs.items()}


def dear_by_hour(case: Case, here: str) -> dict[str, float]:
    """Return prices at which no other GPU can pay, however fast it is."""
    return {gpu: 1 if gpu == here else 2000 for gpu in case.throughputs}


def play(
    case: Case,
    here: str,
    prices: Prices,
    knowledge: Knowledge,
    noise: float,
    random: np.random.Generator,
    may_probe: bool = True,
) -> Outcome | None:
    """Play a case to its end, or return None if there is nothing to compare."""
    others = [gpu for gpu in case.throughputs if gpu != here and gpu in prices]
    if here not in prices or not others:
        return None
    targets = [Target(gpu, case.gpus) for gpu in others]
    costs = [Cost(prices[gpu] / prices[here]) for gpu in others]
    measured, probes = [case.measurement(here)], 0
    for answered in range(_MOST_ANSWERS):
        prediction = predict(measured, targets, knowledge)
        advice = decide(prediction, costs, MAX_SLOWER, answered if may_probe else _MOST_ANSWERS)
        if advice.kind != PROBE:
            break
        measured += [_probed(case, others[n], noise, random) for n in advice.targets]
        probes += len(advice.targets)
    ratios = [case.throughputs[gpu] / case.throughputs[here] for gpu in others]
    savings = [
        1 - float(cost.per_hour or 0) / ratio for cost, ratio in zip(costs, ratios, strict=True)
    ]
    allowed = [s for s, ratio in zip(savings, ratios, strict=True) if ratio * (1 + MAX_SLOWER) >= 1]
    chosen = advice.targets[0] if advice.kind == SWITCH else None
    return Outcome(
        kind=advice.kind,
        rung="" if chosen is None else prediction.speeds[chosen].rung,
        saving=0.0 if chosen is None else savings[chosen],
        reachable=max([0.0, *allowed]),
        is_too_slow=chosen is not None and ratios[chosen] * (1 + MAX_SLOWER) < 1,
        probes=probes,
    )


def _probed(case: Case, gpu: str, noise: float, random: np.random.Generator) -> Measurement:
    """Return what a probe measured. Its noise is what a probe says of itself: in the stress it is
    larger than usual.
    """
    return Measurement(
        workload=case.workload,
        gpu=gpu,
        throughput=case.throughputs[gpu] * math.exp(random.normal(0, noise)),
        precision=case.precision,
        batch=case.batch,
        gpus=case.gpus,
        probe_steps=200,
        rel_sd=noise,
    )
