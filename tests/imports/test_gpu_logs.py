"""Recordings of GPUs by the tools of other vendors and people: AMD's, gpustat, nvitop."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.importers import formats
from advisor.importers.recording import NotImportableError, Samples
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts
from advisor.importers.tally import Tally
from advisor.offline.importing import ImportedRun, import_path

ROCM_HEAD = (
    "device,GPU use (%),GPU Memory Allocated (VRAM%),VRAM Total Memory (B),"
    "VRAM Total Used Memory (B),Average Graphics Package Power (W),Temperature (Sensor edge) (C),"
    "Temperature (Sensor junction) (C),sclk clock speed:,Card Series"
)
ROCM_ROWS = (
    "card0,97,50,68702699520,34351349760,300.0,N/A,61.0,(1700Mhz),AMD Instinct MI250X",
    "card1,N/A,1,68702699520,10977280,90.0,35.0,40.0,(800Mhz),AMD Instinct MI250X",
)
AMD_METRIC = """timestamp,gpu,gfx_activity,umc_activity,mm_activity,vcn_activity,socket_power,\
gfx_0_clk,mem_0_clk,edge,hotspot,mem
1789515524,0,0,0,N/A,"['N/A', 'N/A']",288,2402,2000,N/A,39,44
1789515524,1,5,1,N/A,"['N/A', 'N/A']",290,2402,2000,N/A,40,44
1789515526,0,95,80,N/A,"['N/A', 'N/A']",700,2402,2000,N/A,60,44
1789515526,1,96,81,N/A,"['N/A', 'N/A']",705,2402,2000,N/A,61,44
"""
AMD_MONITOR = """timestamp,gpu,xcp,power_usage,max_power,hotspot_temperature,gfx_clk,gfx,\
vram_used,vram_total
1789515524,0,0,131,750,37,131,4,{small}
1789515524,0,1,N/A,N/A,N/A,N/A,N/A,N/A,N/A
1789515525,0,0,431,750,37,131,98,{large}
"""
SCRIPTED = """timestamp,device,gpu_use_percent,gfx_activity,vram_total_bytes,vram_used_bytes
1754585969,card0,17,88231240,206141652992,150564020224
1754585969,card1,0,62262423,206141652992,298061824
1754585969,
1754586010,card0,100,88738974,206141652992,151140532224
1754586010,card1,0,62262423,206141652992,298078208
"""
"""The head of a public recording of MI300X: a script's names, and a counter as activity."""
LOST = {"index": 1, "name": "((GPU is lost))", "processes": None}
MIB, GIB = 2**20, 2**30


def imported(
    folder: Path, text: str, name: str = "gpus.csv", stated: StatedFacts | None = None
) -> ImportedRun:
    path = folder / name
    path.write_text(text)
    return import_path(path, stated or StatedFacts())


def samples(folder: Path, text: str, name: str = "gpus.csv") -> Samples:
    """Return the ticks of a file that has few."""
    path = folder / name
    path.write_text(text)
    recording = formats.open_recording(Source.from_path(path), StatedFacts(), Tally())
    (part,) = recording.parts(recording.nodes[0])
    assert isinstance(part, Samples)
    return part


def values(part: Samples, series: str) -> list[float | None]:
    return [None if math.isnan(v) else v for v in part.columns[series].tolist()]


def rocm(*times: str, alone: bool = False, before: bool = False) -> str:
    """Return a recording: each time on a line of its own, before each line, or nowhere."""
    lines = []
    for time in times:
        own = [ROCM_HEAD, *ROCM_ROWS]
        lines += [time] if alone else []
        lines += [f"{time} {line}" for line in own] if before else own
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        (rocm("2026-11-24T08:00:00+0000", "2026-11-24T08:00:02+0000", before=True), 1795507200),
        (rocm("Tue Nov 24 08:00:00 UTC 2026", "Tue Nov 24 08:00:02 UTC 2026", alone=True),
         1795507200),
        (rocm("1795507200", "1795507202", alone=True), 1795507200),
    ],
)  # fmt: skip
def test_what_rocm_smi_prints_is_read_by_its_columns(text, begins, tmp_path):
    part = samples(tmp_path, text)
    assert part.times_ms.tolist() == [begins * 1000, begins * 1000 + 2000]
    assert values(part, "gpu0.busy_pct") == [97, 97]
    assert values(part, "gpu1.busy_pct") == [None, None]
    assert values(part, "gpu0.memory_used_bytes") == [34351349760] * 2
    assert values(part, "gpu0.temperature_celsius") == [61] * 2
    assert values(part, "gpu1.temperature_celsius") == [35] * 2
    assert values(part, "gpu1.sm_clock_mhz") == [800] * 2
    (node,) = imported(tmp_path, text).imported.nodes
    assert [(gpu.model, gpu.memory_bytes) for gpu in node.declaration.node.gpus] == [
        ("AMD Instinct MI250X", 68702699520)
    ] * 2


