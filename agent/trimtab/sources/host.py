"""The machine's CPU and memory, from /proc/stat and /proc/meminfo.

Inside a container both describe the whole machine; `sources.container` measures the container.
"""

from __future__ import annotations

from trimtab.sources.procfile import MEMORY_STEP_BYTES, ProcFile, Reading, round_bytes

_FEWEST_TICKS = 5
"""The fewest ticks of a percentage: below 50 ms of CPU time (10 ms ticks) it would be noise."""


class HostCpu:
    """`host.cpu_*_pct` (0..100 of all cores) and `cpu<N>.busy_pct`, since the previous read."""

    def __init__(self, path: str = "/proc/stat") -> None:
        self._file = ProcFile(path)
        self._before = self._ticks()

    def read(self) -> Reading:
        before, self._before = self._before, self._ticks()
        reading: Reading = {}
        for name, now in self._before.items():
            spent = [max(0, b - a) for a, b in zip(before.get(name, now), now)]
            if sum(spent) >= _FEWEST_TICKS:
                reading.update(_machine(spent) if name == "cpu" else _core(name, spent))
        return reading

    def _ticks(self) -> dict[str, list[int]]:
        """Return user, nice, system, idle, iowait, irq, softirq, steal; guest is inside user
        already.
        """
        ticks = {}
        for line in self._file.read().split(b"\n"):
            if not line.startswith(b"cpu"):
                break
            name, *fields = line.split()
            ticks[name.decode()] = [int(field) for field in fields[:8]]
        return ticks


def _machine(spent: list[int]) -> Reading:
    user, nice, system, idle, iowait, irq, softirq, steal = spent
    whole = sum(spent)
    return {
        "host.cpu_busy_pct": _pct(whole - idle - iowait, whole),
        "host.cpu_user_pct": _pct(user + nice, whole),
        "host.cpu_system_pct": _pct(system + irq + softirq, whole),
        "host.cpu_iowait_pct": _pct(iowait, whole),
        "host.cpu_steal_pct": _pct(steal, whole),
    }


def _core(name: str, spent: list[int]) -> Reading:
    """Return whole percents: half a second of one core has 50 ticks, so more digits would mean
    nothing.
    """
    whole = sum(spent)
    return {f"{name}.busy_pct": round(100 * (whole - spent[3] - spent[4]) / whole)}


def _pct(part: int, whole: int) -> float:
    share = round(100 * part / whole, 1)
    return int(share) if share == int(share) else share


class HostMemory:
    """`host.memory_used_bytes` (total - available), `..._available_bytes`, `swap_used_bytes`,
    the page cache, and its dirty part.
    """

    _WANTED = (b"MemTotal", b"MemAvailable", b"SwapTotal", b"SwapFree", b"Cached", b"Dirty")

    def __init__(self, path: str = "/proc/meminfo") -> None:
        self._file = ProcFile(path)

    def read(self) -> Reading:
        sizes = self._sizes_bytes()
        available = sizes[b"MemAvailable"]
        used = sizes[b"MemTotal"] - available
        swap = sizes.get(b"SwapTotal", 0) - sizes.get(b"SwapFree", 0)
        return {
            "host.memory_used_bytes": round_bytes(used, MEMORY_STEP_BYTES),
            "host.memory_available_bytes": round_bytes(available, MEMORY_STEP_BYTES),
            "host.swap_used_bytes": round_bytes(swap, MEMORY_STEP_BYTES),
            "host.page_cache_bytes": round_bytes(sizes.get(b"Cached", 0), MEMORY_STEP_BYTES),
            "host.dirty_bytes": round_bytes(sizes.get(b"Dirty", 0), MEMORY_STEP_BYTES),
        }

    def _sizes_bytes(self) -> dict[bytes, int]:
        sizes = {}
        for line in self._file.read().split(b"\n"):
            name, _, value = line.partition(b":")
            if name in self._WANTED:
                sizes[name] = int(value.split()[0]) * 1024
        return sizes
