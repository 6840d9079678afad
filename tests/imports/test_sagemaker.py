"""SageMaker Debugger's folders without a service: values, times, reports, damage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from advisor.__main__ import main
from advisor.importers.stated_facts import StatedFacts
from advisor.offline.analysis import report_of
from advisor.offline.importing import ImportedRun, import_path
from advisor.sizing.demand import BALANCED
from advisor.store.frames import load_frame
from advisor.store.index import from_ms
from rules.frame import NodeFrame
from tests.imports.folders import DESCRIBED, START, sagemaker, step_events, write_lines


def imported(path: Path) -> ImportedRun:
    return import_path(path, StatedFacts())


def frame_of(run: ImportedRun) -> NodeFrame:
    timeline = run.timeline
    histories = [node.history for node in timeline.nodes]
    times = timeline.started_at, timeline.ended_at
    frame, unreadable = load_frame(timeline.bodies, histories, *times, 1.0, True)
    assert not unreadable
    return frame.nodes["node-1"]


def test_values_units_and_times_are_those_of_the_recording(tmp_path):
    run = imported(sagemaker(tmp_path, seconds=120))
    node = frame_of(run)
    means = {name: node.samples[name].mean() for name in node.samples.columns}
    assert means["host.cpu_busy_pct"] == 30.0
    assert means["host.cpu_iowait_pct"] == 2.0
    assert means["gpu0.busy_pct"] == 60.0
    assert means["host.memory_used_pct"] == 50.0
    read = node.samples["disk.read_bytes_total"].dropna()
    assert read.iloc[-1] - read.iloc[0] == pytest.approx(1000 * (len(read) - 1), rel=0.02)
    assert run.timeline.started_at == from_ms(START * 1000)
    assert len(node.steps) == 110
    assert set(node.steps["duration_seconds"]) == {0.9}
    assert node.steps["start_seconds"].iloc[0] == pytest.approx(10.0)
    assert node.steps["data_wait_seconds"].isna().all(), "not measured is not zero"


def test_the_wait_for_data_before_a_step_is_part_of_it(tmp_path):
    folder = sagemaker(tmp_path, seconds=60)
    (path,) = folder.rglob("*_pythontimeline.json")
    phases = [(2, "DataLoaderIter"), (3, "DataLoaderIterInitialize")]
    events = step_events(60) + [
        {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}}
        for pid, name in phases
    ]
    for step in range(11, 60):
        start = step * 10**6 - 80_000
        events.append({"name": "Iter::GetNext", "ph": "X", "pid": 2, "ts": start, "dur": 50_000})
    settings = {"num_workers": "4", "pin_memory": "True"}
    events.append({"name": "x", "ph": "X", "pid": 3, "ts": 10**6, "dur": 9, "args": settings})
    path.write_text(json.dumps(events))
    node = frame_of(imported(folder))
    waits = node.steps["data_wait_seconds"].round(6)
    assert set(waits.iloc[1:]) == {0.05}
    assert set(node.steps["duration_seconds"].round(6).iloc[1:]) == {0.95}
    ((_, loader),) = node.events_by_kind["loader"]
    assert (loader["workers"], loader["pin_memory"]) == (4, True)


def reports(folder: Path, gpu_max: float) -> Path:
    """Write a job of which only the reports of SageMaker's rules were kept."""
    place = folder / "job" / "rule-output" / "profiler-output" / "profiler-reports"
    place.mkdir(parents=True)
    times = {"job_start": START, "job_end": START + 1800}
    usage = {"CPU": {"algo-1": {"max": 90, "p99": 80, "p95": 70, "p50": 20, "min": 0}}}
    details: dict[str, dict[str, Any]] = {
        "MaxInitializationTime": times,
        "OverallSystemUsage": usage,
        "LowGPUUtilization": {"algo-1": {"gpu0": {"gpu_max": gpu_max, "p95": gpu_max}}},
    }
    for rule, found in details.items():
        report = {"RuleTriggered": 0, "Violations": 0, "Datapoints": 3600, "Details": found}
        (place / f"{rule}.json").write_text(json.dumps(report))
    return folder / "job"


