"""The stages of a script: what ran before and after training is neither start-up nor idle tail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from advisor.figures import figures
from rules.frame import NodeFrame
from rules.ledger import ledger
from rules.rule import Window
from rules.stages import ScriptStage, other_stages, stages_of, start_up
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.test_ledger import Events, check_sums

END = 1000.0
GRIDS = (0.5, 1.0, 2.0, 5.0, 10.0)
PARTS = (("prepare.py", 3, 403), ("train.py", 403, 703), ("evaluate.py", 703, 998))


def told(name: str, start: float, end: float | None, number: int, late: float = 1.0) -> Events:
    """Return the events as the agent sends them: when a stage is a second old, and some time after
    its end.
    """
    of = {"number": number, "name": name}
    events: Events = [(start + late, "stage_begin", of | {"seconds": late})]
    if end is not None:
        lasted = {"seconds": end - start, "ago_seconds": late}
        events.append((end + late, "stage_end", of | lasted))
    return events


def script(*parts: tuple[str, float, float | None], late: float = 1.0) -> Events:
    return [e for number, part in enumerate(parts, 1) for e in told(*part, number, late)]


def pipeline(resolution: float = 1.0, late: float = 1.0, gpus: int = 1) -> NodeFrame:
    """Return 400 s of preparation on the CPU, 300 s of training on the GPU, and 300 s of evaluation
    on the CPU; the first step comes 20 s after the training has begun.
    """
    ticks = np.arange(round(END / resolution)) * resolution
    trains = (ticks >= 423) & (ticks < 703)
    series: dict[str, Any] = {"host__cpu_busy_pct": np.where(trains, 20.0, 90.0)}
    if gpus:
        series["gpu0__busy_pct"] = np.where(trains, 90.0, 0.0)
    steps = f.steps(280, start=423)
    table = f.samples(END, resolution, **series)
    return f.node("n1", table, [steps], script(*PARTS, late=late), of=f.hardware(gpus=gpus))


def test_the_stages_are_read_in_order_and_one_that_runs_lasts_until_now() -> None:
    node = f.node(events=script(("b.py", 50, None), ("a.py", 2, 40)))
    assert stages_of(node, 80.0) == [
        ScriptStage("a.py", Window(2, 40)),
        ScriptStage("b.py", Window(50, 80)),
    ]


@pytest.mark.parametrize("late", [0.0, 1.0, 7.0])
def test_start_up_is_the_training_stages_own(late: float) -> None:
    node = pipeline(late=late)
    assert start_up(node, 423.0) == [Window(0, 3), Window(403, 423)]
    assert other_stages(node, 423.0, END) == [Window(3, 403), Window(703, 998)]


@pytest.mark.parametrize("resolution", GRIDS)
@pytest.mark.parametrize("gpus", [0, 1])
def test_the_ledger_calls_no_other_stage_start_up_or_idle_tail(
    resolution: float, gpus: int
) -> None:
    frame = f.run(pipeline(resolution, gpus=gpus), duration=END, resolution=resolution)
    found = ledger(frame)
    check_sums(frame, found)
    seconds = found.node_seconds()
    assert seconds.get("initialise", 0.0) == pytest.approx(23, abs=1)
    assert seconds.get("idle_tail", 0.0) <= 3


@pytest.mark.parametrize("resolution", GRIDS)
@pytest.mark.parametrize("rule", ["max_initialization_time", "startup_breakdown"])
def test_no_rule_about_start_up_counts_the_stages_before(rule: str, resolution: float) -> None:
    strict = {"threshold_seconds": 100} if rule.startswith("max") else {"long_seconds": 100}
    frame = f.run(pipeline(resolution), duration=END, resolution=resolution)
    assert judged(rule, frame, strict).verdict.state == "passed"
    alone = f.node(
        "n1", frame.nodes["n1"].samples, [f.steps(280, start=423)], of=f.hardware(gpus=1)
    )
    without = f.run(alone, duration=END, resolution=resolution)
    assert judged(rule, without, strict).verdict.state == "fired"


def test_the_phases_of_a_run_name_its_stages_and_add_up() -> None:
    phases = figures(f.run(pipeline(), duration=END)).phase_seconds
    assert phases == pytest.approx(
        {"initialise": 23, "train": 280, "finalise": 2, "prepare.py": 400, "evaluate.py": 295}
    )


def test_stages_side_by_side_and_of_one_name_count_no_second_twice() -> None:
    parts = script(
        ("get.py", 0, 100), ("get.py", 50, 200), ("train", 200, 900), ("train", 900, 990)
    )
    node = f.node(step_tables=[f.steps(600, start=250)], events=parts)
    phases = figures(f.run(node, duration=END)).phase_seconds
    assert sum(phases.values()) == pytest.approx(END)
    assert (phases["get.py"], phases["train"], phases["train (stage)"]) == (200, 600, 90)


def test_a_script_without_steps_has_its_stages_and_one_of_one_command_has_none() -> None:
    two = f.node(events=script(("a.py", 0, 300), ("b.py", 300, None)))
    assert figures(f.run(two, duration=END)).phase_seconds == {"a.py": 300, "b.py": 700}
    one = f.node(events=script(("a.py", 5, 900)), step_tables=[f.steps(500, start=100)])
    phases = figures(f.run(one, duration=END)).phase_seconds
    assert phases == {"initialise": 100, "train": 500, "finalise": 400}
