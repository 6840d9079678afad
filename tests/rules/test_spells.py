"""Spells and hysteresis: a flicker is one spell, a gap is unknown."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.rule import Window
from rules.spells import held, inside, spells, total_seconds

FLAGS = st.lists(st.sampled_from([True, False, None]), max_size=60)


def flags(*values: bool | None, resolution: float = 1.0) -> pd.Series[bool]:
    """None is unknown: not there."""
    known = {i * resolution: v for i, v in enumerate(values) if v is not None}
    return pd.Series(known, dtype=bool).astype(bool)


T, F, GAP = True, False, None


@pytest.mark.parametrize(
    ("values", "arguments", "expected"),
    [
        pytest.param([T, T, F, T], {}, [(0, 2), (3, 4)], id="two"),
        pytest.param([T, T, F, T], {"bridge_seconds": 1}, [(0, 4)], id="bridged"),
        pytest.param([T, T, GAP, T], {}, [(0, 2), (3, 4)], id="a gap ends it"),
        pytest.param([T, T, GAP, T], {"bridge_seconds": 1}, [(0, 4)], id="a bridged gap"),
        pytest.param([T, T, F, T], {"at_least_seconds": 2}, [(0, 2)], id="long enough"),
        pytest.param([T, T, F, T], {"at_least_seconds": 2.1}, [], id="too short"),
        pytest.param([], {}, [], id="nothing"),
        pytest.param([F, F], {}, [], id="never"),
    ],
)
def test_it_finds_the_stretches(
    values: list[bool | None], arguments: dict[str, float], expected: list[tuple[float, float]]
) -> None:
    found = spells(flags(*values), 1.0, **arguments)
    assert found == [Window(start, end) for start, end in expected]


@given(values=FLAGS, resolution=st.sampled_from([0.5, 1.0, 10.0]))
def test_its_stretches_hold_the_true_samples_and_no_others(
    values: list[bool | None], resolution: float
) -> None:
    known = flags(*values, resolution=resolution)
    found = spells(known, resolution)
    times = known.index.to_numpy(dtype=float)
    assert inside(times, found).tolist() == known.tolist()
    assert total_seconds(found) == pytest.approx(resolution * int(known.sum()))


def test_a_value_between_the_two_thresholds_changes_nothing() -> None:
    values = pd.Series([50, 86, 80, 76, 74, 80, 85.0])
    assert held(values, 85, 75).tolist() == [F, T, T, T, F, F, T]
    assert held(100 - values, 15, 25).tolist() == [F, T, T, T, F, F, T]
    assert held(pd.Series(np.zeros(0)), 85, 75).tolist() == []
