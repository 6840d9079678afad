"""Train in half precision where the GPU has tensor cores that the run doesn't use."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from advisor.advice.recommendation import (
    PRIOR,
    Recommendation,
    RuleJudgement,
    SavingRange,
    Spending,
)
from advisor.pricing.gpus import GpuModel, gpu_models
from advisor.probing.loop_speed import GPU, LoopSpeed
from advisor.sizing.cpu import RatioInterval

KIND = "mixed_precision"
MEASURED_PRECISION = "measured_precision"
"""The setting of a run's configuration that its measurement fills."""
FULL = frozenset({"fp32", "fp32/tf32"})
SPEEDUP = RatioInterval(1.04, 1.21, 1.73)
"""The speed of half over full precision on tensor cores, 80 % interval: 406 pairs of training
workloads on V100, Titan V, 2080 Ti, Titan RTX and A100 (ryujaehun/pytorch-gpu-benchmark, u39kun's
deep-learning-benchmark)."""
SLOWER_PCT = 2
"""The percentage of those pairs that were slower in half precision."""
LEAST_BUSY_PCT = 50.0
"""A GPU that mostly waits isn't made faster (ours)."""


def mixed_precision(
    judgements: Sequence[RuleJudgement], spending: Spending, speed: LoopSpeed | None
) -> Recommendation | None:
    """Measure it first: what it gains differs from model to model. None: the GPU doesn't set the
    pace, or the run's precision isn't known, or is half already."""
    share = _loop_share(judgements, speed.util_pct) if speed else None
    if speed is None or share is None or not spending.cost_usd or not _may_gain(speed):
        return None
    model = gpu_models()[speed.gpu]
    cost = spending.cost_usd
    saving = SavingRange.clamp(
        cost,
        *(
            cost * Decimal(str(share * (1 - 1 / ratio)))
            for ratio in (SPEEDUP.low, SPEEDUP.mid, SPEEDUP.high)
        ),
    )
    kind = "bfloat16" if model.bf16_tflops else "float16"
    return Recommendation(
        kind=KIND,
        title=f"Measure this first: train in mixed precision ({kind})",
        change={MEASURED_PRECISION: "mixed"},
        saving_low_usd=saving.low,
        saving_usd=saving.mid,
        saving_high_usd=saving.high,
        monthly_saving_usd=spending.monthly_usd(saving, PRIOR),
        risk=1.6,
        risk_dimension="quality",
        risk_reason="The results may change: compare the metric of a whole run. "
        f"{SLOWER_PCT} of 100 public workloads were slower.",
        effort="low",
        evidence=[
            f"The run trained in {speed.precision}, and the {model.product} was "
            f"{speed.util_pct:.0f} % busy during its steps.",
            f"Half precision on tensor cores: {SPEEDUP.low:.2f} to {SPEEDUP.high:.2f} times the "
            f"speed (80 % of 406 public measurements), in the middle {SPEEDUP.mid:.2f}.",
        ],
        assumptions=["Start-up, evaluation and checkpoints take as long as now."],
        candidates=[],
        dedupe_key=KIND,
        rung=PRIOR,
        how_to_apply=_steps(kind),
    )


def _may_gain(speed: LoopSpeed) -> bool:
    model = gpu_models().get(speed.gpu)
    return (
        speed.precision in FULL
        and speed.pace == GPU
        and (speed.util_pct or 0.0) >= LEAST_BUSY_PCT
        and model is not None
        and _has_tensor_cores(model)
    )


def _has_tensor_cores(model: GpuModel) -> bool:
    return model.vendor == "NVIDIA" and model.fp16_tensor_tflops is not None


def _loop_share(judgements: Sequence[RuleJudgement], util_pct: float | None) -> float | None:
    """Return the share of the run in its steps without the wait for data; if the wait isn't known,
    in which the GPU was busy."""
    numbers = next((j.numbers for j in judgements if j.rule_id == "input_bound"), None)
    if numbers is None:
        return None
    steps, run = numbers.get("step_seconds"), numbers.get("run_seconds")
    wait_pct = numbers.get("wait_share_pct")
    works_pct = util_pct if wait_pct is None else 100 - min(wait_pct, 100.0)
    if not steps or not run or works_pct is None:
        return None
    return min(steps / run, 1.0) * works_pct / 100


def _steps(kind: str) -> list[str]:
    scaled = [] if kind == "bfloat16" else ['scaler = torch.amp.GradScaler("cuda")']
    return [
        f'with torch.autocast("cuda", dtype=torch.{kind}): loss = model(batch)',
        *scaled,
        "Measure: trimtab probe --steps 200 -- python train.py",
    ]
