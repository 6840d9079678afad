"""Percentiles, phases and progress of training steps, from steps and from their tiers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.store import tables
from advisor.store.chart_plan import Buckets, buckets_of
from advisor.store.step_spread import (
    StepSpread,
    phase_lengths,
    spreads_of,
    spreads_of_single,
    trained_steps,
)
from advisor.store.step_tiers import cells_of, single_cells

START = datetime(2026, 3, 2, tzinfo=UTC)
US = 1_000_000
NOT_SUMMED = (None,) * 5


def steps(*rows: tuple[float, int, str, float, float | None]) -> pa.Table:
    """Make steps of (start, rank, phase, duration, data wait) in seconds."""
    first = int(START.timestamp()) * US
    made = [
        (
            first + round(at * US),
            "session",
            0,
            rank,
            phase,
            1,
            round(took * US),
            None if wait is None else round(wait * US),
            64,
            *NOT_SUMMED,
        )
        for at, rank, phase, took, wait in rows
    ]
    return tables.table_from_rows([made], tables.STEP_SCHEMA)


def training(durations: list[float]) -> pa.Table:
    return steps(*((at, 0, "train", took, None) for at, took in enumerate(durations)))


def of_one(cells: pa.Table) -> StepSpread:
    (found,) = spreads_of("node-1", cells)
    return found


def buckets(seconds: float, count: int) -> Buckets:
    return buckets_of(START, START + timedelta(seconds=seconds), count, is_aligned=True)


durations = st.lists(st.floats(0.001, 500), min_size=1, max_size=60)


@given(durations, st.floats(1, 99.9))
def test_of_single_steps_a_percentile_is_one_of_them(took: list[float], percent: float) -> None:
    found = of_one(single_cells(training(took))).percentile_seconds(percent)

    expected = np.percentile(np.round(took, 6), percent, method="inverted_cdf")
    assert found == pytest.approx(expected, rel=1e-6)


@given(durations, st.floats(1, 99.9))
def test_of_a_tier_it_is_off_by_less_than_a_bin(took: list[float], percent: float) -> None:
    found = of_one(cells_of(training(took), 60)).percentile_seconds(percent)

    expected = np.percentile(took, percent, method="inverted_cdf")
    assert expected / 1.2 <= found <= expected * 1.2


@given(durations)
def test_of_a_tier_the_shortest_and_the_longest_step_are_exact(took: list[float]) -> None:
    found = of_one(cells_of(training(took), 60))

    assert found.percentile_seconds(0) == pytest.approx(min(took), abs=1e-6)
    assert found.percentile_seconds(100) == pytest.approx(max(took), abs=1e-6)


def test_steps_that_all_take_the_same_have_that_percentile_in_a_tier_too() -> None:
    found = of_one(cells_of(training([0.3] * 50), 60))

    assert [found.percentile_seconds(p) for p in (50, 90, 99)] == pytest.approx([0.3] * 3)
    assert (found.count, found.mean_seconds) == (50, pytest.approx(0.3))


def test_each_rank_and_phase_has_its_own_and_a_wait_that_is_not_known_stays_so() -> None:
    rows = steps(
        (0, 0, "train", 1.0, 0.2),
        (1, 0, "train", 1.0, 0.4),
        (0, 1, "train", 2.0, None),
        (2, 0, "checkpoint", 5.0, None),
    )

    found = {(s.rank, s.phase): s for s in spreads_of("node-1", single_cells(rows))}

    assert set(found) == {(0, "train"), (1, "train"), (0, "checkpoint")}
    assert found[0, "train"].wait_seconds == pytest.approx(0.3)
    assert found[1, "train"].wait_seconds is None
    assert found[0, "checkpoint"].percentile_seconds(50) == pytest.approx(5.0)


def test_progress_counts_the_steps_of_one_rank_and_training_only() -> None:
    rows = [(at, rank, "train", 0.5, None) for at in range(20) for rank in (2, 3)]
    cells = single_cells(steps(*rows, (5, 2, "evaluate", 3.0, None)))

    assert trained_steps(cells, buckets(20, 2)).tolist() == [10, 10]


def test_phases_are_added_up_by_bucket() -> None:
    cells = single_cells(steps((1, 0, "train", 2.0, None), (12, 0, "checkpoint", 4.0, None)))

    found = phase_lengths(cells, buckets(20, 2))

    assert {name: seconds.tolist() for name, seconds in found.items()} == {
        "train": [2.0, 0.0],
        "checkpoint": [0.0, 4.0],
    }


@given(durations, st.floats(0, 100))
def test_of_single_steps_percentiles_are_numpy_s(took: list[float], percent: float) -> None:
    (found,) = spreads_of_single("node-1", training(took))

    expected = np.percentile(np.round(took, 6), percent)
    assert found.percentile_seconds(percent) == pytest.approx(expected, rel=1e-6)
    assert found.mean_seconds == pytest.approx(np.mean(np.round(took, 6)))


def test_single_steps_have_their_waits_by_rank_and_phase() -> None:
    rows = steps(
        (0, 0, "train", 1.0, 0.2), (1, 0, "train", 1.0, None), (2, 1, "evaluate", 2.0, 0.5)
    )

    found = {(s.rank, s.phase): s for s in spreads_of_single("node-1", rows)}

    assert set(found) == {(0, "train"), (1, "evaluate")}
    assert found[0, "train"].waits.tolist() == [0.2]
    assert (found[0, "train"].count, found[0, "train"].wait_seconds) == (2, pytest.approx(0.2))


def test_a_histogram_of_tiers_has_no_gaps() -> None:
    """Bins of a fifth, of which each cell has some, are spread evenly."""
    random = np.random.default_rng(1)
    took = (0.3 * random.lognormal(0, 0.1, 20_000)).tolist()
    found = of_one(cells_of(training(took), 60))

    counts, _ = np.histogram(found.seconds, np.linspace(0.25, 0.35, 12), weights=found.weights)
    assert counts.min() > 0.3 * counts.max()
