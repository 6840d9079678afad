"""Slowdown against the training's own best pace."""

from __future__ import annotations

import numpy as np
import pytest

from rules.rule import Window
from rules.slowdown import MOST_BLOCKS, blocks_of, slowdown_share
from tests.rules import frames as f


def test_a_second_half_twice_as_slow() -> None:
    node = f.node("n1", None, [f.steps(301), f.steps(300, duration=2, start=301)])
    blocks = blocks_of(f.run(node), {})
    assert slowdown_share(blocks) == pytest.approx(1 / 3, abs=0.01), "300 of 900 s"


def test_noise_is_no_slowdown() -> None:
    steps = f.steps(2000).assign(
        duration_seconds=1 + 0.05 * np.random.default_rng(1).standard_normal(2000)
    )
    assert slowdown_share(blocks_of(f.run(f.node("n1", None, [steps])), {})) == pytest.approx(0)


def test_waits_for_data_and_lost_steps_are_not_counted() -> None:
    waiting = f.steps(200, duration=2, wait=0.5, start=300)
    node = f.node("n1", None, [f.steps(300), waiting, f.steps(100, duration=3, start=700)])
    lost = {"n1": [Window(700, 1000)]}
    assert slowdown_share(blocks_of(f.run(node), lost)) == pytest.approx(0)


def test_two_nodes_that_make_the_same_steps_count_once() -> None:
    nodes = [f.node(key, None, [f.steps(300)]) for key in ("n1", "n2")]
    assert sum(block.steps for block in blocks_of(f.run(*nodes), {})) == 299


def test_few_steps_tell_nothing_and_many_make_few_blocks() -> None:
    assert slowdown_share(blocks_of(f.run(f.node("n1", None, [f.steps(50)])), {})) is None
    many = f.node("n1", None, [f.steps(50_000, duration=0.01)])
    assert len(blocks_of(f.run(many), {})) <= MOST_BLOCKS
