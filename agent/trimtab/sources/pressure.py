"""Pressure stall information: for how long tasks waited for CPU, storage or memory.

`some` is the time in which at least one task waited, `full` that in which all of them did. The
kernel's totals are exact at any interval; its averages over ten seconds and more are left out.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from trimtab.sources.container import Groups
from trimtab.sources.procfile import ProcFile, Reading, round_bytes

_KINDS = {"cpu": (b"some",), "io": (b"some", b"full"), "memory": (b"some", b"full")}
"""No task of a machine can make all others wait for CPU: its `full` has no meaning."""

_STEP_US = 1000
"""A fifth of a percent of a tick; finer digits would be a tenth of the upload."""


class Pressure:
    """`host.psi_<cpu|io|memory>_<some|full>_us_total`, and `container.psi_*` of a version 2 cgroup.

    Raises OSError if the kernel has neither.
    """

    def __init__(self, host: str = "/proc/pressure", groups: Groups | None = None) -> None:
        groups = groups or Groups()
        self._files: list[tuple[str, ProcFile]] = []
        for kind in _KINDS:
            is_container = groups.file("", "cgroup.type") is not None
            own = groups.file("", f"{kind}.pressure") if is_container else None
            for scope, path in (("host", Path(host) / kind), ("container", own)):
                with suppress(OSError):
                    if path is not None:
                        opened = ProcFile(str(path))
                        opened.read()
                        self._files.append((f"{scope}.psi_{kind}", opened))
        if not self._files:
            raise FileNotFoundError(host)

    def read(self) -> Reading:
        reading: Reading = {}
        for name, file in self._files:
            wanted = _KINDS[name.rpartition("_")[2]]
            for line in file.read().splitlines():
                which, *values = line.split()
                if which in wanted:
                    total_us = int(values[-1].rpartition(b"=")[2])
                    reading[f"{name}_{which.decode()}_us_total"] = round_bytes(total_us, _STEP_US)
        return reading
