"""Sources against the real kernel and against recorded kernel files."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trimtab.sources import ProcessTree, machine_sources
from trimtab.sources.container import (
    ContainerCpu,
    ContainerMemory,
    Groups,
    effective_cpus,
    effective_memory_bytes,
)
from trimtab.sources.disk import Disks
from trimtab.sources.fabric import Fabric
from trimtab.sources.filesystems import FileSystems
from trimtab.sources.host import HostCpu, HostMemory
from trimtab.sources.network import Network, Tcp
from trimtab.sources.never_falling import NeverFalling
from trimtab.sources.paging import Paging
from trimtab.sources.pressure import Pressure
from trimtab.sources.process import run_delay_seconds
from trimtab.sources.remote import Lustre, Nfs
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
        "disk.queued_seconds_total": 0.01,
    }


_NET = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets
    lo: 9999999 1 0 0 0 0 0 0 9999999 1 0 0 0 0 0 0
  eth0: 1048576 1 1 2 0 0 0 0 2097152 1 4 0 0 0 0 0
docker0: 1048576 1 0 0 0 0 0 0 2097152 1 0 0 0 0 0 0
"""


def test_bridges_do_not_count_twice_and_a_containers_interface_counts(tmp_path):
    (tmp_path / "dev").write_text(_NET)
    (tmp_path / "host/eth0/device").mkdir(parents=True)
    on_host = Network(str(tmp_path / "dev"), str(tmp_path / "host")).read()
    assert on_host == {
        "net.received_bytes_total": 2**20,
        "net.sent_bytes_total": 2**21,
        "net.lost_packets_total": 7,
    }
    inside = Network(str(tmp_path / "dev"), str(tmp_path / "none")).read()
    assert inside["net.received_bytes_total"] == 2**21


_PRESSURE = (
    "some avg10=1.50 avg60=0.00 avg300=0.00 total=700000\n"
    "full avg10=0 avg60=0 avg300=0 total=300000\n"
)


def version_2_group(tmp_path: Path) -> Groups:
    (tmp_path / "cgroup").write_text("0::/job/part\n")
    (tmp_path / "mountinfo").write_text(f"31 23 0:28 / {tmp_path}/fs rw - cgroup2 cgroup2 rw\n")
    part = tmp_path / "fs/job/part"
    part.mkdir(parents=True)
    stat = (
        "usage_usec 2500000\nuser_usec 1\nnr_periods 40\nnr_throttled 10\nthrottled_usec 250000\n"
    )
    (part / "cpu.stat").write_text(stat)
    (part / "memory.events").write_text("low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\n")
    (part / "cgroup.type").write_text("domain\n")
    for kind in ("cpu", "io", "memory"):
        (part / f"{kind}.pressure").write_text(_PRESSURE)
    (part / "cpu.max").write_text("max 100000\n")
    (part.parent / "cpu.max").write_text("150000 100000\n")
    (part / "memory.current").write_text(f"{300 * 2**20}\n")
    (part / "memory.stat").write_text(f"anon 1\ninactive_file {100 * 2**20}\n")
    (part / "memory.max").write_text("max\n")
    (part.parent / "memory.max").write_text(f"{2**30}\n")
    return Groups(tmp_path)


def test_a_version_2_group_is_read_and_the_lowest_limit_applies(tmp_path):
    groups = version_2_group(tmp_path)
    assert ContainerCpu(groups).read() | ContainerMemory(groups).read() == {
        "container.cpu_seconds_total": 2.5,
        "container.cpu_periods_total": 40,
        "container.cpu_throttled_periods_total": 10,
        "container.cpu_throttled_seconds_total": 0.25,
        "container.memory_working_set_bytes": 200 * 2**20,
        "container.memory_limit_hits_total": 3,
        "container.oom_kills_total": 1,
    }
    assert effective_cpus(groups) == min(1.5, len(os.sched_getaffinity(0)))
    assert effective_memory_bytes(groups, 2**40) == 2**30


