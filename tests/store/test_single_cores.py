"""A frame leaves single cores out where the utilisation of all of them together was measured."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trimtab.wire import Block

from rules.activity import host_cpu_pct
from rules.frame import NodeFrame
from tests.store.runs import CPU, compacted, frame_of, of_blocks, store_segments

TIMES = [0, 2_500, 5_000, 7_500]
CORES = {"cpu0.busy_pct": [10.0, 20.0, 30.0, 40.0], "cpu1.busy_pct": [30.0, 40.0, 50.0, 60.0]}
WHOLE = [1.0, 2.0, 3.0, 4.0]


def _frame(store, *segments, is_compacted=False) -> NodeFrame:  # type: ignore[no-untyped-def]
    """Return the cells of segments with these columns."""
    made = [of_blocks(seq, [Block(TIMES, columns)]) for seq, columns in enumerate(segments)]
    history = store_segments(store, made)
    if is_compacted:
        history = compacted(store, history)
    return replace(frame_of(store, history, 10.0 * len(segments), 2.5), ticks=None)


@pytest.mark.parametrize("is_compacted", [False, True])
def test_they_are_left_out_beside_all_cores_together(store, is_compacted):
    frame = _frame(store, {**CORES, CPU: WHOLE}, is_compacted=is_compacted)
    assert list(frame.samples.columns) == [CPU]
    assert host_cpu_pct(frame).tolist() == WHOLE


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize("unknown", [{}, {CPU: [None] * 4}])
def test_without_that_they_are_read(store, unknown, is_compacted):
    frame = _frame(store, {**CORES, **unknown}, is_compacted=is_compacted)
    assert host_cpu_pct(frame).tolist() == [20.0, 30.0, 40.0, 50.0]


@given(has_whole=st.lists(st.booleans(), min_size=1, max_size=4), is_compacted=st.booleans())
def test_what_is_known_of_the_cpu_is_the_same_as_with_them(store, has_whole, is_compacted):
    segments = [{**CORES, **({CPU: WHOLE} if has else {})} for has in has_whole]
    frame = _frame(store, *segments, is_compacted=is_compacted)
    cores = pd.DataFrame(
        {name: values * len(segments) for name, values in CORES.items()}, frame.samples.index
    )
    whole = [value for has in has_whole for value in (WHOLE if has else [float("nan")] * 4)]
    every = cores if not any(has_whole) else cores.assign(**{CPU: whole})
    with_them = replace(frame, samples=every)
    assert host_cpu_pct(frame).dropna().tolist() == host_cpu_pct(with_them).dropna().tolist()
