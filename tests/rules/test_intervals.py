"""Intervals where a condition holds: a flicker is bridged, a gap is unknown."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.intervals import intervals_where, total_seconds
from rules.rule import Window

FLAGS = st.lists(st.sampled_from([True, False, None]), max_size=60)


def flags(*values: bool | None, resolution: float = 1.0) -> pd.Series[bool]:
    """Return the flags by their time; None is unknown: not there."""
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
def test_it_finds_the_intervals(
    values: list[bool | None], arguments: dict[str, float], expected: list[tuple[float, float]]
) -> None:
    intervals = intervals_where(flags(*values), 1.0, **arguments)
    assert intervals == [Window(start, end) for start, end in expected]


@given(values=FLAGS, resolution=st.sampled_from([0.5, 1.0, 10.0]))
def test_its_intervals_hold_the_true_samples_and_no_others(
    values: list[bool | None], resolution: float
) -> None:
    known = flags(*values, resolution=resolution)
    intervals = intervals_where(known, resolution)
    inside = [any(w.start_seconds <= at < w.end_seconds for w in intervals) for at in known.index]
    assert inside == known.tolist()
    assert total_seconds(intervals) == pytest.approx(resolution * int(known.sum()))
