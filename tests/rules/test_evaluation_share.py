"""`evaluation_share`: the share of the loop in evaluation."""

from __future__ import annotations

from typing import Any

import pytest

from rules.frame import NodeFrame, RunFrame
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import Pause, World

RULE = "evaluation_share"


def evaluates(seconds: float, count: int = 5, by: str = "phase") -> NodeFrame:
    """Return five times training that fills up to 200 s, and an evaluation."""
    tables, events = [], []
    for number in range(count):
        start = 200.0 * number
        tables.append(f.steps(1, duration=200 - seconds, start=start))
        begin = start + 200 - seconds
        data: dict[str, Any] = {"phase": "evaluate", "rank": 0}
        if by == "phase":
            events += [(begin, "phase_begin", data), (begin + seconds, "phase_end", data)]
        else:
            tables.append(f.steps(1, duration=seconds, start=begin, phase="evaluate"))
    return f.node(step_tables=tables, events=events)


def run(node: NodeFrame) -> RunFrame:
    return f.run(node, duration=1000)


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(run(evaluates(60)), "fired", id="30 %"),
        pytest.param(run(evaluates(40)), "fired", id="at the boundary"),
        pytest.param(run(evaluates(39.9)), "passed", id="just below"),
        pytest.param(run(evaluates(60, by="steps")), "fired", id="told by its steps"),
        pytest.param(run(evaluates(60, count=1)), "fired", id="a single one"),
        pytest.param(run(f.node(step_tables=[f.steps(900)])), "passed", id="none"),
        pytest.param(run(f.node()), "insufficient_data", id="no steps"),
        pytest.param(f.run(), "insufficient_data", id="nothing at all"),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_the_waste_is_what_is_above_a_tenth() -> None:
    verdict = judged(RULE, run(evaluates(60))).verdict
    assert (verdict.claimed_seconds_low, verdict.claimed_seconds_high) == pytest.approx((100, 200))


def test_two_ranks_that_evaluate_at_once_count_once() -> None:
    one = evaluates(39)
    both = [*one.events.itertuples(index=False, name=None)]
    both += [(at, kind, {**data, "rank": 1}) for at, kind, data in both]
    node = f.node(step_tables=[one.steps], events=both)
    assert judged(RULE, run(node)).verdict.state == "passed"


def set_up(world: World, factor: float) -> None:
    """Spend 20 % of the loop in evaluation."""
    loop = world.seconds - world.begin_seconds - world.tail_seconds
    world.pauses.append(Pause("evaluate", 0.2 * factor * loop / world.epochs, gpu_pct=60.0))


SCENARIO = Scenario(
    RULE,
    set_up,
    (
        *confounders.SIMPLE,
        confounders.saves,
        *confounders.GPUS,
        *confounders.DATA,
        *confounders.ANYWHERE,
    ),
)
