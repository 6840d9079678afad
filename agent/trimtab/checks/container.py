"""Which control group the run is in, and what is seen of it."""

from __future__ import annotations

from trimtab.checks.check import Check, State
from trimtab.sources.container import ContainerCpu, ContainerMemory, Groups

_LOST = "what the container itself used, and whether its limits held it up: the machine's figures"
_LOST += " and those of the run's processes remain"


def container() -> Check:
    try:
        groups = Groups()
        seen = [*ContainerCpu(groups).read(), *ContainerMemory(groups).read()]
    except (OSError, ValueError, KeyError) as error:
        fix = "mount /sys/fs/cgroup into the container"
        return Check("container", State.MISSING, f"control groups: {error}", _LOST, fix)
    version = "version 2" if groups.file("", "cgroup.type") else "version 1"
    if not seen:
        return Check("container", State.FINE, "none: the machine's own group")
    has_cpu = any(".cpu_seconds" in name for name in seen)
    has_memory = any(".memory_working" in name for name in seen)
    if has_cpu and has_memory:
        return Check("container", State.FINE, f"control group {version}: CPU and memory")
    missing = "memory" if has_cpu else "CPU"
    fix = f"give the container a {missing} control group of its own"
    return Check("container", State.PARTLY, f"{version}, without {missing}", _LOST, fix)
