"""The machine's hardware, and how much of it is allocated to the run."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

from trimtab.identity import shorten_name
from trimtab.sources.container import Groups, effective_cpus, effective_memory_bytes
from trimtab.wire import NodeFacts


def node_facts(machine_id: str) -> NodeFacts:
    """Return the facts of this machine; what can't be read stays 0, which means unknown.

    GPUs are added later by `sources.gpu`, because listing them may take seconds.
    """
    facts = NodeFacts(machine_id=machine_id, hostname=shorten_name(socket.gethostname()))
    facts.vcpus = os.cpu_count() or 0
    facts.effective_cpus = float(facts.vcpus)
    with suppress(OSError, ValueError):
        facts.memory_bytes = facts.effective_memory_bytes = _memory_bytes()
    with suppress(OSError, ValueError):
        groups = Groups()
        facts.effective_cpus = effective_cpus(groups)
        facts.effective_memory_bytes = effective_memory_bytes(groups, facts.memory_bytes)
    with suppress(OSError):
        facts.cpu_model = shorten_name(_cpu_model())
    return facts


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _cpu_model() -> str:
    """Return the first "model name" line, which is absent on most ARM machines."""
    with Path("/proc/cpuinfo").open(errors="replace") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return ""