def test_without_times_they_count_at_the_interval_that_is_stated(tmp_path):
    text = rocm("", "", "")
    with pytest.raises(NotImportableError, match="--interval-seconds"):
        imported(tmp_path, text)
    made = imported(tmp_path, text, stated=StatedFacts(interval_seconds=2.0)).imported
    (node,) = made.nodes
    assert (node.stored.ended_at - node.stored.started_at).total_seconds() == pytest.approx(
        4, abs=2
    )
    assert made.tally.records["samples"] == 3 * 11


def test_amds_metrics_are_read_with_their_unix_times(tmp_path):
    part = samples(tmp_path, AMD_METRIC)
    assert part.times_ms.tolist() == [1789515524000, 1789515526000]
    assert values(part, "gpu1.busy_pct") == [5, 96]
    assert values(part, "gpu0.memory_controller_busy_pct") == [0, 80]
    assert values(part, "gpu0.temperature_celsius") == [39, 60]
    assert values(part, "gpu0.power_watts") == [288, 700]


def test_what_a_script_around_rocm_smi_wrote_is_read_and_a_counter_is_no_percentage(tmp_path):
    part = samples(tmp_path, SCRIPTED)
    assert values(part, "gpu0.busy_pct") == [17, 100]
    assert values(part, "gpu1.busy_pct") == [0, 0]
    assert values(part, "gpu0.memory_used_bytes") == [150564020224, 151140532224]
    made = imported(tmp_path, SCRIPTED).imported
    (node,) = made.nodes
    assert [gpu.memory_bytes for gpu in node.declaration.node.gpus] == [206141652992] * 2
    counted = SCRIPTED.replace("gpu_use_percent,gfx_activity", "gpu use,gfx_activity")
    made = imported(tmp_path, counted).imported
    skipped = made.tally.skipped["values", "busy_pct outside 0 to 100"]
    assert (skipped.count, made.tally.records["samples"]) == (4, 4)


def test_a_line_without_its_last_values_has_the_others(tmp_path):
    text = "timestamp,device,power_watts,power_cap_watts\n"
    text += "1754585903,card0,152.0\n1754585903,card1,146.0,750\n1754585908,card0,153.0\n"
    part = samples(tmp_path, text)
    assert values(part, "gpu0.power_watts") == [152, 153]
    assert values(part, "gpu0.power_limit_watts") == [None, None]
    assert values(part, "gpu1.power_limit_watts") == [750, None]


@pytest.mark.parametrize(
    ("small", "large", "used"),
    [
        ("285,196288", "190000,196288", [285 * MIB, 190000 * MIB]),
        ("0.5,191.7", "180.5,191.7", [0.5 * GIB, 180.5 * GIB]),
        ("285 MB,191.7 GB", "180.5 GB,191.7 GB", [285 * MIB, 180.5 * GIB]),
    ],
)
def test_amds_monitor_is_read_in_the_unit_that_its_version_writes(small, large, used, tmp_path):
    text = AMD_MONITOR.format(small=small, large=large)
    part = samples(tmp_path, text)
    assert values(part, "gpu0.busy_pct") == [4, 98]
    assert values(part, "gpu0.memory_used_bytes") == used
    assert values(part, "gpu0.power_limit_watts") == [750, 750]
    tally = imported(tmp_path, text).imported.tally
    assert [each.count for each in tally.skipped.values() if "partition" in each.why] == [1]


