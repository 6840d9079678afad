"""Percentiles and what is known of series."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from rules.evidence import known_part, known_together, percentile_of

VALUES = st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=80)
PERCENTS = st.sampled_from([0.0, 1.0, 5.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 100.0])


@given(VALUES, PERCENTS)
def test_a_percentile_is_that_of_numpy_to_the_last_bit(values: list[float], percent: float) -> None:
    array = np.array(values) + 0.0  # no negative zeros: which of equal values is taken is open
    assert percentile_of(array, percent) == float(np.percentile(array, percent))


def test_a_series_that_is_known_throughout_is_not_copied() -> None:
    series = pd.Series([1.0, 2.0], index=[0.0, 1.0])
    assert known_part(series) is series


def test_gaps_are_left_out_and_nothing_known_is_none() -> None:
    series = pd.Series([np.nan, 2.0, np.nan], index=[0.0, 1.0, 2.0])
    known = known_part(series)
    assert known is not None
    assert known.to_dict() == {1.0: 2.0}
    assert known_part(series.iloc[:1]) is None


def test_two_series_are_compared_where_both_are_known() -> None:
    first = pd.Series([1.0, 2.0, 3.0], index=[0.0, 1.0, 2.0])
    second = pd.Series([5.0, 6.0], index=[1.0, 3.0])
    both = known_together(first, second)
    assert [each.to_dict() for each in both] == [{1.0: 2.0}, {1.0: 5.0}]
