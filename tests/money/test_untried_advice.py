"""Advice to measure first, without another machine: half precision, sharing a GPU."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.advice.recommendation import PRIOR, Recommendation, Spending
from advisor.advice.sharing import share_gpu
from advisor.pricing.book import PriceBook
from advisor.pricing.bundled import bundled_prices
from advisor.pricing.catalogue import GIB, catalogue
from advisor.probing.bootstrap import Rate
from advisor.probing.loop_speed import LoopSpeed
from advisor.recommend import AdvisedRun, Market, recommend
from advisor.sizing.demand import BALANCED, Demand
from advisor.sizing.gpu_use import GpuUse
from rules.engine import Judgement
from rules.rule import Numbers, Verdict

AS_OF = datetime(2026, 8, 22, tzinfo=UTC)
BOOK = PriceBook(bundled_prices())
COST = Decimal("1.006")
MACHINE = Demand(
    cores_busy_p95=1.0,
    memory_p99_bytes=3 * GIB,
    gpus=1,
    duration_seconds=3600,
    instance_type="g5.xlarge",
    region="us-east-1",
)
SPEED = LoopSpeed(
    rate=Rate(99, 100, 101, 0.01),
    unit="samples",
    steps=1000,
    warmup_steps=10,
    batch=32,
    precision="fp32",
    gpu="A10G",
    gpus=1,
    util_pct=95,
    gpu_memory_bytes=20 * GIB,
    host_memory_bytes=3 * GIB,
    data_wait_share=0.01,
    pace="gpu",
)


def told(
    speed: LoopSpeed | None,
    demand: Demand = MACHINE,
    busy: float = 0.95,
    runs: int = 10,
    findings: tuple[Judgement, ...] = (),
) -> dict[str, Recommendation]:
    """Return the advice by kind."""
    loop = {"step_seconds": 3000.0, "run_seconds": 3600.0, "wait_share_pct": 0.0}
    gpu = {
        "gpus_count": 1.0,
        "whole_run_p99_pct@n0/gpu0": 99.0,
        "seen_seconds@n0/gpu0": 3600.0,
        "idle_seconds@n0/gpu0": 3600.0 * (1 - busy),
    }
    judged = [_judged("input_bound", loop), _judged("low_gpu_utilization", gpu), *findings]
    run = AdvisedRun(judged, demand, Spending(COST, 3600, (COST,) * runs), speed)
    found = recommend(run, Market(BOOK, catalogue(), AS_OF))
    return {each.kind: each for each in found}


def _judged(rule: str, numbers: dict[str, float | None]) -> Judgement:
    return Judgement(rule, 1, {}, Numbers(numbers, ()), Verdict("passed", "Fine."))


def test_a_gpu_that_is_full_in_fp32_is_told_to_measure_half_precision() -> None:
    advised = told(SPEED)["mixed_precision"]
    assert advised.rung == PRIOR
    assert advised.title.startswith("Measure this first")
    assert "torch.bfloat16" in advised.how_to_apply[0]
    # 5/6 of the hour are steps; the median of public pairs is 1.21 times the speed.
    assert advised.saving_usd is not None
    assert float(advised.saving_usd) == pytest.approx(1.006 * 5 / 6 * (1 - 1 / 1.21))


@pytest.mark.parametrize(
    "unlike",
    [
        {"precision": "mixed"},
        {"precision": ""},
        {"pace": "loader"},
        {"pace": "unknown"},
        {"util_pct": 20.0},
        {"util_pct": None},
        {"gpu": "M60"},
        {"gpu": ""},
    ],
)
def test_without_evidence_that_tensor_cores_would_help_nothing_is_said(
    unlike: dict[str, object],
) -> None:
    assert "mixed_precision" not in told(replace(SPEED, **unlike))  # type: ignore[arg-type]
    assert "mixed_precision" not in told(None)


HALF_IDLE = replace(SPEED, util_pct=35.0, gpu_memory_bytes=6 * GIB)


def test_a_finding_about_its_numbers_is_told_instead_of_what_others_gained() -> None:
    """Both advise the same change, and one change saves once."""
    fired = replace(_judged("full_precision", {}), verdict=Verdict("fired", "Float32."))
    advised = told(SPEED, findings=(fired,))
    assert "shorter_numbers" in advised
    assert "mixed_precision" not in advised


def test_runs_that_fit_on_one_gpu_together_are_told_to_measure_sharing() -> None:
    advised = told(HALF_IDLE, busy=0.35)["share_gpu"]
    assert (advised.rung, advised.change) == (PRIOR, {"runs_at_once": 2})
    assert advised.saving_low_usd == 0
    assert advised.saving_high_usd == COST / 2
    assert "Each GPU was 35 % busy; 2 runs keep it 70 % busy." in advised.evidence


@pytest.mark.parametrize(
    ("speed", "demand", "busy", "runs"),
    [
        (HALF_IDLE, MACHINE, 0.45, 10),
        (replace(HALF_IDLE, gpu_memory_bytes=12 * GIB), MACHINE, 0.35, 10),
        (replace(HALF_IDLE, gpu_memory_bytes=None), MACHINE, 0.35, 10),
        (replace(HALF_IDLE, pace="loader"), MACHINE, 0.35, 10),
        (HALF_IDLE, replace(MACHINE, memory_p99_bytes=9 * GIB), 0.35, 10),
        (HALF_IDLE, replace(MACHINE, cores_busy_p95=2.0), 0.35, 10),
        (HALF_IDLE, MACHINE, 0.35, 1),
    ],
)
def test_what_does_not_fit_or_is_not_known_is_not_shared(speed, demand, busy, runs):
    assert "share_gpu" not in told(speed, demand, busy, runs)


def test_a_mig_profile_is_named_on_which_the_run_keeps_its_speed() -> None:
    a100 = replace(MACHINE, instance_type="p4de.24xlarge", gpus=8, memory_p99_bytes=30 * GIB)
    speed = replace(HALF_IDLE, gpu="A100-80-SXM", gpus=8, util_pct=30.0)
    gpus = {f"n0/gpu{number}" for number in range(8)}
    numbers: dict[str, float | None] = {"gpus_count": 8.0}
    for gpu in gpus:
        numbers |= {
            f"whole_run_p99_pct@{gpu}": 99.0,
            f"seen_seconds@{gpu}": 3600.0,
            f"idle_seconds@{gpu}": 2520.0,
        }
    cost = Decimal(30)
    judged = [_judged("low_gpu_utilization", numbers)]
    run = AdvisedRun(judged, a100, Spending(cost, 3600, (cost,) * 5), speed)
    found = recommend(run, Market(BOOK, catalogue(), AS_OF))
    [shared] = [each for each in found if each.kind == "share_gpu"]
    assert any("nvidia-smi mig -cgi 3g.40gb,3g.40gb -C" in line for line in shared.how_to_apply)


@given(st.floats(0.01, 1), st.floats(0.1, 24), st.floats(0.1, 4), st.floats(0.5, 16))
def test_shared_runs_always_fit(busy: float, gpu_gib: float, cores: float, gib: float) -> None:
    used = GpuUse(used=1, load=busy)
    demand = replace(MACHINE, cores_busy_p95=cores, memory_p99_bytes=int(gib * GIB), gpu_use=used)
    speed = replace(HALF_IDLE, util_pct=100 * busy, gpu_memory_bytes=int(gpu_gib * GIB))
    spending = Spending(COST, 3600, (COST, COST))
    advised = share_gpu(spending, demand, speed, catalogue(), BALANCED)
    if advised is not None:
        count = advised.change["runs_at_once"]
        assert count * busy <= 0.8 + 1e-9
        assert count * gpu_gib * 1.1 <= 24
        assert count * cores <= 0.8 * 4 + 1e-9
        assert count * gib * 1.1 <= 16
