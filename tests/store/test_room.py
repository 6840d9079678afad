"""The memory that a run may take while it is read: gaps take nothing, and too much is summed up."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trimtab.wire import Block, Event

from advisor.store import room, stretches
from advisor.store.frames import load_frame
from advisor.store.grid import SampleGrid
from advisor.store.index import to_ms
from advisor.store.room import RoomExceededError
from advisor.store.series import read_series
from advisor.store.thinning import Events, ThinnedSteps
from rules.frame import RunFrame
from rules.ledger import ledger
from tests.store.runs import CPU, START, compacted, frame_of, of_blocks, segment, store_segments

DAY_MS = 86_400_000


def at(ms: int, seq: int, value: float = 50.0):
    """Return a segment that begins so long after its session."""
    return replace(segment(seq, [value] * 20), start_ms=ms)


def frame(store, history, days: float, resolution_seconds: float = 60.0) -> RunFrame:
    end = START + timedelta(days=days)
    held = replace(history, intervals=((START, end),))
    return load_frame(store, [held], START, end, resolution_seconds, final=True)[0]


def test_three_years_between_two_segments_take_no_cells(store):
    history = store_segments(store, [at(0, 0, 40.0), at(1_099 * DAY_MS, 1, 60.0)])
    for each in (history, compacted(store, history)):
        samples = frame(store, each, 1_099.5, 1.0).nodes["n1"].samples
        assert len(samples) < 5 * 3600
        known = samples[CPU].dropna()
        assert known.iloc[0] == 40.0
        assert known.iloc[-1] == 60.0
        assert len(known) == 20


def test_the_time_without_cells_is_a_gap_in_the_ledger(store):
    history = store_segments(store, [at(0, 0), at(1_099 * DAY_MS, 1)])
    read = frame(store, history, 1_099.5)
    found = {entry.label: entry.microseconds for entry in ledger(read).entries}
    assert sum(found.values()) == round(1_099.5 * 86_400 * 1e6)
    assert found["gap"] > 1_099 * 86_400 * 10**6
    assert read.unsampled_seconds == pytest.approx(1_099.5 * 86_400, abs=5 * 3600)


def test_the_resolution_follows_what_is_stored(store):
    history = store_segments(store, [at(0, 0), at(1_099 * DAY_MS, 1)])
    end = START + timedelta(days=1_100)
    assert stretches.stored_seconds([history], START, end) < 4 * 3600
    whole = store_segments(store, [at(hour * 3_600_000, hour) for hour in range(5)])
    end = START + timedelta(hours=4)
    assert stretches.stored_seconds([whole], START, end) == 4 * 3600


def test_a_chart_of_three_years_has_as_many_cells_as_any(store):
    history = store_segments(store, [at(0, 0), at(1_099 * DAY_MS, 1)])
    (view,) = read_series(store, [history], [CPU], START, START + timedelta(days=1_100), 500)
    assert len(view.mean) == 500
    assert np.isfinite(view.mean).sum() == 2


@settings(max_examples=15)
@given(
    hours=st.lists(st.integers(0, 60), min_size=1, max_size=6, unique=True),
    resolution=st.sampled_from([1.0, 10.0, 60.0, 300.0]),
    is_compacted=st.booleans(),
)
def test_what_is_left_out_was_unknown(tmp_path_factory, hours, resolution, is_compacted):
    """The same samples and the same ledger as on the whole grid."""
    from advisor.store.folder import FolderStore

    store = FolderStore(tmp_path_factory.mktemp("objects"))
    starts = [hour * 3_600_000 + 7_000 * i for i, hour in enumerate(sorted(hours))]
    history = store_segments(store, [at(ms, seq, 10.0 + seq) for seq, ms in enumerate(starts)])
    history = compacted(store, history) if is_compacted else history
    sparse = frame(store, history, 2.6, resolution)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stretches, "grid", whole_grid)
        whole = frame(store, history, 2.6, resolution)
    left, right = (each.nodes["n1"].samples.dropna(how="all") for each in (sparse, whole))
    pd.testing.assert_frame_equal(left, right)
    assert ledger(sparse).entries == ledger(whole).entries


def whole_grid(nodes, start, end, resolution_seconds) -> SampleGrid:
    count = int(np.ceil(round((end - start).total_seconds() / resolution_seconds, 9)))
    return SampleGrid.even(to_ms(start), resolution_seconds * 1000, count)


# Too much


def test_many_series_are_read_on_a_coarser_grid(store, monkeypatch):
    columns = {f"user.value{n}_count": [float(n)] * 20 for n in range(50)}
    times = list(range(0, 10_000, 500))
    history = store_segments(store, [of_blocks(seq, [Block(times, columns)]) for seq in range(6)])
    monkeypatch.setattr(room, "MOST_VALUES", 50 * 60 // 10)
    end = START + timedelta(seconds=60)
    read, _ = load_frame(store, [history], START, end, 1.0, final=True)
    assert read.resolution_seconds == 10.0
    assert read.nodes["n1"].samples.shape == (6, 50)
    assert read.nodes["n1"].samples["user.value7_count"].tolist() == [7.0] * 6


def test_a_node_of_thousands_of_gpus_is_too_large(store):
    columns = {f"gpu{n}.busy_pct": [1.0] for n in range(257)}
    history = store_segments(store, [of_blocks(0, [Block([0], columns)])])
    with pytest.raises(RoomExceededError, match="more than 256 GPUs on one node"):
        frame_of(store, history, 10)


@pytest.mark.parametrize(
    ("bound", "most", "words"),
    [
        ("MOST_SERIES", 1, "more than 1 series"),
        ("MOST_PARTS", 1, "more than 1 hours of all series together"),
        ("MOST_HOUR_SAMPLES", 79, "more than 79 samples of one node in one hour"),
        ("MOST_HOUR_STEPS", 1, "more than 1 training steps of one node in one hour"),
        ("MOST_HOUR_EVENTS", 1, "more than 1 events of one node in one hour"),
    ],
)
def test_a_run_that_is_too_large_says_of_what(store, monkeypatch, bound, most, words):
    history = store_segments(store, [segment(seq, [5.0] * 20) for seq in range(2)])
    counted = tuple(replace(ref, sample_count=40) for ref in history.segments)
    history = replace(history, segments=(*counted, counted[0]))
    monkeypatch.setattr(room, bound, most)
    with pytest.raises(RoomExceededError, match=words):
        frame_of(store, history, 20)


def test_samples_kept_compactly_are_the_same(store, monkeypatch):
    history = store_segments(store, [segment(seq, [float(seq), None] * 10) for seq in range(9)])
    history = replace(
        history, segments=tuple(replace(ref, sample_count=40) for ref in history.segments)
    )
    plain = frame_of(store, history, 90)
    monkeypatch.setattr("advisor.store.reading.MANY_SAMPLES", 1)
    monkeypatch.setattr("advisor.store.segments.MANY_STEPS", 1)
    compact = frame_of(store, history, 90)
    pd.testing.assert_frame_equal(plain.samples, compact.samples)
    pd.testing.assert_frame_equal(plain.steps, compact.steps)
    chunks = compacted(store, history)
    pd.testing.assert_frame_equal(frame_of(store, chunks, 90).samples, plain.samples)
    pd.testing.assert_frame_equal(frame_of(store, chunks, 90).steps, plain.steps)


def test_a_reading_says_that_it_is_alive(store):
    history = store_segments(store, [at(hour * 3_600_000, hour) for hour in range(4)])
    calls: list[int] = []
    end = START + timedelta(hours=5)
    load_frame(store, [history], START, end, 60.0, True, alive=lambda: calls.append(1))
    assert len(calls) >= 4


# Steps and events


def steps_table(store, seconds: int) -> pd.DataFrame:
    history = store_segments(store, [segment(seq, [5.0] * 20) for seq in range(seconds // 10)])
    return frame_of(store, history, seconds).steps


def test_steps_beyond_the_bound_are_summed_up_without_loss(store):
    table = steps_table(store, 600)
    table["rank"] = np.arange(len(table), dtype="int32") % 2
    hours: list[pd.DataFrame] = []
    ThinnedSteps(most=50).add(hours, table)
    found = pd.concat(hours)
    assert len(found) <= 50 < len(table)
    assert found.dtypes.to_dict() == table.dtypes.to_dict()
    assert found["start_seconds"].is_monotonic_increasing
    assert found["count"].sum() == table["count"].sum()
    assert found["samples"].sum() == table["samples"].sum()
    for name in ("duration_seconds", "data_wait_seconds"):
        left, right = (float((t[name] * t["count"]).sum()) for t in (found, table))
        assert left == pytest.approx(right)
    unmeasured = [t["count"][t["data_wait_seconds"].isna()].sum() for t in (found, table)]
    assert unmeasured[0] == unmeasured[1] > 0
    with pytest.raises(RoomExceededError, match="more than 1 seconds with training steps"):
        ThinnedSteps(most=1).add([], table)


def test_metrics_beyond_the_bound_keep_least_greatest_and_last(store):
    values = [3.0, 1.0, 9.0, 4.0, 5.0]
    events = [
        Event(i * 1_000, "metric", {"name": "loss", "value": v}) for i, v in enumerate(values)
    ]
    events.append(Event(9_000, "epoch", {"number": 1}))
    each = replace(segment(0, [5.0] * 20), events=events)
    table = frame_of(store, store_segments(store, [each]), 10).events
    hours: list[pd.DataFrame] = []
    Events(most=4).add(hours, table)
    kept = [data.get("value") for data in hours[0]["data"]]
    assert kept == [1.0, 9.0, 5.0, None]
    with pytest.raises(RoomExceededError, match="more than 3 events"):
        Events(most=3).add([], table)
