"""Checks what /proc and /sys offer about the machine and the run's processes."""

from __future__ import annotations

import os
from pathlib import Path

from trimtab.checks.check import Check, CheckState
from trimtab.hardware import node_facts

_UNSEEN = ("cifs", "smb3", "ceph", "9p", "gpfs", "beegfs", "afs", "virtiofs")
"""Network file systems whose clients offer no counters that the agent could read."""


def cpu_and_memory() -> Check:
    facts = node_facts("doctor")
    if not Path("/proc/stat").exists():
        return Check("cpu, memory", CheckState.MISSING, "no /proc", "CPU and memory", "mount /proc")
    gib = 2**30
    seen = (
        f"{facts.effective_cpus:g} of {facts.vcpus} CPUs,"
        f" {facts.effective_memory_bytes / gib:.1f} of {facts.memory_bytes / gib:.1f} GiB"
    )
    return Check("cpu, memory", CheckState.FINE, seen)


def pressure() -> Check:
    if _readable("/proc/pressure/cpu"):
        return Check("pressure", CheckState.FINE, "/proc/pressure")
    return Check(
        "pressure",
        CheckState.MISSING,
        "no /proc/pressure",
        "how long tasks waited for CPU, memory and disk; rules judge bottlenecks by load alone",
        "use Linux 4.20 or newer, started with psi=1; sandboxed containers don't offer it",
    )


def disks() -> Check:
    if _readable("/proc/diskstats") and Path("/proc/diskstats").read_text().strip():
        return Check("disks", CheckState.FINE, "/proc/diskstats")
    lost = "disk throughput and queues; reads and writes of the run's processes remain"
    return Check("disks", CheckState.MISSING, "no disk in /proc/diskstats", lost, "run on the host")


def remote_file_systems() -> Check:
    kinds = {line.split()[2] for line in Path("/proc/self/mounts").read_text().splitlines()}
    seen = sorted(kind for kind in kinds if kind.startswith(("nfs", "lustre")))
    unseen = sorted(kind for kind in kinds if kind.startswith("fuse.") or kind in _UNSEEN)
    if not unseen:
        return Check("network mounts", CheckState.FINE, ", ".join(seen) or "none")
    lost = "traffic of these mounts; reads and writes of the run's processes remain"
    return Check("network mounts", CheckState.PARTLY, f"{', '.join(unseen)}: no counters", lost, "")


def network() -> Check:
    names = [path.name for path in Path("/sys/class/net").glob("*") if path.name != "lo"]
    if not _readable("/proc/net/dev") or not names:
        return Check("network", CheckState.MISSING, "no network interface", "network traffic", "")
    fabric = sorted(path.name for path in Path("/sys/class/infiniband").glob("*"))
    seen = ", ".join(sorted(names)[:6]) + (f"; fabric {', '.join(fabric)}" if fabric else "")
    return Check("network", CheckState.FINE, seen)


def processes() -> Check:
    pid = os.getpid()
    if not Path(f"/proc/{pid}/task/{pid}/children").exists():
        fix = "use a kernel with CONFIG_PROC_CHILDREN"
        lost = "child processes, e.g. data-loader workers"
        return Check(
            "processes", CheckState.PARTLY, "only the command's own process can be read", lost, fix
        )
    if not _readable(f"/proc/{pid}/io"):
        lost = "reads and writes of the run's processes"
        return Check(
            "processes",
            CheckState.PARTLY,
            "no /proc/PID/io",
            lost,
            "allow ptrace for this user or container",
        )
    return Check("processes", CheckState.FINE, "the process tree of the command, with its I/O")


def _readable(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            file.read(1)
        return True
    except OSError:
        return False
