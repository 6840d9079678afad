"""`idle_tail`: machines that stay on after the work, and ends that aren't idle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rules.frame import NodeFrame, RunFrame
from rules.ledger import ledger
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import World

RULE = "idle_tail"


def until(work: float, seconds: float = 3600, gpus: int = 1, key: str = "n1") -> NodeFrame:
    """Return a node whose GPUs work until then."""
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
        pytest.param(f.run(until(54, 60), duration=60), "fired", id="a tenth of a minute"),
        pytest.param(f.run(until(55, 60), duration=60), "passed", id="less than a tenth"),
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
    assert judgement.verdict.claimed_seconds_low == pytest.approx(540)
    assert judgement.verdict.claimed_seconds_high == pytest.approx(600)
    [window] = judgement.numbers.windows
    assert (window.start_seconds, window.end_seconds) == (3000, 3600)


def told_to_the_end(seed: int) -> RunFrame:
    """Return a random run with or without GPUs that works at first, and tells something to its last
    second while its cores and GPUs do what they like.
    """
    random = np.random.default_rng(seed)
    seconds = int(random.integers(40, 2000))
    ticks = np.arange(seconds)
    quiet = ticks >= random.uniform(0, 1) * seconds
    used = np.where(quiet, random.choice([0.0, 0.01, 0.5]), random.uniform(0.01, 8))
    series: dict[str, Any] = {"tree__cpu_seconds_total": np.cumsum(used)}
    gpus = int(random.integers(0, 3))
    for number in range(gpus):
        series[f"gpu{number}__busy_pct"] = np.where(quiet, 0.0, random.choice([0.0, 1.0, 95.0]))
    length = max(random.uniform(0.05, 5), seconds / 400)
    count = int(seconds / length)
    told = random.choice(["steps", "metrics", "phase"])
    steps = [f.steps(count, length, start=seconds - count * length)] if told == "steps" else []
    metrics = [(float(at), "metric", {"name": "loss", "value": 1.0, "rank": 0}) for at in ticks[5:]]
    began = random.uniform(0, seconds)
    phase = random.choice(["evaluate", "checkpoint", "finalise"])
    begins = [(began, "phase_begin", {"phase": phase, "rank": 0})]
    events = {"steps": [], "metrics": [*metrics[:-1], (seconds - 0.1, *metrics[-1][1:])]}
    table, of = f.samples(seconds, **series), f.hardware(gpus=gpus)
    node = f.node("n1", table, steps, events.get(told, begins), of=of)
    return f.run(node, duration=seconds)


@pytest.mark.parametrize("first", range(0, 1000, 200))
def test_a_run_that_tells_something_to_its_last_second_has_no_idle_tail(first: int) -> None:
    for seed in range(first, first + 200):
        label_seconds = ledger(told_to_the_end(seed)).node_seconds()
        assert label_seconds.get("idle_tail", 0.0) <= 0.1, seed
        assert "hung" not in label_seconds, seed
    assert judged(RULE, told_to_the_end(first)).verdict.state == "passed"


def test_idle_time_begins_with_the_end_of_the_last_told_step() -> None:
    node = replace(cores(2000), steps=f.steps(3000))
    [window] = judged(RULE, hour(node)).numbers.windows
    assert (window.start_seconds, window.end_seconds) == (3000, 3600)


def test_a_run_that_waits_for_a_core_is_not_idle() -> None:
    """The run gets a fiftieth of a core from 3000 s on, and waits for one in the rest of the
    time.
    """
    used = np.where(TICKS < 3000, 1.0, 0.02)
    for waits, state in ((0.0, "fired"), (0.98, "passed")):
        delay = np.where(TICKS < 3000, 0.0, waits)
        series = {"tree__cpu_seconds_total": used, "tree__run_delay_seconds_total": delay}
        table = f.samples(3600, **{name: np.cumsum(each) for name, each in series.items()})
        assert judged(RULE, hour(f.node(series=table))).verdict.state == state


def set_up(world: World, factor: float) -> None:
    """Add a tail of 5 minutes, or of 3 % of the run and 30 s."""
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