def test_a_group_without_a_quota_has_no_throttling(tmp_path):
    groups = version_2_group(tmp_path)
    (tmp_path / "fs/job/part/cpu.stat").write_text("usage_usec 7\nnr_periods 0\nnr_throttled 0\n")
    assert not any("throttled" in name for name in ContainerCpu(groups).read())


def pressure_files(folder: Path) -> Path:
    for kind, total in (("cpu", 11_400), ("io", 22_600), ("memory", 33_000)):
        lines = _PRESSURE.replace("700000", str(total)).replace("300000", "5400")
        (folder / kind).write_text(lines)
    return folder


def test_pressure_is_measured_for_the_machine_and_for_the_container(tmp_path):
    groups = version_2_group(tmp_path)
    (tmp_path / "pressure").mkdir()
    assert Pressure(str(pressure_files(tmp_path / "pressure")), groups).read() == {
        "host.psi_cpu_some_us_total": 11_000,
        "host.psi_io_some_us_total": 23_000,
        "host.psi_io_full_us_total": 5_000,
        "host.psi_memory_some_us_total": 33_000,
        "host.psi_memory_full_us_total": 5_000,
        "container.psi_cpu_some_us_total": 700_000,
        "container.psi_io_some_us_total": 700_000,
        "container.psi_io_full_us_total": 300_000,
        "container.psi_memory_some_us_total": 700_000,
        "container.psi_memory_full_us_total": 300_000,
    }


def test_a_kernel_without_pressure_has_no_such_source(tmp_path):
    (tmp_path / "cgroup").write_text("0::/\n")
    (tmp_path / "mountinfo").write_text("")
    with pytest.raises(OSError, match="pressure"):
        Pressure(str(tmp_path / "pressure"), Groups(tmp_path))


def test_paging_is_in_bytes_and_what_a_kernel_does_not_count_is_missing(tmp_path):
    (tmp_path / "vmstat").write_text("nr_free_pages 9\npgmajfault 12\npswpin 3\npswpout 0\n")
    page = os.sysconf("SC_PAGE_SIZE")
    assert Paging(str(tmp_path / "vmstat")).read() == {
        "host.major_faults_total": 12,
        "host.swapped_in_bytes_total": 3 * page,
        "host.swapped_out_bytes_total": 0,
    }


MOUNTSTATS = """device /dev/sda1 mounted on / with fstype ext4
device store:/data mounted on /data with fstype nfs4 statvers=1.1
\tbytes:\t1 2 3 4 10485760 2097152 7 8
\tREAD: 40 40 0 5000 10490000 3 150 1250 0
\tWRITE: 8 8 0 2100000 900 1 40 250 0
\tGETATTR: 99 99 0 1 1 1 1 9999 0
device tmpfs mounted on /tmp with fstype tmpfs
device old:/x mounted on /x with fstype nfs statvers=1.1
\tbytes:\t0 0 0 0 1048576 0 0 0
\tREAD: 4 4 0 1 1 1 1 500
"""


def test_nfs_mounts_add_up_and_other_mounts_do_not_count(tmp_path):
    (tmp_path / "mountstats").write_text(MOUNTSTATS)
    assert Nfs(str(tmp_path / "mountstats")).read() == {
        "nfs.read_bytes_total": 11 * 2**20,
        "nfs.write_bytes_total": 2 * 2**20,
        "nfs.read_ops_total": 44,
        "nfs.write_ops_total": 8,
        "nfs.wait_seconds_total": 2.0,
    }
    (tmp_path / "mountstats").write_text(MOUNTSTATS.partition("device store")[0])
    with pytest.raises(OSError, match="no NFS"):
        Nfs(str(tmp_path / "mountstats"))


def lustre_mounts(folder: Path) -> Path:
    for name in ("scratch-ffff", "home-ffff"):
        (folder / name).mkdir()
        (folder / name / "stats").write_text(
            "snapshot_time 1767000000.1 secs.usecs\n"
            "read_bytes 12 samples [bytes] 4096 1048576 5242880\n"
            "write_bytes 3 samples [bytes] 4096 1048576 1048576\n"
            "open 7 samples [regs]\n"
        )
    return folder


