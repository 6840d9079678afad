"""Work leaves out the steps that were done again."""

from __future__ import annotations

import pytest

from advisor.figures import Figures, figures
from rules.frame import NodeFrame
from rules.lost_steps import run_steps
from tests.rules import frames as f
from tests.rules.restarted import Events, gpu_node, process, restore, told


def measured(*nodes: NodeFrame) -> Figures:
    frame = f.run(*nodes, duration=1000)
    return figures(frame, steps=run_steps(frame))


def metric(*pairs: tuple[float, float]) -> Events:
    return [(at, "metric", {"name": "accuracy", "value": value}) for at, value in pairs]


def epochs(*pairs: tuple[float, int]) -> Events:
    return [(at, "epoch", {"rank": 0, "number": number}) for at, number in pairs]


def restarted(*more: tuple[float, str, dict], step: int | None = 80) -> NodeFrame:
    """Return a hundred steps of 32 samples, then 150 from the 81st."""
    tables = f.steps(100).assign(samples=32.0), f.steps(150, start=120).assign(samples=32.0)
    said = [process(0), process(110, restarts=1), *restore(118, 5, step), *more]
    return gpu_node(*tables, events=said)


def test_lost_steps_are_no_work() -> None:
    assert measured(restarted()).work == {"samples": 230 * 32, "steps": 230}


def test_steps_of_unknown_number_stay_work() -> None:
    assert measured(restarted(step=None)).work == {"samples": 250 * 32, "steps": 250}
    fine_tuned = gpu_node(f.steps(100, start=10), events=restore(8, 5))
    assert measured(fine_tuned).work["steps"] == 100


def test_an_attempt_on_another_machine_adds_its_steps() -> None:
    first = gpu_node(f.steps(100), key="n1", held=(0, 100), events=told((1, 1)))
    second = gpu_node(f.steps(500, start=400), key="n2", held=(300, 900), events=told((401, 51)))
    assert measured(first, second).work["steps"] == 550


def test_two_models_of_one_script_are_the_work_of_both() -> None:
    said = [process(0), process(300), *told((101, 1), (351, 1))]
    node = gpu_node(f.steps(100, start=100), f.steps(200, start=350), events=said)
    other = gpu_node(f.steps(100, start=100), f.steps(200, start=350), events=said, key="n2")
    assert measured(node).work["steps"] == 300
    assert measured(node, other).work["steps"] == 300


def test_steps_by_the_second_are_lost_in_part() -> None:
    first = f.steps(10, duration=0.01).assign(count=100.0, samples=3200.0)
    first["start_seconds"] = [float(n) for n in range(10)]
    again = f.steps(10, duration=0.01).assign(count=100.0, samples=3200.0)
    again["start_seconds"] = [20.0 + n for n in range(10)]
    said = [process(0), process(15, restarts=1), *restore(19, 1, 750)]
    work = measured(gpu_node(first, again, events=said)).work
    assert work["steps"] == 1750
    assert work["samples"] == pytest.approx(1750 * 32)


def test_an_epoch_that_was_begun_again_counts_once() -> None:
    node = restarted(*epochs((0, 0), (50, 1), (80, 2), (119.999, 2), (200, 3)))
    assert measured(node).work["epochs"] == 4
    first = gpu_node(f.steps(100), key="n1", held=(0, 100), events=told((1, 1)) + epochs((80, 2)))
    second = gpu_node(f.steps(9, start=400), key="n2", held=(300, 900), events=told((401, 81)))
    assert "epochs" not in measured(first, second).work, "the run that goes on counts it"


def test_a_value_that_was_lost_is_reached_when_the_training_comes_there_again() -> None:
    """The value after the last step that counts is kept, that after the first lost one isn't."""
    node = restarted(*metric((80.0005, 0.5), (81.0005, 0.6), (105, 0.7), (150, 0.65)))
    assert measured(node).metric_progress == {"accuracy": [[80.0005, 0.5], [150, 0.65]]}
