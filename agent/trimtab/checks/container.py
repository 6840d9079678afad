"""Checks the cgroup that the run is in."""

from __future__ import annotations

from trimtab.checks.check import Check, CheckState
from trimtab.sources.container import ContainerCpu, ContainerMemory, Groups

_LOST = (
    "the container's own CPU and memory, and whether its limits slowed the training; series of the"
)
_LOST += " machine and of the run's processes remain"


def container() -> Check:
    try:
        groups = Groups()
        seen = [*ContainerCpu(groups).read(), *ContainerMemory(groups).read()]
    except (OSError, ValueError, KeyError) as error:
        fix = "mount /sys/fs/cgroup into the container"
        return Check(
            "container", CheckState.MISSING, f"can't read the cgroups: {error}", _LOST, fix
        )
    version = "version 2" if groups.file("", "cgroup.type") else "version 1"
    if not seen:
        return Check(
            "container", CheckState.FINE, "none: the agent runs in the machine's root cgroup"
        )
    has_cpu = any(".cpu_seconds" in name for name in seen)
    has_memory = any(".memory_working" in name for name in seen)
    if has_cpu and has_memory:
        return Check("container", CheckState.FINE, f"cgroup {version}: CPU and memory")
    missing = "memory" if has_cpu else "CPU"
    fix = f"give the container its own {missing} cgroup"
    return Check("container", CheckState.PARTLY, f"cgroup {version}, without {missing}", _LOST, fix)
