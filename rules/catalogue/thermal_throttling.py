"""Heat or the power supply slows a GPU down.

## What it checks
The time in which the driver reduced a GPU's clocks because of heat or of the power brake, by its
own counters, and how much slower the GPU ran then: its mean clock in that time, against the 95th
percentile of its clock in the rest of the run. The power cap doesn't count: running at it is
normal.

## Why it costs money
A GPU at two thirds of its clock costs as much as one at its full clock. In a training on several
GPUs all others wait for it.

## When it fires
When a GPU was slowed down for at least `least_share_pct` of the run and `least_seconds`, and its
clock was at least 1 % lower then.

## When it is wrong
Short peaks in a hot minute pass by themselves. The counters of some drivers also count the moments
in which a clock is just being set. A model that waits for memory loses less than the clock.

## How to fix it
Use another node, and tell the people who run this one its name and the GPU's number: it may be
dust, a fan, or the air in its place in the rack. With machines of your own, look at the inlet's
temperature, or set a power limit (`nvidia-smi -pl`) at which the card stays cool: a steady lower
clock beats one that goes up and down. A power brake is a fault of the power supply, or its budget.

## Parameters
`least_share_pct` of the run, and `least_seconds`: less is a peak.

## Sources
gpud and NVIDIA's DCGM report the same counters as a problem of the hardware. The levels, and that a
fix gives back 0.7 to 1 of what the lower clock costs, are our estimates.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd

from rules.category import GPU
from rules.evidence import clamp_seconds, known_together, percentile
from rules.frame import NodeFrame, RunFrame
from rules.gpus import gpu_counts, unfit
from rules.rule import Claim, Directness, Numbers, Parameter, Rule, Values, Verdict
from rules.throttling import REASONS, slowed_share
from rules.wording import lasting, name_gpus, sentence, some_gpus, was_or_were

LABELS = ("throttled",)
GIVEN_BACK = (0.7, 1.0)
"""The share of what the lower clock costs that a fix gives back."""
LEAST_SLOWER_PCT = 1.0
"""A smaller difference is the clock's own noise."""
SLOWED_SHARE = 0.05
"""The share of a tick from which on its clock counts as a slowed one."""


def measure(frame: RunFrame, values: Values) -> Numbers:
    numbers = gpu_counts(frame) | {"run_seconds": frame.duration_seconds}
    for node in frame.nodes.values():
        for number in node.used_gpus:
            entity = f"{node.key}/gpu{number}"
            shares = {
                reason: slowed_share(node, number, reason, frame.resolution_seconds)
                for reason in REASONS
            }
            known = [share for share in shares.values() if share is not None]
            if not known:
                numbers[f"slowed_seconds@{entity}"] = None
                continue
            slowed = pd.concat(known, axis=1).sum(axis=1).clip(0, 1)
            numbers[f"slowed_seconds@{entity}"] = float(slowed.sum()) * frame.resolution_seconds
            numbers[f"slower_pct@{entity}"] = _slower_pct(node, number, slowed)
            brake = shares["power_brake"]
            by_brake = float(brake.sum()) if brake is not None else 0.0
            numbers[f"brake_seconds@{entity}"] = by_brake * frame.resolution_seconds
    return Numbers(numbers)


def judge(numbers: Numbers, values: Values) -> Verdict:
    if reason := unfit(numbers):
        return reason
    run = numbers.get("run_seconds") or 0.0
    slowed = numbers.by_entity("slowed_seconds")
    least = max(values["least_seconds"], values["least_share_pct"] / 100 * run)
    slower = numbers.by_entity("slower_pct")
    limited = {gpu for gpu, seconds in slowed.items() if seconds >= least}
    bad = sorted(gpu for gpu in limited if slower.get(gpu, 0.0) >= LEAST_SLOWER_PCT)
    if bad:
        return _fired(numbers, bad, slowed, run)
    if unclocked := limited - slower.keys():
        gpus = name_gpus(sorted(unclocked))
        return Verdict(
            "insufficient_data", f"Heat limited the clock of {gpus}. Missing: how low it was."
        )
    unknown = numbers.entities("slowed_seconds") - slowed.keys()
    if unknown:
        gpus = name_gpus(sorted(unknown))
        return Verdict("insufficient_data", f"Missing: whether heat slowed {gpus} down.")
    longest = max(slowed.values(), default=0.0)
    if longest >= least:
        return Verdict("passed", "Heat limited a GPU's clock, which stayed as high as before.")
    return Verdict(
        "passed", f"Heat and the power supply slowed no GPU down for more than {lasting(longest)}."
    )


def _fired(numbers: Numbers, bad: Collection[str], slowed: dict[str, float], run: float) -> Verdict:
    count = numbers.get("gpus_count") or 1.0
    slower = numbers.by_entity("slower_pct")
    longest = max(slowed[gpu] for gpu in bad)
    brake = numbers.by_entity("brake_seconds")
    by_brake = sum(brake.get(gpu, 0.0) for gpu in bad) > sum(slowed[gpu] for gpu in bad) / 2
    cause = "the power brake" if by_brake else "heat"
    gpus = some_gpus(len(bad), count)
    return Verdict(
        "fired",
        sentence(
            f"{gpus} {was_or_were(len(bad))} slowed down by {cause} ({name_gpus(bad)}), for up to "
            f"{lasting(longest)}, at a clock up to {max(slower[gpu] for gpu in bad):.0f} % lower."
        ),
        advice=_advice(by_brake),
        claims=tuple(_claim(slowed[gpu], slower[gpu], count, run) for gpu in bad),
        severity="medium",
        dedupe_key="thermal_throttling:" + ("power" if by_brake else "heat"),
    )


def _claim(slowed: float, slower_pct: float, count: float, run: float) -> Claim:
    low, high = (share * slower_pct / 100 for share in GIVEN_BACK)
    return Claim(LABELS, clamp_seconds(slowed / count, run), low, high)


def _advice(by_brake: bool) -> str:
    first = "Use another node, and report this one and the GPU's number."
    if by_brake:
        return f"{first} The power supply, or its budget, is too small for the load."
    return f"{first} On a machine of your own look at fans, dust and the air at its inlet."


def _slower_pct(node: NodeFrame, number: int, slowed: pd.Series[float]) -> float | None:
    """Return by how much the mean clock of slowed ticks lies below the usual one at work."""
    clock = node.series(f"gpu{number}.sm_clock_mhz")
    if clock is None:
        return None
    share, mhz = known_together(slowed, clock)
    is_slowed = share.to_numpy() >= SLOWED_SHARE
    usual = percentile(mhz[~is_slowed], 95)
    if not is_slowed.any() or not usual:
        return None
    return float(np.clip(100 * (1 - mhz[is_slowed].mean() / usual), 0, 100))


RULE = Rule(
    id="thermal_throttling",
    title="GPUs slowed down by heat or power",
    category=GPU,
    version=1,
    needs=("gpu*.throttled_thermal_ns_total|gpu*.throttled_power_brake_ns_total",),
    claims_on=LABELS,
    directness=Directness.MEASURED_CAUSE,
    parameters=(
        Parameter("least_share_pct", "%", 2, 0, 100, "Slowed down for this share", "ours"),
        Parameter("least_seconds", "s", 20, 0, 86_400, "And for this long", "ours"),
    ),
    measure=measure,
    judge=judge,
)
