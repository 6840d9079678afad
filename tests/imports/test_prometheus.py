"""Range queries of Prometheus for DCGM-exporter: machines, units, gaps, damage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from advisor.importers.prometheus import PrometheusRecording, open_recording
from advisor.importers.recording import NotImportableError, Samples
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts
from advisor.importers.tally import Tally
from advisor.offline.importing import import_path

START = 1_767_225_600


def series(name: str, values: list[Any], gpu: str = "0", **labels: str) -> dict[str, Any]:
    """Return a value each 15 s; None leaves a gap."""
    metric = {"__name__": f"DCGM_FI_{name}", "gpu": gpu, "Hostname": "n1", **labels}
    pairs = [[START + 15 * n, v] for n, v in enumerate(values) if v is not None]
    return {"metric": metric, "values": pairs}


def written(folder: Path, *every: dict[str, Any], name: str = "a.json") -> Path:
    data = {"resultType": "matrix", "result": every}
    (folder / name).write_text(json.dumps({"status": "success", "data": data}))
    return folder


def read(folder: Path, tally: Tally) -> PrometheusRecording:
    return open_recording(Source.from_path(folder), StatedFacts(), tally)


def columns(recording: PrometheusRecording) -> dict[str, dict[str, list[float | None]]]:
    found = {}
    for node in recording.nodes:
        (part,) = recording.parts(node)
        assert isinstance(part, Samples)
        found[node.name] = {
            name: [None if v != v else v for v in values.tolist()]
            for name, values in part.columns.items()
        }
    return found


def test_machines_gpus_and_units_are_told_apart(tmp_path):
    tally = Tally()
    folder = written(
        tmp_path,
        series("DEV_GPU_UTIL", ["90", "80", None, "70"]),
        series("DEV_FB_USED", ["1024", "1024", "NaN", "2048"]),
        series("PROF_SM_ACTIVE", ["0.25", "0.5", "0.75", "1"], gpu="1"),
        series("DEV_GPU_UTIL", ["1", "2"], Hostname="", instance="n2:9400"),
    )
    recording = read(folder, tally)

    assert [(node.name, node.gpus) for node in recording.nodes] == [("n1", 2), ("n2:9400", 1)]
    assert recording.nodes[0].started_ms == START * 1000
    assert columns(recording) == {
        "n1": {
            "gpu0.busy_pct": [90, 80, None, 70],
            "gpu0.memory_used_bytes": [2**30, 2**30, None, 2**31],
            "gpu1.sm_active_pct": [25, 50, 75, 100],
        },
        "n2:9400": {"gpu0.busy_pct": [1, 2]},
    }
    assert dict(tally.records) == {"samples": 12}
    assert [(each.what, each.count) for each in tally.skipped.values()] == [("samples", 1)]


def test_answers_for_parts_of_the_time_are_one_recording(tmp_path):
    written(tmp_path, series("DEV_GPU_UTIL", ["1", "2"]), name="1.json")
    written(tmp_path, series("DEV_GPU_UTIL", [None, "2", "3"]), name="2.json")
    assert columns(read(tmp_path, Tally())) == {"n1": {"gpu0.busy_pct": [1, 2, 3]}}


def test_slices_and_foreign_metrics_are_named_not_taken(tmp_path):
    tally = Tally()
    every = [
        series("DEV_GPU_UTIL", ["1", "2"]),
        series("DEV_GPU_UTIL", ["5", "6"], GPU_I_ID="3"),
        series("DEV_XID_ERRORS", ["0", "0"]),
        series("DEV_GPU_UTIL", ["5", "6"], gpu="all"),
        {"metric": {"__name__": "up"}, "value": [START, "1"]},
    ]
    assert columns(read(written(tmp_path, *every), tally)) == {"n1": {"gpu0.busy_pct": [1, 2]}}
    assert {each.why for each in tally.skipped.values()} == {
        "of a MIG slice",
        "no series of ours",
        "no label says which GPU",
        "no range of values",
    }


@pytest.mark.parametrize("values", [[], ["1"], ["-1", "x", None]])
def test_what_has_no_two_ticks_is_refused(values, tmp_path):
    with pytest.raises(NotImportableError):
        import_path(written(tmp_path, series("DEV_GPU_UTIL", values)), StatedFacts())


def test_more_values_than_fit_are_refused_before_they_are_held(tmp_path, monkeypatch):
    monkeypatch.setattr("advisor.importers.prometheus._MOST_VALUES", 20)
    written(tmp_path, series("DEV_GPU_UTIL", ["50"] * 15), name="1.json")
    assert import_path(tmp_path, StatedFacts()).imported.tally.taken == 15
    written(tmp_path, series("DEV_GPU_UTIL", ["50"] * 15, gpu="1"), name="2.json")
    with pytest.raises(NotImportableError, match="longer step"):
        import_path(tmp_path, StatedFacts())


def test_an_answer_becomes_a_run(tmp_path):
    run = import_path(written(tmp_path, series("DEV_GPU_UTIL", ["50"] * 40)), StatedFacts())
    assert run.imported.format == "Prometheus (DCGM exporter)"
    assert run.timeline.duration_seconds == 15 * 39
