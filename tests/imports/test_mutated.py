"""An importer refuses damaged and hostile files of every format, or takes what is left."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle
from pathlib import Path

import pytest

from advisor.importers.recording import NotImportableError
from advisor.importers.stated_facts import StatedFacts
from advisor.offline.analysis import report_of
from advisor.offline.importing import import_path
from advisor.sizing.demand import BALANCED
from tests.imports import (
    messages,
    nsys_files,
    test_csv,
    test_dcgm_dmon,
    test_gpu_logs,
    test_nvidia_smi,
    test_prometheus,
    test_sagemaker,
    test_torch_trace,
    test_xspace,
)
from tests.imports.folders import sagemaker
from tests.imports.mutating import mutations
from tests.imports.test_torch_trace import event, kernel

FORMATS = (
    *("sagemaker", "dcgm", "prometheus", "query", "dmon", "csv", "torch"),
    *("dcgmi", "nsys", "tensorboard", "wandb", "xspace", "mlflow", "amd", "gpustat"),
)
MANY = 8_000
"""The number of files of each format: over 100,000 together."""


def recording(form: str, folder: Path) -> StatedFacts:
    """Write a recording into the folder, and return what is said about it."""
    folder.mkdir()
    if form == "sagemaker":
        sagemaker(folder / "whole", seconds=20)
        test_sagemaker.reports(folder / "reports", 0.0)
    elif form == "dcgm":
        times = list(range(1_767_225_600_000, 1_767_225_660_000, 1000))
        columns = {"Timestamp": times, "DCGMI - GPU Utilization": [50] * 60}
        (folder / "gpu.json").write_text(json.dumps(columns))
    elif form == "prometheus":
        series = [test_prometheus.series("DEV_GPU_UTIL", ["50"] * 20, gpu=gpu) for gpu in "01"]
        test_prometheus.written(folder, *series)
    elif form == "query":
        test_nvidia_smi.written(folder, test_nvidia_smi.QUERY)
    elif form == "dmon":
        test_nvidia_smi.written(folder, test_nvidia_smi.DMON, "dmon.txt")
    elif form == "csv":
        begin = test_csv.START
        rows = "".join(f"{begin + 2 * n},{n},{n / 7}\n" for n in range(30))
        test_csv.written(folder, f"time,GPU,host.cpu_busy_pct\n{rows}")
        return StatedFacts(columns={"GPU": "gpu0.busy_pct"})
    elif form == "dcgmi":
        test_dcgm_dmon.written(folder)
        return test_dcgm_dmon.STATED
    elif form == "nsys":
        nsys(folder)
    elif form == "tensorboard":
        events = (messages.scalar("loss", n, n, n, is_tensor=n % 2 == 0) for n in range(30))
        messages.event_file(folder, messages.session({"lr": 0.1, "on": True}), *events)
    elif form == "xspace":
        spans = [(name, 10.0 * n, 9.0) for n in range(20) for name in ("train", "Run")]
        device = test_xspace.gpu().line("Stream #1", *spans)
        test_xspace.written(folder, test_xspace.threads(*spans), device)
    elif form == "mlflow":
        mlflow(folder)
    elif form == "amd":
        (folder / "gpus.csv").write_text(test_gpu_logs.AMD_METRIC)
    elif form == "gpustat":
        calls = [test_gpu_logs.gpustat(second) for second in range(5)]
        (folder / "gpus.json").write_text("".join(calls))
    elif form == "wandb":
        messages.wandb_file(folder, wandb_records())
    else:
        test_torch_trace.written(folder, list(trace()), host_name="a")
    return StatedFacts()


def mlflow(folder: Path) -> None:
    begin = 1_767_225_600_000
    info = {"status": "FINISHED", "start_time": begin, "end_time": begin + 30_000}
    data = {"params": [{"key": "lr", "value": "0.1"}], "tags": [{"key": "a", "value": "b"}]}
    document = {"experiment": "vision", "run": {"info": info, "data": data}}
    (folder / "mlflow-run.json").write_text(json.dumps(document))
    (folder / "metrics").mkdir()
    for key in ("loss", "system/gpu_0_utilization_percentage"):
        points = [{"timestamp": begin + 1000 * n, "value": n, "step": n} for n in range(30)]
        path = folder / "metrics" / f"{key.replace('/', '-')}.json"
        path.write_text(json.dumps({"key": key, "metrics": points}))


def nsys(folder: Path) -> None:
    export = nsys_files.Export(folder / "a.sqlite")
    for number in range(20):
        export.range(f"step {number}", 10 * number, 9)
        export.kernel("gemm<float>", 10 * number, 4)
        export.copy(1, 10 * number + 4, 1)
        export.call("cudaLaunchKernel", 10 * number, 1)
    export.metric("SMs Active [Throughput %]", range(20))
    export.saved()


def wandb_records() -> Iterator[bytes]:
    yield messages.wandb_run({"lr": 0.1, "model": {"depth": 3}}, project="vision", host="n1")
    for number in range(20):
        yield messages.wandb_history(number, number, loss=1 / (number + 1), note="x" * 2_000)
        yield messages.wandb_stats(number, {"gpu.0.gpu": 50, "cpu.0.cpu_percent": 10.5})


def trace() -> Iterator[object]:
    for number in range(20):
        at = 1000 * number
        yield event(f"ProfilerStep#{number}", at, 900, "user_annotation")
        yield event("aten::mm", at + 10, 500)
        yield kernel("gemm", at + 20, 400)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "count", [25, pytest.param(MANY, marks=[pytest.mark.long, pytest.mark.timeout(3000)])]
)
def test_no_importer_crashes_or_hangs(form, count, tmp_path):
    whole = tmp_path / "whole"
    stated = recording(form, whole)
    bodies = {p.relative_to(whole): p.read_bytes() for p in whole.rglob("*") if p.is_file()}
    chance = random.Random(20)
    for number in range(count):
        folder = tmp_path / f"mutated-{number % 10}"
        for name, body in bodies.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(mutations(body, chance) if chance.random() < 0.7 else body)
        with suppress(NotImportableError):
            run = import_path(folder, stated)
            json.dumps(run.imported.document()).encode()
            if number % 20 == 0:
                report_of(run.run, run.timeline, BALANCED, run.timeline.ended_at)


NASTY = (None, [], {}, -1, 10**400, 1e308, "x", True, [1], {"a": 1})


@pytest.mark.parametrize("key", ["ph", "cat", "name", "pid", "tid", "ts", "dur", "args"])
def test_a_value_of_another_kind_costs_only_its_event(key, tmp_path):
    events = [dict(each) for each in trace()]  # type: ignore[call-overload]
    for spoilt, value in zip(events[:30], cycle(NASTY), strict=False):
        spoilt[key] = value
    path = test_torch_trace.written(tmp_path, events)
    run = import_path(path, StatedFacts())
    assert run.imported.tally.records["operations"] >= 30
