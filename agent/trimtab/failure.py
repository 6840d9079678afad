"""Collects why a command failed, as far as the machine knows: exit code, signal, memory."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Protocol

from trimtab.hardware import node_facts
from trimtab.sources.memory_kills import MemoryKills, killed_process, now_since_boot_seconds
from trimtab.supervise import CommandEnding


class Processes(Protocol):
    """Processes of the run, as far as they are known."""

    seen: set[int]
    peak_rss_bytes: int


class FailureFacts:
    """Facts about a failure. Create them before the command starts, because kills are counted from
    then on.
    """

    def __init__(self) -> None:
        self._began_seconds = now_since_boot_seconds()
        self._kills: MemoryKills | None = None
        with suppress(OSError, ValueError):
            self._kills = MemoryKills()

    def describe_ending(self, ending: CommandEnding, processes: Processes | None) -> dict[str, Any]:
        """Return the facts for `session_end`; empty unless the command failed."""
        if ending.state != "failed":
            return {}
        facts: dict[str, Any] = {"signal": ending.signal}
        with suppress(Exception):
            facts |= self._memory(processes)
        return facts

    def _memory(self, processes: Processes | None) -> dict[str, Any]:
        kills = self._kills
        count = kills.since_start() if kills else None
        facts: dict[str, Any] = {"oom_kills": count}
        if not kills or not count:
            return facts
        node = node_facts("")
        limit = node.effective_memory_bytes if kills.is_own_group else node.memory_bytes
        used = kills.peak_bytes() if kills.is_own_group else None
        if used is None and processes:
            used = processes.peak_rss_bytes
        facts["oom_scope"] = "container" if kills.is_own_group else "machine"
        facts["memory_bytes"] = min(used, limit) if used and limit else used or None
        facts["memory_limit_bytes"] = limit or None
        killed = killed_process(processes.seen, self._began_seconds) if processes else None
        if killed:
            facts |= {"oom_process": killed.name[:120], "oom_process_bytes": killed.rss_bytes}
        return facts
