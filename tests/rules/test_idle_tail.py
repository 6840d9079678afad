"""`idle_tail`: machines that stay on after the work, and ends that aren't idle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rules.frame import NodeFrame, RunFrame
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import World

RULE = "idle_tail"


def until(work: float, seconds: float = 3600, gpus: int = 1, key: str = "n1") -> NodeFrame:
    """A node whose GPUs work until then."""
    busy = np.where(np.arange(seconds) < work, 90.0, 0.4)
    series: dict[str, Any] = {f"gpu{n}__busy_pct": busy for n in range(gpus)}
    return f.node(key, f.samples(seconds, **series), of=f.hardware(gpus=gpus))


def cores(work: float, seconds: float = 3600) -> NodeFrame:
    used = np.where(np.arange(seconds) < work, 3.0, 0.02)
    return f.node(series=f.samples(seconds, tree__cpu_seconds_total=np.cumsum(used)))


def hour(*nodes: NodeFrame) -> RunFrame:
    return f.run(*nodes, duration=3600)


TICKS = np.arange(3600)
BLIPS = np.where(TICKS < 3000, 90.0, np.where(TICKS % 60 == 0, 30.0, 0.0))
REST = np.where(TICKS < 3480, 90.0, 0.0)
SHORT_GAPS = np.where((TICKS > 3490) & (TICKS % 5 == 0), f.GAP, REST)
LONG_GAP = np.where((TICKS >= 3520) & (TICKS < 3550), f.GAP, REST)
UNKNOWN_END = np.where(TICKS < 3000, 90.0, f.GAP)


def busy(values: f.Values) -> NodeFrame:
    return f.node(series=f.samples(3600, gpu0__busy_pct=values), of=f.hardware(gpus=1))


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(hour(until(3000)), "fired", id="ten minutes"),
        pytest.param(hour(until(3492)), "fired", id="3 % of the run"),
        pytest.param(hour(until(3493)), "passed", id="just below"),
        pytest.param(f.run(until(572, 600), duration=600), "passed", id="28 s of ten minutes"),
        pytest.param(f.run(until(570, 600), duration=600), "fired", id="30 s of ten minutes"),
        pytest.param(f.run(until(28_500, 28_800), duration=28_800), "fired", id="5 min of 8 h"),
        pytest.param(f.run(until(28_501, 28_800), duration=28_800), "passed", id="not quite"),
        pytest.param(hour(until(3600)), "passed", id="to the end"),
        pytest.param(hour(until(3000), until(3600, key="n2")), "passed", id="one node works"),
        pytest.param(hour(until(3000), until(3000, key="n2")), "fired", id="both stay"),
        pytest.param(hour(busy(BLIPS)), "fired", id="blips of a second"),
        pytest.param(hour(busy(SHORT_GAPS)), "fired", id="two minutes, a second in five unknown"),
        pytest.param(hour(busy(LONG_GAP)), "passed", id="two minutes, half of one unknown"),
        pytest.param(hour(busy(UNKNOWN_END)), "insufficient_data", id="unknown end"),
        pytest.param(hour(busy(f.GAP)), "insufficient_data", id="unknown"),
        pytest.param(hour(busy(0.0)), "not_applicable", id="never used"),
        pytest.param(hour(cores(3000)), "fired", id="without GPUs, by its own cores"),
        pytest.param(hour(cores(3600)), "passed", id="without GPUs, busy"),
        pytest.param(hour(f.node()), "insufficient_data", id="nothing known"),
        pytest.param(f.run(), "insufficient_data", id="nothing at all"),
        pytest.param(
            replace(hour(until(3000)), final=False), "insufficient_data", id="still going"
        ),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_the_waste_is_nine_tenths_to_all_of_it() -> None:
    judgement = judged(RULE, hour(until(3000)))
    assert judgement.verdict.waste_seconds_low == pytest.approx(540)
    assert judgement.verdict.waste_seconds_high == pytest.approx(600)
    [window] = judgement.numbers.windows
    assert (window.start_seconds, window.end_seconds) == (3000, 3600)


def set_up(world: World, factor: float) -> None:
    """5 minutes, or 3 % of the run and 30 s."""
    world.tail_seconds = min(300.0, max(30.0, 0.03 * world.seconds)) * factor


SCENARIO = Scenario(
    RULE,
    set_up,
    (
        *confounders.SIMPLE[:2],
        *confounders.PAUSES,
        *confounders.GPUS,
        *confounders.DATA,
        *confounders.ANYWHERE,
    ),
)
