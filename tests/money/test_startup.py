"""The part of a run's time that grows with its work."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.comparison.startup import growing_seconds, growing_share

seconds = st.just(0.0) | st.floats(1e-6, 1e6)


@given(fixed=seconds, end=seconds, each=st.floats(0.1, 1e3), units=st.integers(1, 1000))
def test_the_growing_part_of_a_unit_is_the_same_however_many_units_ran(fixed, end, each, units):
    phases = {"initialise": fixed, "train": each * units, "finalise": end}
    growing = growing_seconds(phases, sum(phases.values()))
    assert growing is not None
    assert math.isclose(growing / units, each)


@given(st.dictionaries(st.sampled_from(["initialise", "train", "finalise", "a.py"]), seconds),
       st.floats(-1, 1e6))  # fmt: skip
def test_it_is_never_more_than_the_run_and_never_nothing(phases, duration):
    growing, share = growing_seconds(phases, duration), growing_share(phases, duration)
    assert growing is None or 0 < growing <= duration
    assert share is None or 0 < share <= 1


@pytest.mark.parametrize(
    "phases",
    [
        {},
        {"initialise": 10.0, "train": 0.0},
        {"prepare.py": 40.0, "train": 60.0},  # Stages of a script without recorded steps.
        {"initialise": 10.0, "train": math.nan},
    ],
)
def test_a_loop_that_was_not_measured_is_unknown(phases):
    assert growing_seconds(phases, 100.0) is None


def test_other_stages_of_a_script_are_fixed():
    phases = {"prepare.py": 40.0, "initialise": 5.0, "train": 50.0, "finalise": 5.0}
    assert growing_seconds(phases, 100.0) == 50.0
