"""Sources against the real kernel and against recorded kernel files."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trimtab.sources import ProcessTree, machine_sources
from trimtab.sources.container import Container, Groups, effective_cpus, effective_memory_bytes
from trimtab.sources.disk import Disks
from trimtab.sources.host import HostCpu, HostMemory
from trimtab.sources.network import Network
from trimtab.sources.tree import NeverFalling
from trimtab.wire.limits import SERIES_NAME

TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")
BURN = "import time\nwhile time.process_time() < {seconds}: pass\n"


def test_every_series_has_a_wire_name_and_a_number():
    for source in machine_sources():
        for name, value in source.read().items():
            assert SERIES_NAME.match(name)
            assert value is None or value >= 0


def test_cpu_percentages_follow_the_kernels_counters(tmp_path):
    stat = tmp_path / "stat"
    stat.write_text("cpu 100 0 100 800 0 0 0 0 0 0\ncpu0 100 0 100 800 0 0 0 0 0 0\nintr 1\n")
    source = HostCpu(str(stat))
    later = ["cpu 130 10 110 830 10 5 5 10 40 0", "cpu0 125 0 100 825 50 0 0 0 0 0", "intr 2"]
    stat.write_text("\n".join(later))
    reading = source.read()
    assert reading == {
        "host.cpu_busy_pct": 63.6,
        "host.cpu_user_pct": 36.4,
        "host.cpu_system_pct": 18.2,
        "host.cpu_iowait_pct": 9.1,
        "host.cpu_steal_pct": 9.1,
        "cpu0.busy_pct": 25,
    }


def test_too_short_an_interval_gives_no_percentage(tmp_path):
    stat = tmp_path / "stat"
    stat.write_text("cpu 100 0 100 800 0 0 0 0\n")
    source = HostCpu(str(stat))
    stat.write_text("cpu 101 0 100 802 0 0 0 0\n")
    assert source.read() == {}


def test_a_counter_that_falls_back_is_no_negative_percentage(tmp_path):
    stat = tmp_path / "stat"
    stat.write_text("cpu 100 0 100 800 50 0 0 0\n")
    source = HostCpu(str(stat))
    stat.write_text("cpu 150 0 100 850 40 0 0 0\n")
    assert source.read()["host.cpu_iowait_pct"] == 0


def test_host_memory_agrees_with_psutil():
    reading, expected = HostMemory().read(), psutil.virtual_memory()
    tolerance = 200 * 2**20
    assert reading["host.memory_available_bytes"] == pytest.approx(
        expected.available, abs=tolerance
    )
    whole = reading["host.memory_used_bytes"] + reading["host.memory_available_bytes"]
    assert whole == pytest.approx(expected.total, abs=2**20)


def test_only_whole_disks_count(tmp_path):
    (tmp_path / "diskstats").write_text(
        " 259 0 nvme0n1 10 0 100 5 20 0 200 5 0 1500 10 0 0 0 0\n"
        " 259 1 nvme0n1p1 10 0 100 5 20 0 200 5 0 1500 10 0 0 0 0\n"
        "   7 0 loop0 99 0 999 5 99 0 999 5 0 9999 10 0 0 0 0\n"
        " 253 0 dm-0 10 0 100 5 20 0 200 5 0 1500 10 0 0 0 0\n"
    )
    (tmp_path / "block/nvme0n1/device").mkdir(parents=True)
    (tmp_path / "block/loop0").mkdir()
    reading = Disks(str(tmp_path / "diskstats"), str(tmp_path / "block")).read()
    assert reading == {
        "disk.read_bytes_total": 51_200,
        "disk.written_bytes_total": 102_400,
        "disk.read_ops_total": 10,
        "disk.written_ops_total": 20,
        "disk.busy_seconds_total": 1.5,
    }


_NET = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets
    lo: 9999999 1 0 0 0 0 0 0 9999999 1 0 0 0 0 0 0
  eth0: 1048576 1 0 0 0 0 0 0 2097152 1 0 0 0 0 0 0
docker0: 1048576 1 0 0 0 0 0 0 2097152 1 0 0 0 0 0 0
"""


def test_bridges_do_not_count_twice_and_a_containers_interface_counts(tmp_path):
    (tmp_path / "dev").write_text(_NET)
    (tmp_path / "host/eth0/device").mkdir(parents=True)
    on_host = Network(str(tmp_path / "dev"), str(tmp_path / "host")).read()
    assert on_host == {"net.received_bytes_total": 2**20, "net.sent_bytes_total": 2**21}
    inside = Network(str(tmp_path / "dev"), str(tmp_path / "none")).read()
    assert inside["net.received_bytes_total"] == 2**21


