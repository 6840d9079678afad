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
    """Return a run that logs each metric as a function of the done share of the run."""
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
        pytest.param(
            logs(val_loss=down_until(0.5), count=5), "insufficient_data", id="too few values since"
        ),
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
    assert verdict.claimed_seconds_high == pytest.approx(0.9 * 2000, rel=0.03)


def tuned_on(random: np.random.Generator, flat_from: float, count: int) -> np.ndarray:
    """Draw a logarithm, power law, exponential approach or line; from 0 up to 1."""
    done = np.minimum(np.linspace(0, 1, count), flat_from)
    steps = 1 + done * random.choice([200.0, 1000.0, 5000.0])
    shapes = (
        np.log(steps),
        -(steps ** -random.uniform(0.1, 0.5)),
        -np.exp(-done * random.uniform(1, 4)),
        done,
    )
    shape = shapes[random.integers(len(shapes))]
    return (shape - shape[0]) / (shape[-1] - shape[0])


def tuned_noise(random: np.random.Generator, count: int) -> np.ndarray:
    """Draw noise: Gaussian, Laplace, Student's t with three degrees of freedom, or
    autocorrelated.
    """
    kind = random.integers(4)
    if kind == 0:
        return random.normal(0, 1, count)
    if kind == 1:
        return random.laplace(0, 0.7, count)
    if kind == 2:
        return random.standard_t(3, count) / 1.7
    memory, steps = random.uniform(0.3, 0.7), random.normal(0, 1, count)
    for at in range(1, count):
        steps[at] = memory * steps[at - 1] + np.sqrt(1 - memory**2) * steps[at]
    return steps


def held_out(random: np.random.Generator, flat_from: float, count: int) -> np.ndarray:
    """Draw another shape: a stretched exponential, an S, a root, a bend, a sum of two paces."""
    done = np.minimum(np.linspace(0, 1, count), flat_from) / flat_from
    pace = random.uniform(0.5, 2.0)
    shapes = (
        1 - np.exp(-((2 * done) ** random.uniform(0.6, 1.2))),
        1 / (1 + np.exp(-6 * (done - random.uniform(0.3, 0.6)))),
        done ** random.uniform(0.3, 0.8),
        np.where(done < 0.3, 2 * done, 0.6 + pace * 0.4 * (done - 0.3)),
        0.6 * (1 - 1 / (1 + 20 * done)) + 0.4 * done,
    )
    shape = shapes[random.integers(len(shapes))]
    return (shape - shape[0]) / (shape[-1] - shape[0])


def held_out_noise(random: np.random.Generator, count: int) -> np.ndarray:
    """Draw noise: a moving average, uniform, one wild value in twenty, or louder at the start."""
    kind = random.integers(4)
    if kind == 0:
        return np.convolve(random.normal(0, 1, count + 3), np.ones(4) / 2, "valid")
    if kind == 1:
        return random.uniform(-1.7, 1.7, count)
    if kind == 2:
        wild = random.random(count) < 0.05
        return random.normal(0, 1, count) + wild * random.normal(0, 10, count)
    return random.normal(0, 1, count) * np.linspace(2.0, 0.7, count)


Shape = Callable[[np.random.Generator, float, int], np.ndarray]
Noise = Callable[[np.random.Generator, int], np.ndarray]
GENERATORS = pytest.mark.parametrize(
    ("shape", "noise", "seed"),
    [
        pytest.param(tuned_on, tuned_noise, 1, id="tuned on", marks=pytest.mark.long),
        pytest.param(held_out, held_out_noise, 2, id="held out"),
    ],
)
NAMES = {"val_loss": -1.0, "train/loss": -3.0, "eval_reward": 40.0, "accuracy": 0.7}


def noisy_run(
    random: np.random.Generator, shape: Shape, noise: Noise, flat_from: float, loudest: float
) -> RunFrame:
    """Return a metric with noise of 1 % to `loudest` of its range."""
    count = int(random.choice([60, 120, 300, 1500]))
    name = str(random.choice(list(NAMES)))
    loud = random.uniform(0.01, loudest) * noise(random, count)
    drift = -random.uniform(0, 0.2) * np.maximum(np.linspace(0, 1, count) - flat_from, 0)
    values = NAMES[name] * (shape(random, flat_from, count) + drift + loud - 1)
    events = [
        (4000.0 * at / (count - 1), "metric", {"name": name, "value": float(value), "rank": 0})
        for at, value in enumerate(values)
    ]
    return f.run(f.node(events=events), duration=4000)


@GENERATORS
def test_a_noisy_metric_that_improves_to_the_end_never_fires(
    shape: Shape, noise: Noise, seed: int
) -> None:
    random = np.random.default_rng(seed)
    runs = [noisy_run(random, shape, noise, 1.0, 0.15) for _ in range(120)]
    assert sum(judged(RULE, run).verdict.state == "fired" for run in runs) == 0


@GENERATORS
def test_a_noisy_plateau_of_six_tenths_of_the_run_is_found(
    shape: Shape, noise: Noise, seed: int
) -> None:
    random = np.random.default_rng(seed)
    runs = [noisy_run(random, shape, noise, 0.4, 0.05) for _ in range(60)]
    verdicts = [judged(RULE, run).verdict for run in runs]
    assert sum(verdict.state == "fired" for verdict in verdicts) >= 54
    late = [v.claimed_seconds_high for v in verdicts if v.claimed_seconds_high > 0.9 * 0.7 * 4000]
    assert len(late) <= 3


def test_what_repeats_in_every_epoch_is_no_progress_and_no_plateau() -> None:
    """The loss falls within each epoch and jumps up at its end."""

    def saws(flat_from: float) -> RunFrame:
        events: list[tuple[float, str, dict[str, object]]] = []
        for at in np.linspace(0, 4000, 400, endpoint=False):
            done, part = min(at / 4000, flat_from), at / 400 % 1
            value = 2 - done - 0.5 * part
            events.append((float(at), "metric", {"name": "loss", "value": value, "rank": 0}))
        events += [(400.0 * n, "epoch", {"number": n, "rank": 0}) for n in range(1, 11)]
        return f.run(f.node(events=sorted(events, key=lambda e: e[0])), duration=4000)

    assert judged(RULE, saws(1.0)).verdict.state == "passed"
    assert judged(RULE, saws(0.4)).verdict.state == "fired"


def test_the_metric_is_named() -> None:
    verdict = judged(RULE, logs(lr=falls, val_loss=down_until(0.5))).verdict
    assert "val_loss has not decreased for the last" in verdict.summary
    assert "val_loss" in verdict.advice


def set_up(world: World, factor: float) -> None:
    """Let the metric get no better for 20 % of the run, with at least five values."""
    until = 1 - 0.2 * factor

    def change(node: Node) -> None:
        for done in np.linspace(0.02, 0.999, 60):
            left = max(1 - done / until, 0.0)
            value = 0.4 + 1.6 * left + abs(float(world.random.normal(0, 0.003)))
            data = {"name": "val_loss", "value": value, "step": int(1000 * done), "rank": 0}
            node.events.append((float(done) * world.seconds, "metric", data))

    world.changes.append(change)


SCENARIO = Scenario(RULE, set_up, (*confounders.ON_GPU, *confounders.DATA, *confounders.ANYWHERE))
