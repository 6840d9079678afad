"""`no_progress`: training beyond the best model, by the most suitable metric."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rules.frame import RunFrame
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import Node, World

RULE = "no_progress"
Curve = Callable[[float], float]


def logs(seconds: float = 4000, count: int = 41, **curves: Curve) -> RunFrame:
    """Each metric as a function of the done share of the run."""
    events = [
        (share * seconds, "metric", {"name": name, "value": curve(share), "rank": 0})
        for name, curve in curves.items()
        for share in np.linspace(0, 1, count).tolist()
    ]
    node = f.node(events=sorted(events, key=lambda event: event[0]))
    return f.run(node, duration=seconds)


def down_until(share: float) -> Curve:
    return lambda done: 1 + max(1 - done / share, 0.0)


def up_until(share: float) -> Curve:
    return lambda done: min(done / share, 1.0)


def falls(done: float) -> float:
    return 2 - done


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(logs(val_loss=down_until(0.5)), "fired", id="half of the run"),
        pytest.param(logs(val_loss=down_until(0.8)), "fired", id="a fifth"),
        pytest.param(logs(val_loss=down_until(0.85)), "passed", id="less than a fifth"),
        pytest.param(logs(val_accuracy=up_until(0.5)), "fired", id="more is better"),
        pytest.param(logs(val_accuracy=falls), "fired", id="it only got worse"),
        pytest.param(logs(val_loss=falls), "passed", id="still getting better"),
        pytest.param(logs(loss=falls, val_loss=down_until(0.5)), "fired", id="overfits"),
        pytest.param(logs(loss=down_until(0.5), val_acc=up_until(1.0)), "passed", id="it learns"),
        pytest.param(logs(val_loss=down_until(0.5), count=5), "passed", id="too few values since"),
        pytest.param(logs(seconds=599, val_loss=down_until(0.5)), "insufficient_data", id="short"),
        pytest.param(logs(learning_rate=falls), "insufficient_data", id="says neither"),
        pytest.param(logs(glossary=falls, macro=falls), "insufficient_data", id="within words"),
        pytest.param(f.run(f.node()), "insufficient_data", id="nothing logged"),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_noise_on_a_plateau_is_no_progress() -> None:
    random = np.random.default_rng(4)

    def noisy(done: float) -> float:
        return down_until(0.5)(done) + float(random.normal(0, 0.002))

    assert judged(RULE, logs(val_loss=noisy)).verdict.state == "fired"


def test_values_that_are_no_numbers_are_left_out() -> None:
    def breaks(done: float) -> float:
        return float("nan") if done > 0.9 else down_until(0.5)(done)

    verdict = judged(RULE, logs(val_loss=breaks)).verdict
    assert verdict.state == "fired"
    assert verdict.waste_seconds_high == pytest.approx(0.9 * 2000, rel=0.03)


def set_up(world: World, factor: float) -> None:
    """No better for 20 % of the run, with at least five values."""
    until = 1 - 0.2 * factor

    def change(node: Node) -> None:
        for done in np.linspace(0.02, 0.999, 60):
            left = max(1 - done / until, 0.0)
            value = 0.4 + 1.6 * left + abs(float(world.random.normal(0, 0.003)))
            data = {"name": "val_loss", "value": value, "step": int(1000 * done), "rank": 0}
            node.events.append((float(done) * world.seconds, "metric", data))

    world.changes.append(change)


SCENARIO = Scenario(RULE, set_up, (*confounders.ON_GPU, *confounders.DATA))
