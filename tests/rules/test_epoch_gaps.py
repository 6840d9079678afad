"""`epoch_gaps`: unexplained pauses between epochs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rules.frame import NodeFrame, RunFrame
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import Pause, World

RULE = "epoch_gaps"
EPOCH_STEPS = 95


def epochs(
    gap: float, count: int = 10, told: str = "", gpu: float | None = None, rank: int = 0
) -> NodeFrame:
    """Return epochs of 95 s with a gap of so many seconds after each."""
    tables: list[pd.DataFrame] = []
    events: list[tuple[float, str, dict[str, Any]]] = []
    at, length = 0.0, count * (EPOCH_STEPS + gap)
    busy = np.full(round(length), 90.0)
    for _ in range(count):
        tables.append(f.steps(EPOCH_STEPS, start=at, rank=rank))
        end = at + EPOCH_STEPS
        if told:
            data = {"phase": told, "rank": 0}
            events += [(end, "phase_begin", data), (end + gap, "phase_end", data)]
        if gpu is not None:
            busy[round(end) : round(end + gap)] = gpu
        at = end + gap
    series = f.samples(len(busy), gpu0__busy_pct=busy) if gpu is not None else None
    return f.node("n1", series, tables, events, of=f.hardware(gpus=1 if gpu is not None else 0))


def run(node: NodeFrame, duration: float = 1000) -> RunFrame:
    return f.run(node, duration=duration)


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(run(epochs(5)), "fired", id="4.5 %"),
        pytest.param(run(epochs(3)), "fired", id="three steps long"),
        pytest.param(run(epochs(2.9)), "passed", id="shorter than three steps"),
        pytest.param(run(epochs(5), duration=2250), "fired", id="2 % of the run"),
        pytest.param(run(epochs(5), duration=2260), "passed", id="not quite"),
        pytest.param(run(epochs(20, count=3)), "passed", id="two gaps are too few"),
        pytest.param(run(epochs(20, count=4)), "fired", id="three gaps"),
        pytest.param(run(epochs(5, told="evaluate")), "passed", id="told as evaluation"),
        pytest.param(run(epochs(5, told="checkpoint")), "passed", id="told as checkpoint"),
        pytest.param(run(epochs(5, gpu=0.0)), "fired", id="the GPU idles"),
        pytest.param(run(epochs(5, gpu=60.0)), "passed", id="the GPU works"),
        pytest.param(run(epochs(5), duration=290), "fired", id="a short run"),
        pytest.param(run(epochs(20, count=3), duration=400), "fired", id="two of a tenth"),
        pytest.param(run(epochs(20, count=3), duration=401), "passed", id="two, not quite"),
        pytest.param(run(epochs(3, count=2), duration=30), "passed", id="less than five seconds"),
        pytest.param(run(f.node()), "insufficient_data", id="no steps"),
        pytest.param(f.run(), "insufficient_data", id="nothing at all"),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_a_hang_is_no_gap_between_epochs() -> None:
    """Fifteen minutes without a step and without any work, in which five pauses of 5 s are few."""
    tables = [f.steps(90, start=at) for at in (0, 95, 190, 285, 1285, 1380)]
    busy = np.zeros(1475)
    for table in tables:
        begin = round(float(table["start_seconds"].min()))
        busy[begin : begin + 90] = 90.0
    series = f.samples(1475, gpu0__busy_pct=busy, tree__cpu_seconds_total=np.cumsum(busy / 90))
    node = f.node("n1", series, tables, of=f.hardware(gpus=1))
    frame = run(node, duration=1475)
    assert judged("hung", frame).verdict.state == "fired"
    judgement = judged(RULE, frame)
    assert judgement.verdict.state == "passed"
    assert judgement.numbers.values["gap_seconds"] < 60


def test_time_from_which_nothing_has_arrived_is_no_gap() -> None:
    """Steps of such a time are missing with its samples, as while a segment is on its way."""
    busy, tables = np.full(400, 50.0), [f.steps(100), f.steps(200, start=200.0)]
    busy[100:200] = np.nan
    missing, seen = (
        f.node("n1", f.samples(len(busy), host__cpu_busy_pct=values), tables)
        for values in (busy, np.nan_to_num(busy))
    )
    assert judged(RULE, run(missing, duration=400)).verdict.state == "passed"
    assert judged(RULE, run(seen, duration=400)).verdict.state == "fired"


@pytest.mark.parametrize(
    ("busy", "state"),
    [
        pytest.param(lambda at: 90.0, "passed", id="no sample lies in a gap: unknown"),
        pytest.param(lambda at: 0.0 if at in (100, 300) else 90.0, "fired", id="like the others"),
        pytest.param(lambda at: 0.0 if at == 100 else 90.0, "passed", id="like most of them"),
    ],
)
def test_a_gap_without_a_sample_is_judged_like_the_others(
    busy: Callable[[int], float], state: str
) -> None:
    """Pauses of 6 s, on samples of 5 s: one sample lies within the pauses at 100, 200 and 300."""
    starts = [0.0, 106.0, 153.0, 206.0, 253.0, 306.0, 353.0]
    ends = [100.0, 147.0, 200.0, 247.0, 300.0, 347.0, 400.0]
    pairs = zip(starts, ends, strict=True)
    steps = [f.steps(round(end - start), start=start) for start, end in pairs]
    values = np.array([busy(at) for at in range(0, 400, 5)])
    node = f.node(
        series=f.samples(400, resolution=5.0, gpu0__busy_pct=values),
        step_tables=steps,
        of=f.hardware(gpus=1),
    )
    frame = f.run(node, duration=400, resolution=5.0)
    assert judged(RULE, frame).verdict.state == state


def test_the_waste_is_part_of_the_gaps_and_the_windows_are_the_gaps() -> None:
    judgement = judged(RULE, run(epochs(5)))
    assert judgement.verdict.claimed_seconds_low == pytest.approx(0.6 * 45)
    assert judgement.verdict.claimed_seconds_high == pytest.approx(0.9 * 45)
    assert len(judgement.numbers.windows) == 9


def test_steps_of_another_rank_do_not_fill_the_gaps() -> None:
    both = epochs(5)
    other = f.steps(900, rank=1)
    node = f.node(step_tables=[both.steps, other])
    assert judged(RULE, run(node)).verdict.state == "fired"


def set_up(world: World, factor: float) -> None:
    """Spend 2 % of the run between epochs; a near miss may be longer, but recorded as
    evaluation.
    """
    world.step_seconds = world.random.uniform(0.4, 0.8)
    is_recorded = factor < 1 and world.random.random() < 0.4
    share = 0.04 if is_recorded else 0.02 * factor
    each = share * world.seconds / (world.epochs - 1)
    world.pauses.append(
        Pause("evaluate" if is_recorded else "gap", each, gpu_pct=1.0, is_told=is_recorded)
    )


SCENARIO = Scenario(RULE, set_up, (*confounders.ON_GPU, *confounders.DATA, *confounders.ANYWHERE))
