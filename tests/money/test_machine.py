"""The share of a machine that a run was given."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trimtab.wire import NodeFacts

from advisor.machine import share


def node(effective_cpus: float) -> NodeFacts:
    return NodeFacts(
        machine_id="m1", instance_type="c5.large", vcpus=2, effective_cpus=effective_cpus
    )


@pytest.mark.parametrize(
    ("cores", "expected"),
    [(1.0, Fraction(1, 2)), (3.0, Fraction(1)), (0.0, Fraction(1)), (1e-300, Fraction(1, 2000))],
)
def test_it_is_the_cores_that_the_run_may_use(cores, expected):
    assert share(node(cores)) == expected


@given(st.floats(0, 1e6))
def test_it_is_above_0_and_at_most_1(cores):
    assert 0 < share(node(cores)) <= 1
