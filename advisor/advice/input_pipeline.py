"""Fix the input pipeline, so that training no longer waits for data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from advisor.advice.causes import RootCause
from advisor.advice.fixes import Fix, fixes, share_of_time
from advisor.advice.recommendation import Recommendation, Spending
from advisor.advice.recommendation import risk_of_more_than as risk_of
from advisor.pricing.machine import InstanceType
from advisor.sizing.demand import Demand
from rules.catalogue.input_bound import CORES_FULL_PCT

KIND = "fix_input_pipeline"
RULE = "input_bound"
CORES_SPREAD = 0.2
"""Variation of the number of busy cores from run to run (log). Our choice."""
MOST_RISK = 2.0
"""The highest risk of adding workers. Above it, the cores are likelier too few than enough: the
work itself has to become cheaper."""
RISK_UNMEASURED = 2.0
RISK_OF_REWRITING = 0.8
EFFORT = "medium"
"""The effort of the fix. In 400 jobs with low utilisation, small changes to code or scripts removed
85 % of the causes (Gao et al., ICSE 2024). Still, code has to change."""
IN_PARALLEL = (
    "DataLoader(dataset, num_workers=..., prefetch_factor=4, pin_memory=True, "
    "persistent_workers=True)",
    "tf.data: dataset.map(prepare, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)",
)
CHEAPER = (
    "Prepare the data once, and store the result in few large files.",
    "Vectorise the transformation, or do it on the GPU (NVIDIA DALI, torchvision.transforms.v2).",
)


@dataclass(frozen=True)
class _Risk:
    of_4: float
    dimension: str
    reason: str


def fix_input_pipeline(
    found: Mapping[str, RootCause],
    spending: Spending,
    demand: Demand | None,
    catalogue: Mapping[str, InstanceType],
) -> Recommendation | None:
    """Return the recommendation, if the finding is a cause of its own."""
    cause = found.get(RULE)
    if cause is None or spending.duration_seconds <= 0:
        return None
    recovered = share_of_time(cause.seconds_high, spending)
    risk = _risk(demand, catalogue, recovered)
    is_full = _has_full_cores(cause) or (demand is not None and risk.of_4 > MOST_RISK)
    fix = _make_cheaper() if is_full else _in_parallel(risk)
    return fixes({RULE: cause}, {RULE: fix}, spending)[0]


def cores_after_fix(cores_busy: float, recovered_share: float) -> float:
    """Return the busy cores after the fix: doing the same work in less time keeps more of them
    busy.
    """
    return cores_busy / max(1 - recovered_share, 0.01)


def _in_parallel(risk: _Risk) -> Fix:
    return Fix(
        kind=KIND,
        title="Load data in parallel and ahead of the training loop",
        setting="input_pipeline",
        value="parallel and prefetching",
        effort=EFFORT,
        risk=risk.of_4,
        risk_dimension=risk.dimension,
        risk_reason=risk.reason,
        steps=IN_PARALLEL,
    )


def _make_cheaper() -> Fix:
    """Return the fix for full cores: more workers wouldn't load faster."""
    return Fix(
        kind=KIND,
        title="Make the preparation of data cheaper: the cores are full",
        setting="input_pipeline",
        value="cheaper preparation",
        effort=EFFORT,
        risk=RISK_OF_REWRITING,
        risk_dimension="quality",
        risk_reason="Data that is prepared in another way may change the results.",
        steps=CHEAPER,
    )


def _has_full_cores(cause: RootCause) -> bool:
    """Return whether the cores are full, as the finding itself says."""
    numbers = cause.judged.numbers
    busy_pct, workers = numbers.get("cpu_busy_p50_pct"), numbers.get("loader_workers")
    cores = numbers.get("cores_per_rank")
    has_enough_workers = workers is not None and cores is not None and workers >= max(cores, 1.0)
    return (busy_pct is not None and busy_pct >= CORES_FULL_PCT) or has_enough_workers


def _risk(
    demand: Demand | None, catalogue: Mapping[str, InstanceType], recovered_share: float
) -> _Risk:
    """Return the risk of too few cores to load as fast as the loop then trains."""
    machine = catalogue.get(demand.instance_type) if demand else None
    if demand is None or machine is None:
        reason = "The cores may be too few to load faster: how many were busy isn't known."
        return _Risk(RISK_UNMEASURED, "cores (not measured)", reason)
    after = cores_after_fix(demand.cores_busy_p95, recovered_share)
    return _Risk(
        risk_of(machine.vcpus, after, CORES_SPREAD),
        "cores",
        f"The cores may become too few: {after:.1f} of {machine.vcpus} would be busy.",
    )
