"""Recordings of other tools, made for tests: small, whole, and of known content."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

START = 1_767_225_600
"""2026-01-01 00:00 UTC."""
TRAINING_JOB = "vision-2026-01-01-00-00-00-000"
DESCRIBED: dict[str, Any] = {
    "TrainingJobName": TRAINING_JOB,
    "TrainingJobArn": f"arn:aws:sagemaker:us-west-2:111122223333:training-job/{TRAINING_JOB}",
    "TrainingJobStatus": "Completed",
    "ResourceConfig": {"InstanceType": "ml.p3.2xlarge", "InstanceCount": 1},
    "TrainingStartTime": "2025-12-31T23:59:00+00:00",
    "TrainingEndTime": "2026-01-01T00:04:00+00:00",
    "HyperParameters": {"epochs": "3", "sagemaker_program": "train.py"},
}


def sagemaker(folder: Path, seconds: int = 180, gpu_pct: float = 60.0, nodes: int = 1) -> Path:
    """Write a job of one GPU and two cores, sampled twice a second, with a step each second."""
    output = folder / TRAINING_JOB / "profiler-output"
    for node in range(1, nodes + 1):
        for minute in range(0, seconds, 60):
            ticks = range(2 * minute, 2 * min(minute + 60, seconds))
            place = output / "system" / "incremental" / "2026010100"
            write_lines(
                place / f"{START + minute}.algo-{node}.json",
                [record for tick in ticks for record in tick_records(tick / 2, node, gpu_pct)],
            )
        name = f"{(START + seconds) * 10**6}_7-algo-{node}_pythontimeline.json"
        timeline = output / "framework" / "pevents" / "2026010100" / name
        timeline.parent.mkdir(parents=True, exist_ok=True)
        timeline.write_text(json.dumps(step_events(seconds)))
    (output / "system" / "training_job_end.ts").touch()
    return output.parent


def tick_records(second: float, node: int, gpu_pct: float) -> list[dict[str, Any]]:
    series = [
        ("cpu", "cpu0", "CPUUtilization", 40.0),
        ("cpu", "cpu1", "CPUUtilization", 20.0),
        ("cpu", "cpu0", "I/OWaitPercentage", 1.0),
        ("cpu", "cpu1", "I/OWaitPercentage", 3.0),
        ("gpu", "gpu0", "GPUUtilization", gpu_pct),
        ("gpu", "gpu0", "GPUMemoryUtilization", 30.0),
        ("memory", "MemoryUsedPercent", "", 50.0),
        ("i/o", "ReadThroughputInBytesPerSecond", "", 1000.0),
        ("network", "ReceiveBytesPerSecond", "Algorithm", 500.0),
    ]
    return [
        {
            "Type": kind,
            "Name": name,
            "Dimension": dimension,
            "Value": value,
            "NodeId": f"algo-{node}",
            "Timestamp": START + second + place * 1e-5,
        }
        for place, (kind, name, dimension, value) in enumerate(series)
    ]


def step_events(seconds: int) -> list[dict[str, Any]]:
    base = {"start_time_since_epoch_in_micros": START * 10**6}
    phase = {"name": "Step:ModeKeys.TRAIN"}
    events: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": 0, "args": base},
        {"name": "process_name", "ph": "M", "pid": 1, "args": phase},
    ]
    for step in range(10, seconds):
        args = {"pid": "7", "step_num": str(step)}
        event = {"ph": "X", "ts": step * 10**6, "dur": 900_000, "args": args}
        events.append({"name": phase["name"], "pid": 1, **event})
    return events


def write_lines(path: Path, records: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