def gpustat(second: int, **gpu: object) -> str:
    first = {"index": 0, "uuid": "GPU-1", "name": "NVIDIA A100", "temperature.gpu": 40,
             "utilization.gpu": 76, "power.draw": 125, "memory.used": 1024,
             "memory.total": 40960, "processes": []}  # fmt: skip
    said = {"hostname": "node-1", "driver_version": "550", "gpus": [first | gpu, LOST],
            "query_time": f"2026-11-24T08:00:{second:02}.250000"}  # fmt: skip
    return json.dumps(said, indent=4) + "\n"


def test_calls_of_gpustat_are_ticks_and_a_lost_gpu_is_there(tmp_path):
    text = gpustat(0) + gpustat(1, **{"utilization.gpu": None}) + gpustat(2)[:300] + gpustat(3)
    part = samples(tmp_path, text, "gpus.json")
    assert (part.times_ms - part.times_ms[0]).tolist() == [0, 1000, 3000]
    assert values(part, "gpu0.busy_pct") == [76, None, 76]
    assert values(part, "gpu0.memory_used_bytes") == [1024 * MIB] * 3
    made = imported(tmp_path, text, "gpus.json").imported
    (node,) = made.nodes
    assert node.stored.name == "node-1"
    assert [gpu.model for gpu in node.declaration.node.gpus] == ["NVIDIA A100", "unknown model"]
    assert [(each.count, each.why) for each in made.tally.skipped.values()] == [
        (1, "cut off or damaged")
    ]


def test_a_line_for_each_call_of_gpustat_is_the_same(tmp_path):
    lines = "\n".join(json.dumps(json.loads(gpustat(second))) for second in range(3))
    part = samples(tmp_path, lines, "gpus.jsonl")
    assert values(part, "gpu0.busy_pct") == [76] * 3


def test_what_nvitop_collected_is_read_by_its_columns(tmp_path):
    of_gpu = "train/cuda:0 (gpu:3)"
    head = (f"train/host/cpu_percent (%)/mean,train/host/cpu_percent (%)/max,"
            f"{of_gpu}/memory_used (MiB)/mean,{of_gpu}/gpu_utilization (%)/mean,"
            f"train/pid:7/{of_gpu[6:]}/gpu_sm_utilization (%)/mean,train/timestamp")  # fmt: skip
    text = f"{head}\n10,12,1024,50,1,1789515524.5\n20,21,2048,nan,2,1789515525.5\n"
    part = samples(tmp_path, text)
    assert {name: values(part, name) for name in part.columns} == {
        "host.cpu_busy_pct": [10, 20],
        "gpu0.memory_used_bytes": [1024 * MIB, 2048 * MIB],
        "gpu0.busy_pct": [50, None],
    }
    (node,) = imported(tmp_path, text).imported.nodes
    assert len(node.declaration.node.gpus) == 1


def test_gpus_are_numbered_from_0_if_only_some_were_recorded(tmp_path):
    text = "timestamp, index, utilization.gpu [%]\n"
    for second in range(3):
        for gpu in (3, 5):
            text += f"2026/01/01 00:00:0{second}.000, {gpu}, {gpu} %\n"
    made = imported(tmp_path, text).imported
    assert made.nodes[0].stored.series == {"gpu0.busy_pct", "gpu1.busy_pct"}
    assert "Not all GPUs were recorded: GPU 3 is shown as GPU 0, GPU 5 is shown as GPU 1." in (
        made.tally.notes
    )


RECORDINGS = (
    ("gpus.csv", rocm("1795507200", "1795507202", alone=True)),
    ("gpus.csv", AMD_METRIC),
    ("gpus.json", gpustat(0) + gpustat(1)),
)


@settings(max_examples=30)
@given(st.sampled_from(RECORDINGS), st.integers(0, 3000), st.integers(0, 3000), st.text(max_size=9))
def test_whatever_was_done_to_a_file_it_is_read_or_refused(
    tmp_path_factory, recording, cut, at, junk
):
    name, text = recording
    broken = (text[:at] + junk + text[at:])[: max(cut, 1)]
    path = tmp_path_factory.mktemp("gpus") / name
    path.write_bytes(broken.encode(errors="replace"))
    try:
        made = formats.open_recording(Source.from_path(path), StatedFacts(), Tally())
        parts = [part for part in made.parts(made.nodes[0]) if isinstance(part, Samples)]
    except NotImportableError:
        return
    times = np.concatenate([part.times_ms for part in parts]).tolist()
    assert times == sorted(set(times))
