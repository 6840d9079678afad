"""A run's phases have as much evaluation and as many checkpoints as its ledger."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.comparison.startup import growing_seconds
from advisor.figures import figures
from rules.frame import RunFrame
from rules.ledger import ledger
from tests.rules.scenarios.world import Pause, World

LABELS = {"evaluate": "evaluation", "checkpoint": "checkpoint"}


def pausing(
    *pauses: Pause, seconds: float = 600.0, nodes: int = 1, gpus: int = 1, seed: int = 1
) -> RunFrame:
    """Return a run that pauses after each of its three epochs, the last one included."""
    world = World(
        np.random.default_rng(seed),
        seconds=seconds,
        nodes=nodes,
        gpus=gpus,
        epochs=3,
        begin_seconds=30.0,
        tail_seconds=4.0,
        pauses=list(pauses),
    )
    return world.frame()


def phases_of(frame: RunFrame) -> dict[str, float]:
    return figures(frame, ledger=ledger(frame)).phase_seconds


@given(
    st.lists(
        st.builds(Pause, st.sampled_from(["evaluate", "checkpoint"]), st.floats(2, 50), st.just(5)),
        max_size=2,
        unique_by=lambda pause: pause.kind,
    ),
    st.integers(1, 3),
    st.integers(0, 2),
)
def test_phases_sum_to_the_run_and_agree_with_its_ledger(
    pauses: list[Pause], nodes: int, gpus: int
) -> None:
    frame = pausing(*pauses, nodes=nodes, gpus=gpus)
    phases, labels = phases_of(frame), ledger(frame).node_seconds()
    assert sum(phases.values()) == pytest.approx(frame.duration_seconds)
    assert all(seconds >= 0 for seconds in phases.values())
    for phase, label in LABELS.items():
        assert nodes * phases.get(phase, 0.0) == pytest.approx(labels.get(label, 0.0), abs=1e-6)


def test_the_last_evaluation_is_no_end_and_the_others_are_no_training() -> None:
    phases = phases_of(pausing(Pause("evaluate", 40.0, gpu_pct=60.0)))
    assert phases["evaluate"] == pytest.approx(120, rel=0.06)
    assert phases["finalise"] < 10
    assert phases["train"] == pytest.approx(600 - 30 - 4 - 120, abs=10)


def test_an_unused_gpu_makes_no_phase_shorter() -> None:
    world = World(
        np.random.default_rng(2),
        seconds=600.0,
        gpus=2,
        epochs=3,
        pauses=[Pause("evaluate", 40.0, gpu_pct=60.0)],
    )
    world.changes.append(lambda node: node.series["gpu1.busy_pct"].fill(0.0))
    assert phases_of(world.frame())["evaluate"] == pytest.approx(120, rel=0.06)


def test_evaluations_grow_with_the_work() -> None:
    frame = pausing(Pause("evaluate", 40.0, gpu_pct=60.0))
    phases = phases_of(frame)
    growing = growing_seconds(phases, frame.duration_seconds)
    assert growing == pytest.approx(phases["train"] + phases["evaluate"])
