"""The time of operators in cells adds up to the whole, however long the cells become."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.importers import operator_times
from advisor.importers.operator_times import FINEST_US, LISTED, OperatorTimes
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts
from advisor.importers.tally import Tally
from advisor.importers.torch_trace import open_recording
from tests.imports.test_torch_trace import event, kernel, written

WHOLE = st.tuples(
    st.sampled_from(["a", "b"]), st.integers(0, 40 * 10**6), st.integers(0, 20 * 10**6)
)


def total(document: dict) -> Counter:
    found: Counter = Counter()
    for row in document["operators"]:
        found[row["node"], row["category"], row["name"]] += sum(row["us"])
    return found


@settings(deadline=None, max_examples=60)
@given(st.lists(WHOLE, max_size=30), st.integers(50, 5_000), st.integers(0, 10**15))
def test_cells_add_up_to_the_operations_and_lie_where_those_were(spans, most, shift):
    times, expected = OperatorTimes(), Counter()
    limit, operator_times.MOST_CELLS = operator_times.MOST_CELLS, most
    try:
        for name, start, length in spans:
            times.add("n", "CPU", name, start, start + length)
            expected["n", "CPU", name] += length
        times.shift("n", shift)
        document = times.document()
    finally:
        operator_times.MOST_CELLS = limit
    found = total(document)
    cell = document["cell_us"]
    assert sum(len(row["cells"]) for row in document["operators"]) <= most
    for key, length in expected.items():
        assert abs(found[key] - length) <= 1 + sum(
            len(row["cells"]) for row in document["operators"] if row["name"] == key[2]
        )
    for row in document["operators"]:
        assert row["cells"] == sorted(set(row["cells"]))
        for offset, us in zip(row["cells"], row["us"], strict=True):
            begin = row["start_us"] - shift + offset * cell
            exact = sum(
                max(min(start + length, begin + cell) - max(start, begin), 0)
                for name, start, length in spans
                if name == row["name"]
            )
            assert us == pytest.approx(exact, abs=1)


def test_many_long_and_short_operations_stay_bounded():
    times = OperatorTimes()
    for number in range(30_000):
        name = f"op{number % 300}"
        times.add("n", f"c{number % 3}", name, number * 10_000.0, number * 10_000.0 + 900)
    times.add("n", "c0", "worker", 0, 28 * 86_400e6)
    document = times.document()
    rows = document["operators"]
    assert sum(len(row["cells"]) for row in rows) <= operator_times.MOST_CELLS
    assert max(Counter(row["category"] for row in rows).values()) == LISTED + 1
    expected = 30_000 * 900 + 28 * 86_400e6
    assert sum(total(document).values()) == pytest.approx(expected, rel=1e-6)


def test_all_at_once_is_as_one_by_one():
    one, whole = OperatorTimes(), OperatorTimes()
    starts = np.arange(50) * 7_777.0
    numbers = np.array([whole.number("n", "GPU", f"k{n % 3}") for n in range(50)])
    whole.add_all(numbers, starts, starts + 12_345)
    for place, start in enumerate(starts.tolist()):
        one.add("n", "GPU", f"k{place % 3}", start, start + 12_345)
    assert one.document() == whole.document()


def test_the_time_of_its_own_is_placed_where_it_was(tmp_path):
    """Not where the operators ran that it called."""
    events = [
        event("outer", 0, 100_000),
        event("inner", 20_000, 60_000),
        kernel("k", 30_000, 5_000),
    ]
    recording = open_recording(Source.from_path(written(tmp_path, events)), StatedFacts(), Tally())
    rows = {row["name"]: row for row in recording.operator_times["operators"]}
    cells = dict(zip(rows["outer"]["cells"], rows["outer"]["us"], strict=True))
    assert cells == {0: 10_000, 1: 10_000, 8: 10_000, 9: 10_000}
    assert sum(rows["inner"]["us"]) == 60_000
    assert rows["k"]["start_us"] - rows["outer"]["start_us"] == 30_000


@pytest.mark.parametrize(
    ("start_us", "end_us"),
    [(0.0, 1e18), (-1e300, 1e300), (math.nan, 5.0), (5.0, math.inf), (1e30, 1e30 + 10)],
)
def test_damage_leaves_the_others_their_cells(start_us, end_us):
    times = OperatorTimes()
    times.add("n", "CPU operator", "sound", 1.7e15, 1.7e15 + 5000)
    times.add("n", "CPU operator", "damaged", start_us, end_us)
    document = times.document()
    assert document["cell_us"] == FINEST_US
    assert [(row["name"], sum(row["us"])) for row in document["operators"]] == [("sound", 5000)]