@pytest.mark.parametrize(("gpu_max", "state"), [(0.0, "fired"), (40.0, "insufficient_data")])
def test_reports_alone_say_only_what_percentiles_can(tmp_path, gpu_max, state):
    run = imported(reports(tmp_path, gpu_max))
    assert run.timeline.duration_seconds == 1800
    report = report_of(run.run, run.timeline, BALANCED, run.timeline.ended_at)
    states = {each.rule_id: each.verdict.state for each in report.judgements}
    assert states["unused_gpus"] == state
    assert states["cpu_bottleneck"] != "fired"
    assert run.imported.statistics["usage"][0]["p95"] == 70


def test_impossible_records_are_skipped_by_name(tmp_path):
    folder = sagemaker(tmp_path, seconds=60)
    (path,) = folder.rglob("*.algo-1.json")
    good = {"Type": "gpu", "Name": "gpu0", "Dimension": "GPUUtilization", "NodeId": "algo-1"}
    bad = [
        {**good, "Value": 5, "Timestamp": 5.0},
        {**good, "Value": 5, "Timestamp": float(START) * 1000},
        {**good, "Value": "high", "Timestamp": START + 1.25},
        {**good, "Type": "tpu", "Value": 5, "Timestamp": START + 1.25},
    ]
    write_lines(path, [*map(json.loads, path.read_text().splitlines()), *bad])
    tally = imported(folder).imported.tally
    assert {each.why: each.count for each in tally.skipped.values()} == {
        "a time outside of the job": 2,
        "no number as value": 1,
        "no known series": 1,
    }


def test_the_command_prints_the_verdicts_and_the_cost(tmp_path, capsys):
    described = tmp_path / "described.json"
    described.write_text(json.dumps(DESCRIBED))
    folder = str(sagemaker(tmp_path))
    assert main(["import", folder, "--describe", str(described)]) == 0
    said = capsys.readouterr().out
    assert "Imported from SageMaker Debugger: 3,240 samples, 170 steps" in said
    assert "$0.3188" in said
    assert main(["import", folder, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["job"], document["cost_usd"]) == ("vision", None)
    assert document["imported"]["records"]["steps"] == 170
    assert main(["import", str(tmp_path / "nowhere")]) == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "Name its machine with --instance-type, --provider, --region."),
        (["--instance-type", "ml.p3.2xlarge"], "Name its machine with --region."),
        (
            ["--instance-type", "ml.none", "--region", "us-west-2", "--provider", "aws"],
            "no on-demand price of ml.none in us-west-2 from aws",
        ),
    ],
)
def test_the_command_asks_only_for_what_was_not_given(given, said, tmp_path, capsys):
    assert main(["import", str(sagemaker(tmp_path, 60)), *given]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "No price for" in line]
    assert said in line
    assert not [option for option in given if option.startswith("--") and option in line]


def test_a_name_that_is_not_unicode_loses_only_its_record(tmp_path):
    folder = sagemaker(tmp_path, seconds=60)
    (path,) = folder.rglob("*.algo-1.json")
    path.write_bytes(path.read_bytes().replace(b"CPUUtilization", b"CPU\xffUtilization", 1))

    tally = imported(folder).imported.tally

    assert tally.records["samples"] == 120 * 9 - 1
    assert {each.count for each in tally.skipped.values()} == {1}


@pytest.mark.parametrize("first", [b"null\n", b" null\n", b"null, ", b'{"a": null}\n'])
def test_a_first_record_that_is_null_loses_only_its_line(first, tmp_path):
    """Arrow's reader of JSON ends the process there."""
    folder = sagemaker(tmp_path / "job")
    whole = import_path(folder, StatedFacts()).imported.tally.taken
    path = min(folder.rglob("incremental/**/*.json"))
    path.write_bytes(first + path.read_bytes())
    assert whole - 1 <= import_path(folder, StatedFacts()).imported.tally.taken <= whole


def test_a_stray_file_of_another_job_loses_only_itself(tmp_path):
    folder = sagemaker(tmp_path, seconds=60)
    (path,) = folder.rglob("*_pythontimeline.json")
    earlier = START - 5 * 365 * 86_400
    events = step_events(30)
    events[0]["args"]["start_time_since_epoch_in_micros"] = earlier * 10**6
    stray = path.with_name(f"{earlier * 10**6}_9-algo-1_pythontimeline.json")
    stray.write_text(json.dumps(events))
    run = imported(folder)
    assert run.timeline.started_at == from_ms(START * 1000)
    assert dict(run.imported.tally.records) == {"samples": 120 * 9, "steps": 50}
    assert [each.count for each in run.imported.tally.skipped.values()] == [20]