def test_lustre_mounts_add_up(tmp_path):
    lustre_mounts(tmp_path)
    assert Lustre((str(tmp_path / "*/stats"),)).read() == {
        "lustre.read_bytes_total": 10 * 2**20,
        "lustre.write_bytes_total": 2 * 2**20,
        "lustre.read_ops_total": 24,
        "lustre.write_ops_total": 6,
    }


def fabric_ports(folder: Path) -> Path:
    counters = {
        "mlx5_0/ports/1/counters/port_rcv_data": 1024,
        "mlx5_0/ports/1/counters/port_xmit_data": 2048,
        "efa_0/ports/1/hw_counters/rx_bytes": 4096,
        "efa_0/ports/1/hw_counters/tx_bytes": 0,
        "efa_0/ports/1/hw_counters/rdma_read_bytes": 8192,
    }
    for name, count in counters.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{count}\n")
    return folder


def test_a_fabric_counts_words_or_bytes(tmp_path):
    assert Fabric(str(fabric_ports(tmp_path))).read() == {
        "fabric.received_bytes_total": 4 * 1024 + 4096 + 8192,
        "fabric.sent_bytes_total": 4 * 2048,
    }


def test_a_file_system_is_asked_outside_of_the_tick(tmp_path):
    source, reading = FileSystems(tmp_path), {}
    until = time.monotonic() + 5
    while len(reading) < 6 and time.monotonic() < until:
        reading |= source.read()
    found = os.statvfs(tmp_path)
    assert reading["fs_work.free_bytes"] == pytest.approx(
        found.f_bavail * found.f_frsize, abs=2**30
    )
    assert source.read() == {}


def test_a_dead_mount_is_read_once_and_blocks_nothing(tmp_path, monkeypatch):
    asked, released = [], threading.Event()

    def never_back(path):
        asked.append(path)
        released.wait(30)
        raise OSError

    monkeypatch.setattr("trimtab.sources.filesystems.os.statvfs", never_back)
    monkeypatch.setattr("trimtab.sources.filesystems._EVERY_SECONDS", 0.0)
    source = FileSystems(tmp_path)
    began = time.monotonic()
    assert [source.read() for _ in range(20)] == [{}] * 20
    assert time.monotonic() - began < 1
    assert len(asked) == 3
    released.set()


