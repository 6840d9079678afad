"""What is measured on a node: one small class a kernel file, each read at every tick."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from trimtab.sources.container import Container
from trimtab.sources.disk import Disks
from trimtab.sources.fabric import Fabric
from trimtab.sources.filesystems import FileSystems
from trimtab.sources.gpu import Gpus
from trimtab.sources.host import HostCpu, HostMemory
from trimtab.sources.network import Network, Tcp
from trimtab.sources.own import OwnCost
from trimtab.sources.paging import Load, Paging
from trimtab.sources.pressure import Pressure
from trimtab.sources.procfile import Reading, Source
from trimtab.sources.remote import Lustre, Nfs
from trimtab.sources.tree import ProcessTree

__all__ = ["Gpus", "ProcessTree", "Reading", "Source", "machine_sources"]

_KINDS: tuple[Callable[[], Source], ...] = (
    HostCpu,
    HostMemory,
    Paging,
    Load,
    Pressure,
    Container,
    Disks,
    Nfs,
    Lustre,
    Network,
    Tcp,
    Fabric,
    FileSystems,
    OwnCost,
)


def machine_sources() -> list[Source]:
    """Every source that this machine has; one that can't be opened is left out."""
    found = []
    for kind in _KINDS:
        with suppress(OSError, ValueError):
            found.append(kind())
    return found