def _v2(tmp_path: Path) -> Groups:
    (tmp_path / "cgroup").write_text("0::/job/part\n")
    (tmp_path / "mountinfo").write_text(f"31 23 0:28 / {tmp_path}/fs rw - cgroup2 cgroup2 rw\n")
    part = tmp_path / "fs/job/part"
    part.mkdir(parents=True)
    (part / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    (part / "cpu.max").write_text("max 100000\n")
    (part.parent / "cpu.max").write_text("150000 100000\n")
    (part / "memory.current").write_text(f"{300 * 2**20}\n")
    (part / "memory.stat").write_text(f"anon 1\ninactive_file {100 * 2**20}\n")
    (part / "memory.max").write_text("max\n")
    (part.parent / "memory.max").write_text(f"{2**30}\n")
    return Groups(tmp_path)


def test_a_version_2_group_is_read_and_the_tightest_limit_above_holds(tmp_path):
    groups = _v2(tmp_path)
    assert Container(groups).read() == {
        "container.cpu_seconds_total": 2.5,
        "container.memory_working_set_bytes": 200 * 2**20,
    }
    assert effective_cpus(groups) == min(1.5, len(os.sched_getaffinity(0)))
    assert effective_memory_bytes(groups, 2**40) == 2**30


def test_a_version_1_group_is_read_and_a_limit_near_2_to_the_63_is_none(tmp_path):
    (tmp_path / "cgroup").write_text(
        "5:cpuacct:/docker/ab\n4:cpu:/docker/ab\n3:memory:/docker/ab\n"
    )
    kinds = ("cpuacct", "cpu", "memory")
    lines = [
        f"3{n} 31 0:3{n} /docker/ab {tmp_path}/fs/{name} rw - cgroup cgroup rw,{name}\n"
        for n, name in enumerate(kinds)
    ]
    (tmp_path / "mountinfo").write_text("".join(lines))
    contents = {
        "cpuacct/cpuacct.usage": "1250000000",
        "cpu/cpu.cfs_quota_us": "50000",
        "cpu/cpu.cfs_period_us": "100000",
        "memory/memory.usage_in_bytes": str(64 * 2**20),
        "memory/memory.stat": f"inactive_file 1\ntotal_inactive_file {32 * 2**20}",
        "memory/memory.limit_in_bytes": "9223372036854771712",
    }
    for name, content in contents.items():
        (tmp_path / "fs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "fs" / name).write_text(content + "\n")
    groups = Groups(tmp_path)
    assert Container(groups).read() == {
        "container.cpu_seconds_total": 1.25,
        "container.memory_working_set_bytes": 32 * 2**20,
    }
    assert effective_cpus(groups) == 0.5
    assert effective_memory_bytes(groups, 8 * 2**30) == 8 * 2**30


def test_the_machines_root_group_is_no_container(tmp_path):
    (tmp_path / "cgroup").write_text("3:memory:/\n0::/\n")
    (tmp_path / "mountinfo").write_text(
        f"31 23 0:28 / {tmp_path}/v2 rw - cgroup2 cgroup2 rw\n"
        f"32 23 0:29 / {tmp_path}/v1 rw - cgroup cgroup rw,memory\n"
    )
    for name in ("v1/cgroup.sane_behavior", "v1/memory.usage_in_bytes", "v2/cpu.stat"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("0\n")
    assert Container(Groups(tmp_path)).read() == {}


def test_the_tree_counts_children_and_keeps_what_dead_ones_used():
    child = BURN.format(seconds=0.4)
    script = (
        "import subprocess, sys, time\n"
        f"subprocess.run([sys.executable, '-c', {child!r}])\n"
        "print('reaped', flush=True)\n"
        f"subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "time.sleep(1.5)\n"
    )
    root = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    tree = ProcessTree(root.pid)
    totals, most = [], 0
    while root.poll() is None:
        reading = tree.read()
        totals.append(reading["tree.cpu_seconds_total"])
        most = max(most, reading.get("tree.processes_count") or 0)
        time.sleep(0.05)
    totals.append(tree.read()["tree.cpu_seconds_total"])
    assert totals == sorted(totals)
    assert most == 2
    # The kernel counts in ticks of 10 ms and drops what is left of each.
    assert 0.8 - 4 * TICK_SECONDS <= totals[-1] < 1.5


def test_a_child_that_nobody_waited_for_still_counts():
    """Its parent ignores its children's end, so the kernel adds their time to nobody."""
    child = BURN.format(seconds=0.4)
    script = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        f"subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "time.sleep(2)\n"
    )
    root = subprocess.Popen([sys.executable, "-c", script])
    tree = ProcessTree(root.pid)
    time.sleep(0.15)
    totals = []
    while root.poll() is None:
        totals.append(tree.read()["tree.cpu_seconds_total"])
        time.sleep(0.05)
    assert totals == sorted(totals)
    assert totals[-1] >= 0.35


def test_the_tree_of_a_run_ends_with_what_the_kernel_counted(trimtab, online, service):
    burn = BURN.format(seconds=0.3)
    script = f"{sys.executable} -c '{burn}'; {sys.executable} -c '{burn}'"
    trimtab(online, "run", "--", "bash", "-c", script)
    totals = service.series("tree.cpu_seconds_total")
    assert totals == sorted(totals)
    assert 0.6 - 4 * TICK_SECONDS <= totals[-1] < 1.2


@given(st.lists(st.floats(0, 1e9), max_size=40))
def test_a_total_over_processes_never_falls(living):
    total = NeverFalling()
    shown = [total.total(value) for value in living]
    assert shown == sorted(shown)


def test_a_loss_that_stays_is_carried_and_one_that_was_a_race_is_not():
    lost = NeverFalling()
    for value in (10.0, 4.0, 4.0, 4.0, 4.0, 4.0):
        lost.total(value)
    assert lost.total(5.0) == 11.0
    race = NeverFalling()
    for value in (10.0, 4.0, 10.5):
        race.total(value)
    assert race.total(11.0) == 11.0