def test_tcp_retransmissions_are_counted(tmp_path):
    (tmp_path / "snmp").write_text(
        "Ip: Forwarding OutSegs\nIp: 1 9\nTcp: InSegs OutSegs RetransSegs\nTcp: 7 100 4\n"
    )
    assert Tcp(str(tmp_path / "snmp")).read() == {
        "net.tcp_segments_sent_total": 100,
        "net.tcp_segments_resent_total": 4,
    }


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
        "cpu/cpu.stat": "nr_periods 8\nnr_throttled 2\nthrottled_time 1500000000",
        "memory/memory.failcnt": "5",
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
    assert ContainerCpu(groups).read() | ContainerMemory(groups).read() == {
        "container.cpu_seconds_total": 1.25,
        "container.cpu_periods_total": 8,
        "container.cpu_throttled_periods_total": 2,
        "container.cpu_throttled_seconds_total": 1.5,
        "container.memory_limit_hits_total": 5,
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
    groups = Groups(tmp_path)
    assert ContainerCpu(groups).read() | ContainerMemory(groups).read() == {}


def test_the_tree_counts_children_and_keeps_what_dead_ones_used():
    child = BURN.format(seconds=0.4)
    script = (
        "import subprocess, sys, time\n"
        f"subprocess.run([sys.executable, '-c', {child!r}])\n"
        "print('reaped', flush=True)\n"
        f"second = subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "while ' Z ' not in open(f'/proc/{second.pid}/stat').read(): time.sleep(0.02)\n"
        "time.sleep(0.5)\n"
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


_MANY = """
import os, random, resource, sys, time
go, ready = os.pipe()
def child(number):
    os.close(ready)
    random.seed(number)
    time.sleep(random.uniform(0, 1.5))
    until = time.process_time() + 0.01
    while time.process_time() < until: pass
    with open("/dev/zero", "rb", buffering=0) as zeros: zeros.read(2**18)
    os.read(go, 1)
    time.sleep(random.uniform(0, 1.5))
    os._exit(0)
children = []
for number in range(200):
    pid = os.fork()
    if not pid: child(number)
    children.append(pid)
print(len(children), flush=True)
sys.stdin.readline()
os.close(ready)
for pid in children: os.waitpid(pid, 0)
own, waited = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
seconds = own.ru_utime + own.ru_stime + waited.ru_utime + waited.ru_stime
requested = open("/proc/self/io").read().split()[1]
print(seconds, requested, flush=True)
sys.stdin.read()
"""


def test_two_hundred_children_are_counted_once_while_they_come_and_go():
    """The children end once all of them were there. Most end long after they were last read. That
    is not lost, and what was last read of a child isn't added to the figures of its parent, which
    include it.
    """
    words = [sys.executable, "-c", _MANY]
    pipe = subprocess.PIPE
    root = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True)
    assert root.stdin is not None
    assert root.stdout is not None
    tree, totals, counts = ProcessTree(root.pid), [], []
    may_end, no_later = False, time.monotonic() + 300
    while "\n" not in (line := _ready_line(root.stdout)) or len(line.split()) < 2:
        reading = tree.read()
        totals.append(reading["tree.cpu_seconds_total"])
        counts.append(reading["tree.processes_count"])
        if not may_end and (counts[-1] == 201 or time.monotonic() > no_later):
            may_end = bool(root.stdin.write("\n"))
            root.stdin.flush()
        time.sleep(0.05)
    seconds, requested = map(float, line.split())
    time.sleep(0.5)  # As between an agent's ticks: who has ended isn't looked for at each read
    last = tree.read()
    root.communicate("")
    assert max(counts) == 201
    assert last["tree.processes_count"] == 1
    assert totals == sorted(totals)
    assert last["tree.cpu_seconds_total"] == pytest.approx(seconds, abs=5 * TICK_SECONDS)
    assert last["tree.requested_bytes_total"] == pytest.approx(requested, abs=2**17)


def _ready_line(stream):
    """Return the next line, if there is one."""
    return stream.readline() if select.select([stream], [], [], 0)[0] else ""


def test_a_child_that_nobody_waited_for_still_counts():
    """The parent ignores its children's end, so the kernel adds their time to nobody."""
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


_FORKING = """
import multiprocessing, os, sys, time
def worker():
    until = time.process_time() + 0.3
    while time.process_time() < until: pass
    time.sleep(3)
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    workers = [context.Process(target=worker, daemon=True) for _ in range(2)]
    for each in workers: each.start()
    os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "3")
    time.sleep(2.5)
"""


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_the_workers_of_a_training_are_measured_separately(tmp_path, way):
    (tmp_path / "train.py").write_text(_FORKING)
    root = subprocess.Popen([sys.executable, str(tmp_path / "train.py"), way])
    tree, readings = ProcessTree(root.pid, tmp_path), []
    while root.poll() is None:
        readings.append(tree.read())
        time.sleep(0.05)
    counts = [reading.get("workers.processes") for reading in readings]
    assert counts[0] is None
    assert max(count for count in counts if count is not None) == 2
    busy = [reading.get("workers.cpu_seconds_total") or 0 for reading in readings]
    assert busy == sorted(busy)
    assert 0.6 - 4 * TICK_SECONDS <= busy[-1] < 1.5


def test_a_spawned_rank_is_no_worker(tmp_path):
    (tmp_path / "train.py").write_text(_FORKING)
    root = subprocess.Popen([sys.executable, str(tmp_path / "train.py"), "spawn"])
    tree, seen = ProcessTree(root.pid, tmp_path), []
    while root.poll() is None:
        for pid in tree.pids() - {root.pid}:
            (tmp_path / f"{pid}.ring").touch()
        seen.append(tree.read().get("workers.processes"))
        time.sleep(0.02)
    assert not any(seen)


def test_a_process_that_is_suspended_is_counted_until_it_goes_on():
    script = "import subprocess, sys; subprocess.run(['sleep', '30'])"
    root = subprocess.Popen([sys.executable, "-c", script])
    tree, counts = ProcessTree(root.pid), []
    try:
        for sent in (None, signal.SIGSTOP, signal.SIGCONT):
            if sent is not None:
                root.send_signal(sent)
            time.sleep(0.5)
            counts.append(tree.read()["tree.suspended_count"])
    finally:
        psutil.Process(root.pid).children()[0].kill()
        root.wait()
    assert counts == [0, 1, 0]


def test_a_process_that_waits_for_a_core_is_told_from_one_that_sleeps():
    """The two that compute share a core, so that each of them waits for half of the time."""
    core = str(min(os.sched_getaffinity(0)))
    busy = [sys.executable, "-c", "while True: pass"]
    asleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    pinned = (subprocess.Popen(["taskset", "-c", core, *words]) for words in (busy, busy, asleep))
    processes = list(pinned)
    try:
        time.sleep(0.5)
        trees = [ProcessTree(processes[0].pid), ProcessTree(processes[2].pid)]
        first = [tree.read()["tree.run_delay_seconds_total"] for tree in trees]
        time.sleep(2)
        last = [tree.read()["tree.run_delay_seconds_total"] for tree in trees]
    finally:
        for each in processes:
            each.kill()
            each.wait()
    starved, slept = last[0] - first[0], last[1] - first[1]
    assert starved > 0.5
    assert slept < 0.05


LATE_RANK = """
import os, subprocess, sys, time
busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
asleep = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
time.sleep(60)
"""


def test_a_run_is_starved_as_long_as_the_process_that_sleeps_least():
    """The others wait for it: one that computes beside a neighbour on its core, one that sleeps."""
    core = str(min(os.sched_getaffinity(0)))
    neighbour = subprocess.Popen(["taskset", "-c", core, sys.executable, "-c", "while True: pass"])
    root = subprocess.Popen(["taskset", "-c", core, sys.executable, "-c", LATE_RANK])
    tree = ProcessTree(root.pid)
    try:
        while tree.read()["tree.processes_count"] < 3:
            time.sleep(0.1)
        first, began = tree.read()["tree.starved_seconds_total"], time.monotonic()
        for _ in range(6):
            time.sleep(0.5)
            last = tree.read()["tree.starved_seconds_total"]
        took = time.monotonic() - began
    finally:
        for child in psutil.Process(root.pid).children():
            child.kill()
        for each in (root, neighbour):
            each.kill()
            each.wait()
    assert 0.25 * took < last - first < 0.95 * took


def test_what_the_command_waited_before_its_end_is_known_once_it_is_reaped():
    root = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    tree = ProcessTree(root.pid)
    try:
        before = [tree.read() for _ in range(2)][-1]["tree.starved_seconds_total"]
    finally:
        waited = run_delay_seconds(root.pid)
        root.kill()
        root.wait()
    assert waited is not None
    tree.note_root_end(1.0, waited + 3.0)
    assert 3.0 <= tree.read()["tree.starved_seconds_total"] - before < 3.1


def test_an_ended_process_tells_its_wait_until_it_is_reaped():
    ended = subprocess.Popen([sys.executable, "-c", "sum(range(10**6))"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert run_delay_seconds(ended.pid) is not None
    ended.wait()
    assert run_delay_seconds(ended.pid) is None


def test_what_processes_ask_for_counts_wherever_it_comes_from(tmp_path):
    (tmp_path / "data").write_bytes(bytes(8 * 2**20))
    script = f"import time; open({str(tmp_path / 'data')!r}, 'rb').read(); time.sleep(1)"
    root = subprocess.Popen([sys.executable, "-c", script])
    tree, most = ProcessTree(root.pid), 0
    while root.poll() is None:
        most = max(most, tree.read().get("tree.requested_bytes_total") or 0)
        time.sleep(0.05)
    assert most >= 8 * 2**20


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
