"""What is measured on a node: one small class a kernel file, each read at every tick."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from trimtab.sources.container import Container
from trimtab.sources.disk import Disks
from trimtab.sources.gpu import Gpus
from trimtab.sources.host import HostCpu, HostMemory
from trimtab.sources.network import Network
from trimtab.sources.own import OwnCost
from trimtab.sources.procfile import Reading, Source
from trimtab.sources.tree import ProcessTree

__all__ = ["Gpus", "ProcessTree", "Reading", "Source", "machine_sources"]


def machine_sources() -> list[Source]:
    """Every source that this machine has; one that can't be opened is left out."""
    kinds: list[Callable[[], Source]] = [HostCpu, HostMemory, Container, Disks, Network, OwnCost]
    found = []
    for kind in kinds:
        with suppress(OSError, ValueError):
            found.append(kind())
    return found
