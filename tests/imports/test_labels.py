"""Parameters, tags and metrics of other tools: what of them a run can have."""

from __future__ import annotations

import math
from collections.abc import Iterator
from uuid import UUID

import pytest

from advisor.importers.labels import MOST_LABELS, metric, parameters_of, tags_of
from advisor.importers.recording import Part, RecordedNode, SamplesOnly
from advisor.importers.storing import store_recording
from advisor.importers.tally import Tally
from advisor.store.index import from_ms
from advisor.store.memory import MemoryStore
from advisor.store.reading import NodeReader
from rules.frame import Hardware

START_MS = 1_767_225_600_000
HOUR_MS = 3_600_000


class Logged(SamplesOnly):
    """Three metrics at given times."""

    format = "test"

    def __init__(self, tally: Tally, times_ms: list[int]) -> None:
        super().__init__(tally)
        self.nodes = [RecordedNode("machine", START_MS)]
        self._tally, self._times_ms = tally, times_ms

    def parts(self, node: RecordedNode) -> Iterator[Part]:
        for step, at in enumerate(self._times_ms):
            self._tally.take("metrics")
            yield metric(at, "loss", 1 / (step + 1), step)


def test_metrics_are_kept_whatever_their_order(monkeypatch):
    monkeypatch.setattr("advisor.importers.storing._MOST_HELD_EVENTS", 2)
    times = [START_MS, START_MS + HOUR_MS, START_MS + 5, START_MS + HOUR_MS + 7, START_MS + 9]
    outside = [START_MS - 1, START_MS + 40 * 24 * HOUR_MS]
    store, tally = MemoryStore(), Tally()
    (node,) = store_recording(store, Logged(tally, times + outside), UUID(int=1), tally)

    reader = NodeReader(store, node.history("node", Hardware()))
    found = [
        (row["time_ms"], row["data"])
        for hour in reader.hours(node.started_at, node.ended_at)
        for row in reader.events(hour)[0].to_pylist()
        if row["kind"] == "metric"
    ]
    assert [at for at, _ in found] == sorted(times)
    assert found[0][1] == '{"name": "loss", "rank": 0, "step": 0, "value": 1.0}'
    assert node.ended_at == from_ms(START_MS + HOUR_MS + 7)
    assert dict(tally.records) == {"metrics": 5}
    assert sum(each.count for each in tally.skipped.values()) == 2


def test_nested_parameters_are_named_by_their_path():
    said = {"lr": 0.1, "data": {"path": "a", "sizes": [1, 2]}, "empty": {}, "on": True, "n": None}
    tally = Tally()
    assert parameters_of(said, tally) == {
        "lr": 0.1,
        "data.path": "a",
        "data.sizes": "[1, 2]",
        "empty": "{}",
        "on": True,
        "n": None,
    }
    assert tally.records["parameters"] == 6


@pytest.mark.parametrize(
    ("value", "kept"),
    [(math.nan, "nan"), (10**300, str(10**300)), ("a\0b", "ab"), ("x" * 9_000, "x" * 2_000)],
)
def test_what_no_database_takes_becomes_text(value, kept):
    assert parameters_of({"a": value}, Tally()) == {"a": kept}


def test_too_many_and_unnamed_labels_are_counted():
    tally = Tally()
    kept = parameters_of({"\0": 1, **{f"p{n}": n for n in range(MOST_LABELS + 7)}}, tally)
    assert len(kept) == MOST_LABELS
    assert sum(each.count for each in tally.skipped.values()) == 8
    assert tags_of({"a": "b" * 500, "": "x"}, tally) == {"a": "b" * 120}
