"""`io_bottleneck`: a host that waits for storage, by I/O wait and by pressure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rules.frame import NodeFrame, RunFrame
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.changes import bottleneck
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import World

RULE = "io_bottleneck"
TICKS = np.arange(600)


def host(*gpus: f.Values, **series: Any) -> NodeFrame:
    busy: dict[str, Any] = {f"gpu{n}__busy_pct": values for n, values in enumerate(gpus)}
    table = f.samples(600, **busy, **series)
    return f.node(series=table, step_tables=[f.steps(600)], of=f.hardware(gpus=len(gpus)))


def pressure(stalled_share: float) -> f.Values:
    """Return the microseconds in which all tasks waited for I/O, as a running total."""
    return np.cumsum(np.full(600, 1e6 * stalled_share))


WAITS = np.where(TICKS % 100 < 60, 70.0, 3.0)
IDLES = np.where(TICKS % 100 < 60, 1.0, 95.0)


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(f.run(host(IDLES, host__cpu_iowait_pct=WAITS)), "fired", id="waits"),
        pytest.param(f.run(host(IDLES, host__cpu_iowait_pct=50.0)), "passed", id="at the boundary"),
        pytest.param(f.run(host(IDLES, host__cpu_iowait_pct=50.1)), "fired", id="just above"),
        pytest.param(f.run(host(95.0, host__cpu_iowait_pct=70.0)), "passed", id="GPU busy"),
        pytest.param(
            f.run(host(np.where(TICKS % 2, 1.0, 95.0), host__cpu_iowait_pct=80.0)),
            "passed",
            id="half the time, not more",
        ),
        pytest.param(
            f.run(host(IDLES, host__psi_io_full_us_total=pressure(0.6))), "fired", id="pressure"
        ),
        pytest.param(
            f.run(host(IDLES, host__psi_io_full_us_total=pressure(0.4))), "passed", id="some of it"
        ),
        pytest.param(
            f.run(
                host(
                    IDLES,
                    host__cpu_iowait_pct=4.0,
                    container__psi_io_full_us_total=pressure(0.9),
                )
            ),
            "fired",
            id="many cores hide the wait, pressure doesn't",
        ),
        pytest.param(f.run(host(IDLES)), "insufficient_data", id="no I/O wait"),
        pytest.param(
            f.run(host(f.GAP, host__cpu_iowait_pct=70.0)), "insufficient_data", id="GPU unknown"
        ),
        pytest.param(
            f.run(host(0.0, host__cpu_iowait_pct=70.0)), "not_applicable", id="GPU never used"
        ),
        pytest.param(f.run(host(host__cpu_iowait_pct=70.0)), "not_applicable", id="no GPU"),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_it_puts_the_waste_at_half_to_nine_tenths_of_the_wait() -> None:
    verdict = judged(RULE, f.run(host(IDLES, host__cpu_iowait_pct=WAITS))).verdict
    assert (verdict.claimed_seconds_low, verdict.claimed_seconds_high) == (180, 324)


def test_it_answers_to_the_names_of_sagemaker() -> None:
    frame = f.run(host(IDLES, host__cpu_iowait_pct=30.0))
    assert judged(RULE, frame, {"io_threshold": 25}).verdict.state == "fired"


def set_up(world: World, factor: float) -> None:
    """Keep I/O wait above 50 % and the GPUs below 10 % for more than half of the time."""
    bottleneck(world, factor, "host.cpu_iowait_pct", threshold=50.0, loaded=75.0)


SCENARIO = Scenario(RULE, set_up, (*confounders.ON_GPU, *confounders.DATA, *confounders.ANYWHERE))
