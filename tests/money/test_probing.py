"""Throughput and its interval, and the same warm-up as the agent's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trimtab import throughput

from advisor.probing.bootstrap import Rate, rate
from advisor.probing.evidence import arguments, contradiction, varying_arguments
from advisor.probing.warm_up import warmup_steps

seconds = st.lists(st.floats(0.001, 10), min_size=10, max_size=120)


def _rate(steps: list[float]) -> Rate:
    return rate(np.ones(len(steps)), np.array(steps))


@given(st.floats(0.001, 10), st.integers(10, 300))
def test_equal_steps_have_no_spread(each: float, count: int) -> None:
    found = _rate([each] * count)
    assert found.low == pytest.approx(1 / each) == found.high
    assert found.rel_sd == pytest.approx(0, abs=1e-9)


@given(seconds, st.floats(0.01, 100))
def test_the_unit_of_time_changes_nothing_else(steps: list[float], factor: float) -> None:
    found, scaled = _rate(steps), _rate([s * factor for s in steps])
    assert found.low <= found.value <= found.high
    assert found.value == pytest.approx(len(steps) / sum(steps))
    assert scaled.low * factor == pytest.approx(found.low)
    assert scaled.high * factor == pytest.approx(found.high)
    assert scaled.rel_sd == pytest.approx(found.rel_sd)


def test_slow_steps_in_a_row_widen_the_interval_more_than_single_ones() -> None:
    apart = [5.0 if at % 10 == 0 else 1.0 for at in range(200)]
    together = [5.0 if at < 20 else 1.0 for at in range(200)]
    assert _rate(together).rel_sd > 2 * _rate(apart).rel_sd


@given(seconds, st.integers(15, 60))
def test_warm_up_ends_where_the_agent_ends_it(steps: list[float], most: int) -> None:
    told = throughput.warmup_steps(steps, most)
    if told is not None:
        assert warmup_steps(np.array(steps), most) == told


def test_what_starts_the_training_is_no_argument_of_it() -> None:
    one = arguments(["torchrun", "--nproc-per-node", "4", "train.py", "--lr=1", "-v"], "train.py")
    assert one == arguments(["python", "train.py", "--lr", "1", "-v"], "train.py")
    assert varying_arguments([one, {**one, "--out": "x"}]) == {"--out"}


def test_overlapping_intervals_contradict_nothing() -> None:
    assert contradiction(Rate(0.9, 1.0, 1.1, 0.1), 1.05, 2.0) == ""
    assert contradiction(Rate(0.9, 1.0, 1.02, 0.1), 1.05, 2.0).startswith("slower than predicted")
