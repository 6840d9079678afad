"""`thermal_throttling`: clocks that heat or the power brake reduced, and what that costs."""

from __future__ import annotations

import numpy as np
import pytest

from rules.frame import NodeFrame, RunFrame
from rules.ledger import ledger
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import Node, World

RULE = "thermal_throttling"
TICKS = np.arange(600)


def counter(seconds: float, share: float = 1.0) -> f.Values:
    """Return a counter that grows for the last `seconds`, for this share of each tick."""
    return np.cumsum(np.where(600 - seconds <= TICKS, share * 1e9, 0.0))


def hot(seconds: float, key: str = "n1", share: float = 1.0, **series: f.Values) -> NodeFrame:
    """Return a node of one GPU that is slowed down in the last seconds of 600."""
    thermal = counter(seconds, share)
    clock = {"gpu0__sm_clock_mhz": np.where(600 - seconds <= TICKS, 990.0, 1980.0)}
    made = {"gpu0__throttled_thermal_ns_total": thermal} | clock | series
    table = f.samples(600, gpu0__busy_pct=90, **made)
    return f.node(key, table, [f.steps(600)], of=f.hardware(gpus=1))


def clocked(slow: float) -> f.Values:
    return np.where(TICKS >= 300, slow, 1980.0)


BRAKED = f.samples(
    600,
    gpu0__busy_pct=90,
    gpu0__throttled_thermal_ns_total=counter(0),
    gpu0__throttled_power_brake_ns_total=counter(300),
    gpu0__sm_clock_mhz=np.where(TICKS >= 300, 990.0, 1980.0),
)
NOT_COUNTED = f.node("n1", f.samples(600, gpu0__busy_pct=90), of=f.hardware(gpus=1))


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(f.run(hot(300)), "fired", id="half of the run"),
        pytest.param(f.run(hot(0)), "passed", id="never"),
        pytest.param(f.run(hot(20)), "fired", id="at the boundary"),
        pytest.param(f.run(hot(19)), "passed", id="just below it"),
        pytest.param(f.run(hot(300, share=0.1)), "fired", id="a tenth of half of the run"),
        pytest.param(f.run(f.node(series=BRAKED, of=f.hardware(gpus=1))), "fired", id="brake"),
        pytest.param(f.run(hot(300, gpu0__sm_clock_mhz=f.GAP)), "insufficient_data", id="no clock"),
        pytest.param(f.run(NOT_COUNTED), "insufficient_data", id="not counted"),
        pytest.param(f.run(hot(0), NOT_COUNTED), "insufficient_data", id="one isn't counted"),
        pytest.param(f.run(hot(0), hot(300, "n2")), "fired", id="the second node"),
        pytest.param(f.run(f.node()), "not_applicable", id="no GPU"),
        pytest.param(f.run(), "not_applicable", id="nothing at all"),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_it_claims_what_the_lower_clock_costs() -> None:
    verdict = judged(RULE, f.run(hot(300, gpu0__sm_clock_mhz=clocked(990.0)))).verdict
    assert "for up to 5 m 0 s, at a clock up to 50 % lower" in verdict.summary
    assert verdict.claimed_seconds_low == pytest.approx(0.7 * 0.5 * 300)
    assert verdict.claimed_seconds_high == pytest.approx(0.5 * 300)


def test_a_clock_that_stays_costs_nothing() -> None:
    verdict = judged(RULE, f.run(hot(300, gpu0__sm_clock_mhz=clocked(1980.0)))).verdict
    assert verdict.state == "passed"
    assert "stayed as high as before" in verdict.summary


def test_it_tells_the_power_brake_from_heat() -> None:
    brake = judged(RULE, f.run(f.node(series=BRAKED, of=f.hardware(gpus=1)))).verdict
    heat = judged(RULE, f.run(hot(300))).verdict
    assert "slowed down by the power brake" in brake.summary
    assert "slowed down by heat" in heat.summary
    assert brake.dedupe_key != heat.dedupe_key


def test_it_claims_no_more_than_the_ledger_has() -> None:
    frame = f.run(hot(300), hot(0, "n2"))
    (claim,) = judged(RULE, frame).verdict.claims
    held = ledger(frame).held_seconds()
    assert claim.seconds == pytest.approx(150)
    assert held["n1"]["throttled"] + held["n2"].get("throttled", 0.0) == pytest.approx(300, abs=2)


def set_up(world: World, factor: float) -> None:
    """Slow all GPUs down for 2 % of the run, in one piece at work, to half of their clock."""
    share = 0.02 * factor

    def change(node: Node) -> None:
        places = np.flatnonzero(node.working)
        count = round(share * len(node.times))
        first = int(world.random.integers(0, len(places) - count))
        slowed = np.zeros(len(node.times))
        slowed[places[first : first + count]] = 1.0
        for gpu in range(node.gpus):
            nanoseconds = slowed * world.resolution_seconds * 1e9
            node.series[f"gpu{gpu}.throttled_thermal_ns_total"] = np.cumsum(nanoseconds)
            clock = np.where(slowed > 0, 0.3, 1.0) * 1980 + world.noise(len(slowed), 5)
            node.series[f"gpu{gpu}.sm_clock_mhz"] = clock

    world.changes.append(change)


SCENARIO = Scenario(RULE, set_up, (*confounders.CALM, *confounders.ANYWHERE))
