"""GPUs, through the real command line, by a driver that we script."""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trimtab.sources.gpu.inventory import Card, Inventory, allocated_cards
from trimtab.sources.gpu.nvml import unwritten_mappings
from trimtab.sources.gpu.outages import Outages
from trimtab.wire import Gpu

from tests.agent.conftest import trimtab_command

GIB, MIB = 2**30, 2**20
OCCUPANTS = {
    "gpu0.tree_memory_used_bytes",
    "gpu0.other_processes_count",
    "gpu0.other_memory_used_bytes",
}


def _run(environment: dict[str, str], seconds: float) -> subprocess.Popen[str]:
    words = ["run", "--interval", "0.1", "--", "sleep", str(seconds)]
    return subprocess.Popen(
        trimtab_command(*words),
        env=environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _known(service, name: str) -> list[int | float]:
    return [value for value in service.series(name) if value is not None]


def test_what_the_driver_says_arrives_under_the_names_that_rules_ask_for(online, service, driver):
    driver.says(
        "gpus 2",
        "gpu0.busy 63",
        "gpu0.memory 4096",
        "gpu0.controller 31",
        "gpu0.power 412",
        "gpu0.temperature 71",
        "gpu0.sm_active 22.25",
        "gpu0.reasons 4",
        "gpu0.software_thermal_ns 250e6",
        "gpu0.hardware_thermal_ns 250e6",
        "gpu0.pcie_received 1e9",
    )
    assert _run(online | driver.environment, 1.5).wait(20) == 0
    assert set(_known(service, "gpu0.busy_pct")) == {63}
    assert set(_known(service, "gpu0.memory_used_bytes")) == {4 * GIB}
    assert set(_known(service, "gpu0.memory_controller_busy_pct")) == {31}
    assert set(_known(service, "gpu0.power_watts")) == {412}
    assert set(_known(service, "gpu0.temperature_celsius")) == {71}
    assert set(_known(service, "gpu0.sm_active_pct")) == {22.2}
    assert set(_known(service, "gpu0.throttle_reasons_bits")) == {4}
    assert set(_known(service, "gpu1.busy_pct")) == {0}
    received = _known(service, "gpu0.pcie_received_bytes_total")
    assert len(received) >= 8
    assert received == sorted(received)
    hot = _known(service, "gpu0.throttled_thermal_ns_total")
    share = (hot[-1] - hot[0]) / ((received[-1] - received[0]) / 1e9) / 1e9
    assert share == pytest.approx(0.5, abs=0.01)
    assert service.events("gpu_gap") == []


def test_a_counter_that_begins_again_at_4_gib_goes_on(online, service, driver):
    driver.says("gpus 1", "gpu0.pcie_sent 3e9", "gpu0.software_thermal_ns 1e9")
    assert _run(online | driver.environment, 3.0).wait(20) == 0
    sent = _known(service, "gpu0.pcie_sent_bytes_total")
    passed = _known(service, "gpu0.throttled_thermal_ns_total")
    assert sent == sorted(sent)
    assert sent[-1] - sent[0] > 2**32
    rate = (sent[-1] - sent[0]) / (passed[-1] - passed[0]) * 1e9
    assert rate == pytest.approx(3e9, rel=0.02)


def test_the_node_says_which_gpus_it_has_and_which_were_given(online, service, driver):
    driver.says("gpus 3", "gpu2.handle 0", "gpu2.answer 4")
    given_one = online | driver.environment | {"CUDA_VISIBLE_DEVICES": "1"}
    assert _run(given_one, 0.8).wait(20) == 0
    gpus = service.declarations[-1].node.gpus
    assert [gpu.model for gpu in gpus] == ["NVIDIA H100 80GB HBM3"] * 3
    assert [gpu.memory_bytes for gpu in gpus] == [80 * GIB] * 3
    assert [gpu.allocated for gpu in gpus] == [False, True, False]
    assert gpus[1].uuid == "GPU-000000a1-0000-0000-0000-000000000000"
    assert _known(service, "gpu0.busy_pct")
    assert not _known(service, "gpu2.busy_pct")


def test_tasks_that_were_given_a_gpu_each_are_given_both(online, service, driver):
    driver.says("gpus 4")
    shared = online | driver.environment | {"SLURM_JOB_ID": "77"}
    tasks = [_run(shared | {"CUDA_VISIBLE_DEVICES": gpu}, 2.5) for gpu in ("1", "3")]
    assert [task.wait(30) for task in tasks] == [0, 0]
    gpus = service.declarations[-1].node.gpus
    assert [gpu.allocated for gpu in gpus] == [False, True, False, True]


def test_a_gpu_that_hangs_costs_its_own_samples_only(online, service, driver):
    driver.says("gpus 2", "gpu*.busy 50")
    agent = _run(online | driver.environment, 9)
    time.sleep(1.5)
    driver.says("gpus 2", "gpu*.busy 50", "gpu0.hang 1")
    assert agent.wait(30) == 0
    (gap,) = [event.data for event in service.events("gpu_gap")]
    assert gap == {"gpu": 0, "reason": "no_answer"}
    assert len(_known(service, "host.memory_used_bytes")) >= 80
    late = _known(service, "agent.tick_late_ms")
    assert sum(late) / len(late) < 20
    hung, other = service.series("gpu0.busy_pct"), service.series("gpu1.busy_pct")
    assert hung[-5:] == [None] * 5
    assert all(value == 50 for value in other[-5:])
    assert "a sample was lost" not in agent.stderr.read()


def test_a_driver_that_hangs_when_it_is_opened_never_blocks_the_command(online, service, driver):
    driver.says("init.hang 1")
    began = time.monotonic()
    assert _run(online | driver.environment, 0.5).wait(20) == 0
    assert time.monotonic() - began < 5
    assert _known(service, "host.memory_used_bytes")


@pytest.mark.long
def test_a_lost_gpu_is_a_gap_and_comes_back(online, service, driver):
    driver.says("gpus 2", "gpu*.busy 50")
    agent = _run(online | driver.environment, 13.5)
    time.sleep(1.2)
    driver.says("gpus 2", "gpu*.busy 50", "gpu1.answer 15", "gpu1.xid 79")
    time.sleep(3)
    driver.says("gpus 2", "gpu*.busy 70", "gpu1.xid 79")
    assert agent.wait(30) == 0
    assert [e.data for e in service.events("gpu_gap")] == [{"gpu": 1, "reason": "gpu_is_lost"}]
    (back,) = [event.data for event in service.events("gpu_back")]
    assert back["gpu"] == 1
    assert back["seconds"] == pytest.approx(10, abs=1)
    assert [e.data for e in service.events("gpu_xid")] == [{"gpu": 1, "xid": 79}]
    series = service.series("gpu1.busy_pct")
    assert None in series[10:]
    assert series[-2] == 70
    assert len(_known(service, "gpu0.busy_pct")) > len(_known(service, "gpu1.busy_pct")) + 70


@pytest.mark.parametrize(
    ("code", "reason"),
    [(9, "driver_not_loaded"), (4, "no_permission"), (18, "lib_rm_version_mismatch")],
)
def test_a_driver_that_refuses_is_named_once(online, service, driver, code, reason):
    driver.says(f"init {code}")
    assert _run(online | driver.environment, 0.6).wait(20) == 0
    (gap,) = [event.data for event in service.events("gpu_gap")]
    assert gap == {"gpu": None, "reason": reason}
    assert _known(service, "host.memory_used_bytes")


def test_what_a_gpu_does_not_offer_is_missing_and_never_zero(online, service, driver):
    missing = (
        "mps_processes",
        "samples",
        "utilization",
        "fields",
        "gpm",
        "power",
        "energy",
        "temperature",
        "reasons",
        "link",
    )
    driver.says("gpus 1", *(f"gpu0.no.{name} 1" for name in missing), "gpu0.memory 100")
    assert _run(online | driver.environment, 2.5).wait(40) == 0
    names = {n for s in service.segments for b in s.blocks for n in b.columns if "gpu" in n}
    assert names == {
        "gpu0.memory_used_bytes",
        "gpu0.sm_clock_mhz",
        "gpu0.memory_clock_mhz",
    } | (OCCUPANTS if _is_first_namespace() else set())


def test_slices_have_memory_and_activity_and_the_whole_has_no_made_up_use(online, service, driver):
    driver.says("gpus 1", "gpu0.mig 2", "gpu0.mig_memory 2048", "gpu0.sm_active 35")
    ours = "MIG-000000a0-0000-0000-0000-000000000002"
    environment = online | driver.environment | {"CUDA_VISIBLE_DEVICES": ours}
    assert _run(environment, 0.8).wait(20) == 0
    assert not _known(service, "gpu0.busy_pct")
    for number in (0, 1):
        assert set(_known(service, f"gpu0.mig{number}.memory_used_bytes")) == {2 * GIB}
        assert set(_known(service, f"gpu0.mig{number}.sm_active_pct")) == {35}
    assert [gpu.allocated for gpu in service.declarations[-1].node.gpus] == [True]


def test_processes_of_others_are_told_apart_from_the_runs_own(online, service, driver):
    """The agent's command names its process to the driver, which says what it holds."""
    driver.says("gpus 1", "gpu0.other_pid 1", "gpu0.other_memory 900", "gpu0.mps_pid 2")
    script = (
        "import os, sys, time; f = open(sys.argv[1], 'a');"
        "f.write(f'gpu0.pid {os.getpid()}\\ngpu0.pid_memory 640\\n'); f.close(); time.sleep(1.5)"
    )
    words = ["run", "--interval", "0.1", "--", sys.executable, "-c", script]
    path = driver.environment["TRIMTAB_FAKE_NVML"]
    agent = subprocess.run(
        [*trimtab_command(*words), path], env=online | driver.environment, timeout=20
    )
    assert agent.returncode == 0
    assert _known(service, "gpu0.tree_memory_used_bytes")[-1] == 640 * MIB
    assert _known(service, "gpu0.other_processes_count")[-1] == 2
    assert _known(service, "gpu0.other_memory_used_bytes")[-1] == 1800 * MIB
    assert [event.data for event in service.events("gpu_mps")] == [{"gpu": 0}]


def test_a_dear_driver_is_asked_rarely_and_the_run_says_what_became_rarer(online, service, driver):
    driver.says(
        "gpus 1",
        "gpu0.busy 40",
        "gpu0.sm_active 30",
        "gpu0.price.gpm_metrics 60",
        "gpu0.price.samples 90",
    )
    assert _run(online | driver.environment, 4).wait(20) == 0
    (event,) = service.events("gpu_queries")
    assert "busy_pct not at all" in event.data["rarer"]
    assert "sm_active_pct every " in event.data["rarer"]
    assert event.data["cpu_ms_a_second"] <= 1.0
    assert set(_known(service, "gpu0.busy_pct")) == {40}
    assert _known(service, "gpu0.sm_active_pct")[-1] == 30


def test_the_last_ticks_of_a_run_have_what_is_asked_rarely(online, service, driver):
    driver.says("gpus 1", "gpu0.busy 40", "gpu0.sm_active 30", "gpu0.software_thermal_ns 5e8")
    assert _run(online | driver.environment, 3.5).wait(20) == 0
    for name, value in (("gpu0.sm_active_pct", 30), ("gpu0.busy_pct", 40)):
        column = service.series(name)
        assert column[-1] == value
        assert column.count(None) <= 4, "before the driver was open"
    hot = _known(service, "gpu0.throttled_thermal_ns_total")
    steps = [after - before for before, after in pairwise(hot)]
    assert max(steps) < 3 * sorted(steps)[len(steps) // 2], "evenly, though it was read rarely"


def test_without_a_driver_nothing_of_nvidia_is_loaded(environment):
    script = (
        "import sys; from trimtab.sources import Gpus\n"
        "try: Gpus(print, print, {})\n"
        "except OSError: print('ctypes' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True
    )
    assert done.stdout == "False\n"


SMAPS = """\
1000-2000 r-xp 00000000 fe:00 11 /usr/lib/libcuda.so.580
Anonymous:             0 kB
Swap:                  0 kB
2000-3000 r--p 00001000 fe:00 11 /usr/lib/libcuda.so.580
Anonymous:             4 kB
Swap:                  0 kB
3000-4000 r--p 00001000 fe:00 11 /usr/lib/libnvidia-ml.so.1
Anonymous:             0 kB
Swap:                  8 kB
4000-5000 rw-p 00002000 fe:00 11 /usr/lib/libssl.so.3
Anonymous:             0 kB
Swap:                  0 kB
5000-6000 r--s 00000000 00:05 9 /dev/nvidiactl
Anonymous:             0 kB
Swap:                  0 kB
6000-7000 r--p 00000000 00:05 9 /dev/nvidia0
Anonymous:             0 kB
Swap:                  0 kB
7000-8000 r-xp 00000000 fe:00 12 /usr/lib/replaced.so (deleted)
Anonymous:             0 kB
Swap:                  0 kB
8000-9000 r-xp 00000000 00:00 0 [vdso]
Anonymous:             0 kB
Swap:                  0 kB
9000-a000 r--p 00000000 fe:00 13 /usr/bin/python3.12
Anonymous:             0 kB
Swap:                  0 kB
"""


def test_only_unwritten_pages_of_the_driver_s_libraries_are_given_back():
    assert list(unwritten_mappings(SMAPS.splitlines())) == [(0x1000, 0x2000)]


def _is_first_namespace() -> bool:
    return str(Path("/proc/self/ns/pid").readlink()) == "pid:[4026531836]"


CARDS = [
    Card("H100", 1, "GPU-8932f937-d72c", ("MIG-11aa-0", "MIG-22bb-0")),
    Card("H100", 1, "GPU-1111f937-d72c"),
    Card("H100", 1, "GPU-1122f937-d72c"),
]


@pytest.mark.parametrize(
    ("visible", "ours"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("2,0", [0, 2]),
        (" 1 , 2", [1, 2]),
        ("0,7,1", [0]),
        ("0,-1,1", [0]),
        ("GPU-8932", [0]),
        ("gpu-1122F937-d72c,GPU-1111", [1, 2]),
        ("GPU-11", []),
        ("MIG-22bb-0", [0]),
        ("MIG-GPU-1111f937-d72c/3/0", [1]),
        ("MIG-unknown,1", []),
    ],
)
def test_visible_devices_are_read_as_cuda_reads_them(visible, ours):
    assert allocated_cards(visible, CARDS) == [number in ours for number in range(3)]


@given(st.text(alphabet="0123456789,-GPUMIGabcdef /"))
def test_no_value_of_visible_devices_breaks_the_agent(visible):
    assert len(allocated_cards(visible, CARDS)) == 3


def test_the_list_of_gpus_is_reported_only_when_it_has_grown():
    told: list[list[Gpu]] = []
    inventory = Inventory(told.append, {"CUDA_VISIBLE_DEVICES": "0"})
    inventory.say()
    inventory.expect(0)
    inventory.expect(1)
    inventory.say()
    assert told == []
    inventory.add(1, CARDS[1])
    inventory.say()
    inventory.say()
    inventory.add(0, CARDS[0])
    inventory.say()
    inventory.deny(0)
    inventory.say()
    assert [[(gpu.uuid, gpu.allocated) for gpu in gpus] for gpus in told] == [
        [("", True), (CARDS[1].uuid, False)],
        [(CARDS[0].uuid, True), (CARDS[1].uuid, False)],
        [(CARDS[0].uuid, False), (CARDS[1].uuid, True)],
    ]


def test_pauses_grow_and_each_outage_is_recorded_once(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("trimtab.sources.gpu.outages.time.monotonic", lambda: now[0])
    told: list[tuple[str, dict]] = []
    outages = Outages(lambda kind, data: told.append((kind, data)))
    tried = []
    while now[0] < 3600:
        if outages.may_try(0):
            tried.append(now[0])
            outages.began(0, "gpu_is_lost")
        now[0] += 1
    assert tried[:5] == [0, 10, 30, 70, 150]
    assert tried[-1] - tried[-2] == 600
    outages.end_outage(0)
    assert [kind for kind, _ in told] == ["gpu_gap", "gpu_back"]
    assert told[-1][1] == {"gpu": 0, "seconds": 3600.0}


def test_the_agent_continues_after_it_gave_memory_back(online, service, driver):
    """Nothing is lost that the driver's library needs."""
    driver.says("gpus 1", "gpu0.busy 40", "gpu0.sm_active 30")
    assert _run(online | driver.environment, 2.5).wait(20) == 0
    assert _known(service, "gpu0.busy_pct")[-1] == 40
    assert service.events("session_end")
