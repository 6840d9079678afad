"""SageMaker's statistics: equal to NumPy's own results, computed another way, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from rules import sagemaker_statistics as statistics
from rules.frame import GpuHardware, Hardware, NodeFrame
from tests.rules import frames as f

Floats = NDArray[np.float64]
COUNTS = arrays(np.int64, 49, elements=st.integers(0, 1000)).filter(lambda c: c.sum() > 0)


def by_hand(values: Floats) -> list[float]:
    """Compute linear percentiles from the order statistics."""
    ordered = np.sort(np.maximum(values, 0))
    found = []
    for percent in (100, 99, 95, 90, 50, 0):
        place = percent / 100 * (len(ordered) - 1)
        below = int(np.floor(place))
        above = min(below + 1, len(ordered) - 1)
        share = place - below
        # As NumPy: from the nearer end, so that both ends are met exactly.
        gap = ordered[above] - ordered[below]
        value = ordered[below] + gap * share if share < 0.5 else ordered[above] - gap * (1 - share)
        found.append(float(np.round(value, 2)))
    return found


@given(values=arrays(np.float64, st.integers(1, 300), elements=st.floats(-50, 1e6)))
def test_the_percentile_table_is_numpys(values: Floats) -> None:
    summary = statistics.statistics(values)
    assert list(summary) == pytest.approx(by_hand(values), abs=0.011)
    independent = [
        np.percentile(np.where(values < 0, 0, values), q) for q in (100, 99, 95, 90, 50, 0)
    ]
    assert list(summary) == [round(float(value), 2) for value in np.round(independent, 2)]


@given(first=COUNTS, second=COUNTS)
def test_the_distance_is_the_root_of_the_divergence(
    first: NDArray[Any], second: NDArray[Any]
) -> None:
    p, q = first / first.sum(), second / second.sum()
    m = (p + q) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = [np.where(x > 0, x * np.log(x / m), 0).sum() for x in (p, q)]
    distance = statistics.distance(first, second)
    assert distance == pytest.approx(np.sqrt(max(sum(terms) / 2, 0)), abs=1e-7)
    assert statistics.distance(second, first) == pytest.approx(distance, abs=1e-12)
    assert distance is not None
    assert 0 <= distance <= np.sqrt(np.log(2)) + 1e-12


def test_the_distance_of_nothing_in_common_is_the_greatest_and_of_nothing_is_unknown() -> None:
    first, second = np.array([5, 0]), np.array([0, 7])
    assert statistics.distance(first, second) == pytest.approx(np.sqrt(np.log(2)), rel=1e-15)
    assert statistics.distance(first, first) == 0
    assert statistics.distance(first, np.zeros(2)) is None


RANDOM = np.random.default_rng(7)
BUSY_0, BUSY_1 = RANDOM.uniform(0, 100, 300), RANDOM.uniform(0, 100, 300)
RECEIVED, SENT = (np.cumsum(RANDOM.integers(0, 10**6, 300)) for _ in range(2))


def two_gpus() -> NodeFrame:
    series = f.samples(
        300,
        host__cpu_busy_pct=BUSY_0,
        host__cpu_iowait_pct=BUSY_1 / 10,
        host__memory_used_bytes=BUSY_1 / 100 * 32 * f.GIB,
        gpu0__busy_pct=np.where(np.arange(300) == 7, f.GAP, BUSY_0),
        gpu1__busy_pct=BUSY_1,
        gpu0__memory_used_bytes=BUSY_0 / 100 * 16 * f.GIB,
        gpu1__memory_used_bytes=BUSY_1 / 100 * 8 * f.GIB,
        net__received_bytes_total=RECEIVED,
        net__sent_bytes_total=SENT,
    )
    cards = (GpuHardware("V100", 16 * f.GIB), GpuHardware("T4", 8 * f.GIB))
    return f.node(series=series, of=Hardware(vcpus=8, memory_bytes=32 * f.GIB, gpus=cards))


def test_every_metric_is_that_of_all_cores_and_gpus_of_its_node() -> None:
    rows = statistics.percentile_rows(f.run(two_gpus()))
    table = {metric: percentiles for _, metric, *percentiles in rows}
    known = np.delete(np.arange(300), 7)
    expected = {
        "CPU": BUSY_0,
        "I/O": BUSY_1 / 10,
        "CPU memory": BUSY_1,
        "GPU": ((BUSY_0 + BUSY_1) / 2)[known],
        "GPU memory": (BUSY_0 + BUSY_1) / 2,
        "Network": np.diff(RECEIVED) + np.diff(SENT),
    }
    assert sorted(table) == sorted(expected)
    for metric, values in expected.items():
        percentiles = np.percentile(values, [100, 99, 95, 90, 50, 0])
        assert table[metric] == pytest.approx(np.round(percentiles, 2), abs=1e-9)


def test_the_job_is_start_loop_and_end_and_the_end_is_never_negative() -> None:
    frame = f.run(f.node(step_tables=[f.steps(100, start=40)]), duration=160)
    assert statistics.job_seconds(frame) == {
        "initialisation": 40,
        "loop": 100,
        "finalisation": 20,
    }
    late = f.run(f.node(step_tables=[f.steps(100, start=40)]), duration=138)
    assert statistics.job_seconds(late)["finalisation"] == 0
    assert statistics.job_seconds(f.run()) == statistics.framework_seconds(f.run()) == {}
