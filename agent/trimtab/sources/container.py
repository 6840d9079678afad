"""Usage and limits of this process's cgroup (container, job, service).

Versions 1, 2 and hybrids are in use, so each file is looked up separately. The machine's root
cgroup is not a container: its figures are the host's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from trimtab.sources.procfile import MEMORY_STEP_BYTES, ProcFile, Reading, round_bytes

_NO_LIMIT_BYTES = 2**60
"""Version 1 writes "no limit" as a number near 2^63, rounded to a page."""


class Groups:
    """The folders of this process's cgroups, by controller ("" is version 2)."""

    def __init__(self, proc: Path = Path("/proc/self")) -> None:
        self._folders: dict[str, tuple[Path, Path]] = {}
        paths = dict(_paths(proc / "cgroup"))
        for names, root, mount in _mounts(proc / "mountinfo"):
            for name in names:
                if name in paths:
                    inside = os.path.relpath(paths[name], root)
                    folder = mount if inside.startswith("..") else mount / inside
                    self._folders[name] = (mount, folder if folder.is_dir() else mount)

    def file(self, controller: str, name: str) -> Path | None:
        """Return the file of this process's cgroup, or None if that is the machine's root."""
        if controller not in self._folders:
            return None
        folder = self._folders[controller][1]
        if (folder / "cgroup.sane_behavior").exists() or not (folder / name).exists():
            return None
        return folder / name

    def upwards(self, controller: str, name: str) -> Iterator[str]:
        """Yield the contents of a file in this cgroup and all its parents: the lowest limit
        applies.
        """
        if controller not in self._folders:
            return
        mount, folder = self._folders[controller]
        for place in (folder, *folder.parents):
            if (place / name).is_file():
                yield (place / name).read_text().strip()
            if place == mount:
                return


def _paths(cgroup_file: Path) -> Iterator[tuple[str, str]]:
    for line in cgroup_file.read_text().splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            yield name, path


def _mounts(mountinfo: Path) -> Iterator[tuple[list[str], str, Path]]:
    for line in mountinfo.read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, *_, options = after.split()
        root, mount = before.split()[3:5]
        if kind == "cgroup2":
            yield [""], root, Path(mount)
        elif kind == "cgroup":
            yield options.split(","), root, Path(mount)


class ContainerCpu:
    """`container.cpu_*_total`: CPU time, and throttling if there is a quota."""

    def __init__(self, groups: Groups | None = None) -> None:
        groups = groups or Groups()
        self._cpu = _opened(groups.file("", "cpu.stat") if groups.file("", "cpu.max") else None)
        self._cpu_v1 = _opened(groups.file("cpuacct", "cpuacct.usage"))
        self._throttled_v1 = _opened(groups.file("cpu", "cpu.stat"))

    def read(self) -> Reading:
        return self._used() | self._throttled()

    def _used(self) -> Reading:
        if self._cpu:
            seconds = _fields(self._cpu.read())[b"usage_usec"] / 1e6
        elif self._cpu_v1:
            seconds = int(self._cpu_v1.read()) / 1e9
        else:
            return {}
        return {"container.cpu_seconds_total": round(seconds, 2)}

    def _throttled(self) -> Reading:
        """Return the throttling, but only with a quota; without one the kernel doesn't count
        periods.
        """
        file, name, per_second = self._cpu, b"throttled_usec", 1e6
        if file is None:
            file, name, per_second = self._throttled_v1, b"throttled_time", 1e9
        fields = _fields(file.read()) if file else {}
        if not fields.get(b"nr_periods"):
            return {}
        return {
            "container.cpu_periods_total": fields[b"nr_periods"],
            "container.cpu_throttled_periods_total": fields[b"nr_throttled"],
            "container.cpu_throttled_seconds_total": round(fields[name] / per_second, 2),
        }


class ContainerMemory:
    """`container.memory_working_set_bytes`, hits of the cgroup's limit, kills.

    The working set is usage minus the file cache that the kernel would evict first.
    """

    def __init__(self, groups: Groups | None = None) -> None:
        groups = groups or Groups()
        self._memory = _opened(
            groups.file("", "memory.current") or groups.file("memory", "memory.usage_in_bytes")
        )
        self._memory_stat = _opened(
            groups.file("", "memory.stat")
            if groups.file("", "memory.current")
            else groups.file("memory", "memory.stat")
        )
        self._events = _opened(groups.file("", "memory.events"))
        self._hits_v1 = _opened(groups.file("memory", "memory.failcnt"))

    def read(self) -> Reading:
        return self._memory_used() | self._memory_events()

    def _memory_used(self) -> Reading:
        if not self._memory or not self._memory_stat:
            return {}
        stat = _fields(self._memory_stat.read())
        cache = stat.get(b"total_inactive_file", stat.get(b"inactive_file", 0))
        working_set = max(0, int(self._memory.read()) - cache)
        return {"container.memory_working_set_bytes": round_bytes(working_set, MEMORY_STEP_BYTES)}

    def _memory_events(self) -> Reading:
        if self._events:
            fields = _fields(self._events.read())
            return {
                "container.memory_limit_hits_total": fields[b"max"],
                "container.oom_kills_total": fields[b"oom_kill"],
            }
        if self._hits_v1:
            return {"container.memory_limit_hits_total": int(self._hits_v1.read())}
        return {}


def _opened(path: Path | None) -> ProcFile | None:
    return ProcFile(str(path)) if path else None


def _fields(content: bytes) -> dict[bytes, int]:
    words = (line.split() for line in content.splitlines())
    return {pair[0]: int(pair[1]) for pair in words if len(pair) == 2}


def effective_cpus(groups: Groups) -> float:
    """Return the cores this process may use: min(affinity, CPU quota of every group above it)."""
    limits = [float(len(os.sched_getaffinity(0)))]
    for content in groups.upwards("", "cpu.max"):
        quota, _, period = content.partition(" ")
        if quota != "max":
            limits.append(int(quota) / int(period or 100_000))
    quotas = groups.upwards("cpu", "cpu.cfs_quota_us")
    periods = groups.upwards("cpu", "cpu.cfs_period_us")
    limits += [int(q) / int(p) for q, p in zip(quotas, periods) if int(q) > 0]
    return round(min(limits), 3)


def effective_memory_bytes(groups: Groups, machine_bytes: int) -> int:
    """Return the memory this process may use: min(the machine's, the limit of every group above
    it).
    """
    contents = [
        *groups.upwards("", "memory.max"),
        *groups.upwards("memory", "memory.limit_in_bytes"),
    ]
    limits = [int(content) for content in contents if content.isdigit()]
    return min([machine_bytes, *(limit for limit in limits if limit < _NO_LIMIT_BYTES)])
