"""The sources of a node's series: one small class per kernel file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from trimtab.descriptors import spare_for_sources
from trimtab.sources.agent import AgentUsage
from trimtab.sources.container import ContainerCpu, ContainerMemory
from trimtab.sources.disk import Disks
from trimtab.sources.fabric import Fabric
from trimtab.sources.filesystems import FileSystems
from trimtab.sources.gpu import Gpus
from trimtab.sources.host import HostCpu, HostMemory
from trimtab.sources.network import Network, Tcp
from trimtab.sources.paging import Load, Paging
from trimtab.sources.pressure import Pressure
from trimtab.sources.procfile import Reading, SeriesSource, SpanSource, ThrottledSource
from trimtab.sources.remote import Lustre, Nfs
from trimtab.sources.stages import Stages
from trimtab.sources.tree import ProcessTree

__all__ = [
    "Gpus",
    "ProcessTree",
    "Reading",
    "SeriesSource",
    "SpanSource",
    "Stages",
    "machine_sources",
]

_EVERY_TICK: tuple[Callable[[], SeriesSource], ...] = (
    HostCpu,
    HostMemory,
    Load,
    Pressure,
    ContainerCpu,
    Disks,
    Nfs,
    Lustre,
    Network,
    Fabric,
    FileSystems,
    AgentUsage,
)
_SELDOM: tuple[Callable[[], SeriesSource], ...] = (Paging, ContainerMemory, Tcp)
_SELDOM_SECONDS = 5.0


def machine_sources() -> list[SeriesSource]:
    """Return the sources that this machine offers; one that can't be opened is left out.

    So are the last ones if few more files can be opened.
    """
    often, seldom = _opened(_EVERY_TICK), _opened(_SELDOM)
    return [*often, *(ThrottledSource(source, _SELDOM_SECONDS) for source in seldom)]


def _opened(kinds: Iterable[Callable[[], SeriesSource]]) -> list[SeriesSource]:
    sources: list[SeriesSource] = []
    for kind in kinds:
        with suppress(OSError, ValueError):
            if spare_for_sources():
                sources.append(kind())
    return sources
