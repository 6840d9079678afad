"""`low_gpu_utilization`: unused, low, fluctuating, well used, unknown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rules.frame import GpuHardware, Hardware, NodeFrame, RunFrame
from rules.registry import all_rules
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.changes import set_gpu_p95
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import Node, World

RULE = "low_gpu_utilization"


def gpus(*busy: f.Values, key: str = "n1", seconds: float = 600) -> NodeFrame:
    """Return a node whose GPUs are so busy, one value or series each."""
    series: dict[str, Any] = {
        f"gpu{number}__busy_pct": values for number, values in enumerate(busy)
    }
    return f.node(key, f.samples(seconds, **series), of=f.hardware(gpus=len(busy)))


TICKS = np.arange(600)
FITS = np.where(TICKS % 10 == 0, 0.0, 95.0)
RARE_FITS = np.where(TICKS % 30 == 0, 0.0, 95.0)
LATE_START = np.where(TICKS < 300, 0.0, 95.0)
WITH_GAPS = np.where(TICKS % 2 == 0, 95.0, f.GAP)
NO_SERIES = f.node(series=f.samples(600, gpu0__memory_used_bytes=1e9), of=f.hardware(gpus=1))
OTHERS_GPU = Hardware(
    gpus=(GpuHardware("V100", 16 * f.GIB), GpuHardware("V100", 16 * f.GIB, allocated=False))
)
SHARED = f.node(series=f.samples(600, gpu0__busy_pct=95, gpu1__busy_pct=3), of=OTHERS_GPU)


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(f.run(gpus(13)), "fired", id="low"),
        pytest.param(f.run(gpus(95)), "passed", id="well used"),
        pytest.param(f.run(gpus(70)), "passed", id="at the boundary"),
        pytest.param(f.run(gpus(69.9)), "fired", id="just below the boundary"),
        pytest.param(f.run(gpus(FITS)), "fired", id="in fits"),
        pytest.param(f.run(gpus(RARE_FITS)), "passed", id="3 % of the time idle"),
        pytest.param(f.run(gpus(LATE_START)), "passed", id="warm-up is left out"),
        pytest.param(f.run(gpus(WITH_GAPS)), "passed", id="gaps are unknown, not zero"),
        pytest.param(f.run(gpus(0)), "fired", id="never used"),
        pytest.param(f.run(gpus(95, 0)), "fired", id="one of two never used"),
        pytest.param(f.run(gpus(95), gpus(95, key="n2")), "passed", id="two nodes, both used"),
        pytest.param(f.run(gpus(95), gpus(20, key="n2")), "fired", id="two nodes, one low"),
        pytest.param(f.run(gpus(f.GAP)), "insufficient_data", id="utilisation unknown (MIG)"),
        pytest.param(f.run(NO_SERIES), "insufficient_data", id="no such series"),
        pytest.param(f.run(gpus(95, f.GAP)), "insufficient_data", id="one used, one unknown"),
        pytest.param(f.run(gpus(20, f.GAP)), "fired", id="one low, one unknown"),
        pytest.param(f.run(SHARED), "passed", id="only allocated GPUs count"),
        pytest.param(f.run(f.node()), "not_applicable", id="no GPU"),
        pytest.param(f.run(), "not_applicable", id="nothing at all"),
        pytest.param(
            f.run(gpus(20, seconds=60), duration=240), "fired", id="a quarter of a short run"
        ),
        pytest.param(
            f.run(gpus(20, seconds=59), duration=240), "insufficient_data", id="less than that"
        ),
        pytest.param(
            f.run(gpus(20, seconds=19), duration=19), "insufficient_data", id="19 s in all"
        ),
        pytest.param(
            f.run(gpus(20, seconds=499), duration=4000), "insufficient_data", id="long run, 499 s"
        ),
        pytest.param(f.run(gpus(20, seconds=500), duration=4000), "fired", id="long run, 500 s"),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_a_gpu_that_was_never_used_is_unused_and_not_low() -> None:
    verdict = judged(RULE, f.run(gpus(0, 1.5))).verdict
    assert "2 of 2 GPUs were never used" in verdict.summary
    assert "low" not in verdict.summary
    assert verdict.dedupe_key != judged(RULE, f.run(gpus(13))).verdict.dedupe_key


def test_it_tells_unused_low_and_fluctuating_apart_in_one_sentence() -> None:
    summary = judged(RULE, f.run(gpus(0, 20, FITS, 95))).verdict.summary
    assert "1 of 4 GPUs was never used" in summary
    assert "1 of 4 GPUs had low utilisation" in summary
    assert "1 of 4 GPUs had fluctuating utilisation" in summary


def test_the_typical_window_counts_and_not_one_odd_one() -> None:
    only_window = np.where(np.arange(450) < 420, 0.0, 95.0)
    only_window[:250] = 95.0
    short = f.run(gpus(only_window, seconds=450), duration=450)
    assert judged(RULE, short).verdict.state == "fired"
    long = np.full(3000, 95.0)
    long[250:420] = 0.0
    frame = f.run(gpus(long, seconds=3000), duration=3000)
    assert judged(RULE, frame).verdict.state == "passed"


def test_it_shows_the_windows_of_a_low_gpu_and_none_of_a_good_one() -> None:
    low_later = np.where(TICKS < 250, 95.0, 20.0)
    windows = judged(RULE, f.run(gpus(low_later, 95))).numbers.windows
    assert [(w.start_seconds, w.end_seconds, w.entity) for w in windows] == [(250, 600, "n1/gpu0")]


def test_it_counts_the_waste_of_the_bad_gpus_only() -> None:
    verdict = judged(RULE, f.run(gpus(20, 95))).verdict
    assert verdict.claimed_seconds_low == pytest.approx(0.3 * 0.8 * 600 / 2)
    assert verdict.claimed_seconds_high == pytest.approx(0.7 * 0.8 * 600 / 2)
    unused = judged(RULE, f.run(gpus(0, 95))).verdict
    assert (unused.claimed_seconds_low, unused.claimed_seconds_high) == (150, 300)


def test_windows_are_seconds_whatever_the_resolution() -> None:
    half = f.samples(600, resolution=0.5, gpu0__busy_pct=20.0)
    coarse = f.samples(600, resolution=10, gpu0__busy_pct=20.0)
    for series, resolution in ((half, 0.5), (coarse, 10)):
        node = f.node(series=series, of=f.hardware(gpus=1))
        numbers = judged(RULE, f.run(node, resolution=resolution)).numbers
        assert numbers.values["seen_seconds@n1/gpu0"] == 600


def test_it_answers_to_the_names_of_sagemaker() -> None:
    rule = all_rules()[RULE]
    assert rule.sagemaker_name == "LowGPUUtilization"
    assert rule.values({"window": 500, "patience": 1000})["window_seconds"] == 250
    assert rule.values({"window_seconds": 100})["window_seconds"] == 100
    assert judged(RULE, f.run(gpus(60)), {"threshold_p95": 50}).verdict.state == "passed"


def set_up(world: World, factor: float) -> None:
    """Keep the 95th percentile below 70 %, or the 5th below 10 %."""
    if world.random.random() < 0.5:
        level = min(70 / factor, 99.0)
        world.changes.append(lambda node: set_gpu_p95(node, level))
    else:
        low = 10 / factor

        def fits(node: Node) -> None:
            for gpu in range(node.gpus):
                busy = node.series[f"gpu{gpu}.busy_pct"]
                idle = node.working & (node.times % 10 < 1)
                busy[idle] = np.clip(low + world.noise(int(idle.sum()), 0.3), 0, 100)

        world.changes.append(fits)


SCENARIO = Scenario(RULE, set_up, (*confounders.CALM, *confounders.DATA, *confounders.ANYWHERE))
