"""`load_balancing`: one GPU works and another idles; and the pairs that only look apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rules.frame import NodeFrame, RunFrame
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import Floats, Node, World

RULE = "load_balancing"
RANDOM = np.random.default_rng(11)
COUNT = 1200


def gpus(*busy: f.Values, key: str = "n1") -> NodeFrame:
    series: dict[str, Any] = {f"gpu{n}__busy_pct": values for n, values in enumerate(busy)}
    table = [f.steps(COUNT)]
    return f.node(key, f.samples(COUNT, **series), table, of=f.hardware(gpus=len(busy)))


def around(mean: float, deviation: float = 4.0) -> f.Values:
    return np.clip(RANDOM.normal(mean, deviation, COUNT), 0, 100)


def idle_part(share: float) -> f.Values:
    return np.where(RANDOM.random(COUNT) < share, around(5), around(90))


GAPS = np.where(np.arange(COUNT) % 3 == 0, f.GAP, 40.0)


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(f.run(gpus(around(90), around(40)), duration=COUNT), "fired", id="uneven"),
        pytest.param(f.run(gpus(around(90), around(90)), duration=COUNT), "passed", id="even"),
        pytest.param(
            f.run(gpus(around(90), idle_part(0.3)), duration=COUNT), "fired", id="idles at times"
        ),
        pytest.param(
            f.run(gpus(around(97, 0.5), around(95, 0.5)), duration=COUNT),
            "passed",
            id="far apart as histograms, two points as means",
        ),
        pytest.param(f.run(gpus(100.0, 100.0), duration=COUNT), "passed", id="both above 98 %"),
        pytest.param(f.run(gpus(100.0, 50.0), duration=COUNT), "fired", id="one above 98 %"),
        pytest.param(
            f.run(gpus(around(90), around(89), 0.0), duration=COUNT), "passed", id="unused third"
        ),
        pytest.param(f.run(gpus(around(90), 0.0), duration=COUNT), "not_applicable", id="one used"),
        pytest.param(f.run(gpus(0.0, 0.0), duration=COUNT), "not_applicable", id="none used"),
        pytest.param(f.run(gpus(around(90)), duration=COUNT), "not_applicable", id="one GPU"),
        pytest.param(f.run(f.node()), "not_applicable", id="no GPU"),
        pytest.param(
            f.run(gpus(around(90), f.GAP), duration=COUNT), "insufficient_data", id="one unknown"
        ),
        pytest.param(f.run(gpus(around(90), GAPS), duration=COUNT), "fired", id="gaps"),
        pytest.param(
            f.run(gpus(around(90)), gpus(around(50), key="n2"), duration=COUNT),
            "fired",
            id="two nodes of one GPU",
        ),
        pytest.param(
            f.run(gpus(around(90), around(40)), duration=2e4), "fired", id="1200 s of a long run"
        ),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_the_waste_is_what_the_busiest_does_above_the_mean() -> None:
    verdict = judged(RULE, f.run(gpus(100.0, 50.0), duration=COUNT)).verdict
    assert (verdict.claimed_seconds_low, verdict.claimed_seconds_high) == (150, 300)


def test_few_samples_of_one_distribution_are_not_apart() -> None:
    few = RANDOM.normal(70, 12, (2, 60))
    series = f.samples(60, gpu0__busy_pct=few[0], gpu1__busy_pct=few[1])
    node = f.node(series=series, of=f.hardware(gpus=2))
    values = judged(RULE, f.run(node, duration=60)).numbers.values
    assert (values["distance"] or 0.0) < 0.2


def test_it_answers_to_the_name_of_sagemaker() -> None:
    frame = f.run(gpus(around(90), around(40)), duration=COUNT)
    assert judged(RULE, frame, {"threshold": 0.83}).verdict.state == "passed"


def set_up(world: World, factor: float) -> None:
    """Set a distance of 0.2: one GPU idles for a part of the time."""
    idle = _share_for_distance(0.2 * factor)

    def change(node: Node) -> None:
        if node.key == "n1":
            idles = node.working & (world.random.random(len(node.times)) < idle)
            low = np.clip(12 + world.noise(int(idles.sum()), 2), 0, 100)
            node.series["gpu1.busy_pct"][idles] = low

    world.changes.append(change)


def _share_for_distance(wanted: float) -> float:
    """Return how much of the time one of two alike GPUs must be elsewhere, to be that far apart."""

    def distance(share: Floats) -> Floats:
        rest = 1 - share
        first = -np.log(1 - share / 2)
        second = rest * np.log(rest / (1 - share / 2)) + share * np.log(2)
        return np.asarray(np.sqrt((first + second) / 2))

    shares = np.linspace(1e-4, 0.999, 5000)
    return float(np.interp(wanted, distance(shares), shares))


SCENARIO = Scenario(RULE, set_up, (*confounders.ON_GPU, *confounders.DATA, *confounders.ANYWHERE))
