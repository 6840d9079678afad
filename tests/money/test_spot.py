"""Runs that are interrupted, against a simulation."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.sizing.spot import (
    Interruptions,
    best_interval_seconds,
    break_even_discount,
    expected_seconds,
)

HOUR = 3600.0


def simulated_seconds(work: float, interval: float, of: Interruptions, random: Random) -> float:
    """Simulate one run, event by event: when interrupted, it restarts at the last checkpoint."""
    now, done, next_loss = 0.0, 0.0, random.expovariate(1 / of.mean_seconds)
    while done < work:
        part = min(interval, work - done)
        end = now + part + of.checkpoint_seconds
        if end <= next_loss:
            now, done = end, done + part
            continue
        now = next_loss
        while True:
            next_loss = now + random.expovariate(1 / of.mean_seconds)
            if next_loss >= now + of.restart_seconds:
                now += of.restart_seconds
                break
            now = next_loss
    return now


@pytest.mark.parametrize("hours", [1, 5, 20, 200])
def test_the_expected_time_is_that_of_a_simulation(hours: float) -> None:
    of = Interruptions(hours * HOUR, checkpoint_seconds=60)
    interval, random = best_interval_seconds(of), Random(7)
    work = interval * round(1000 * hours * HOUR / interval)
    simulated = simulated_seconds(work, interval, of, random)
    assert expected_seconds(work, interval, of) == pytest.approx(simulated, rel=0.011)


@pytest.mark.parametrize(("hours", "discount"), [(5, 0.10), (20, 0.04), (200, 0.01)])
def test_spot_pays_from_a_discount_on(hours: float, discount: float) -> None:
    of = Interruptions(hours * HOUR, checkpoint_seconds=60)
    assert break_even_discount(100 * HOUR, of) == pytest.approx(discount, abs=0.01)


def test_without_checkpoints_a_long_run_hardly_ends() -> None:
    of = Interruptions(HOUR, checkpoint_seconds=0)
    assert expected_seconds(1000 * HOUR, 1000 * HOUR, of) == math.inf


@given(
    mean=st.floats(600, 1e7),
    checkpoint=st.floats(0.1, 600),
    factor=st.floats(0.2, 5),
    nodes=st.integers(1, 64),
)
def test_no_other_interval_is_much_better(
    mean: float, checkpoint: float, factor: float, nodes: int
) -> None:
    """Daly's formula is an approximation for checkpoints that are short beside the mean."""
    of = Interruptions.of_nodes(mean, nodes, checkpoint)
    if checkpoint > of.mean_seconds / 10 or of.mean_seconds < 60:
        return
    best = best_interval_seconds(of)
    work = 1000 * best * 5
    other = expected_seconds(work, best * factor, of)
    assert expected_seconds(work, best, of) <= other * 1.01
