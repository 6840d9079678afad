"""Paging counters from /proc/vmstat, and runnable tasks from /proc/loadavg."""

from __future__ import annotations

import os

from trimtab.sources.procfile import ProcFile, Reading

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_COUNTS = {
    b"pgmajfault": ("host.major_faults_total", 1),
    b"pswpin": ("host.swapped_in_bytes_total", _PAGE_BYTES),
    b"pswpout": ("host.swapped_out_bytes_total", _PAGE_BYTES),
    b"workingset_refault_file": ("host.cache_refaults_total", 1),
    b"oom_kill": ("host.oom_kills_total", 1),
}


class Paging:
    """Counters since boot. A cache refault is a page read again soon after it was evicted."""

    def __init__(self, path: str = "/proc/vmstat") -> None:
        self._file = ProcFile(path)

    def read(self) -> Reading:
        content = b"\n" + self._file.read()
        reading: Reading = {}
        for key, (name, factor) in _COUNTS.items():
            at = content.find(b"\n" + key + b" ")
            if at >= 0:
                begin = at + len(key) + 2
                reading[name] = int(content[begin : content.find(b"\n", begin)]) * factor
        return reading


class Load:
    """`host.runnable_count`: tasks that run or wait for a core."""

    def __init__(self, path: str = "/proc/loadavg") -> None:
        self._file = ProcFile(path)

    def read(self) -> Reading:
        return {"host.runnable_count": int(self._file.read().split()[3].partition(b"/")[0])}
