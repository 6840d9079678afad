"""Traffic of the network interfaces of this network namespace, from /proc/net/dev."""

from __future__ import annotations

from pathlib import Path

from trimtab.sources.procfile import TRAFFIC_STEP_BYTES, ProcFile, Reading, rounded


class Network:
    """`net.received_bytes_total` and `net.sent_bytes_total` since boot, loopback left out.

    Where there are hardware interfaces only they count: bridges, bonds and the containers' ends
    of virtual pairs repeat their traffic. Inside a container, which has none, all count.
    """

    def __init__(self, path: str = "/proc/net/dev", interfaces: str = "/sys/class/net") -> None:
        self._file = ProcFile(path)
        self._interfaces = Path(interfaces)
        self._is_hardware: dict[str, bool] = {}

    def read(self) -> Reading:
        found = {}
        for line in self._file.read().decode().splitlines()[2:]:
            name, _, counts = line.partition(":")
            fields = counts.split()
            if name.strip() != "lo" and len(fields) >= 9:
                found[name.strip()] = (int(fields[0]), int(fields[8]))
        counted = [found[name] for name in found if self._has_hardware(name)] or found.values()
        if not counted:
            return {}
        return {
            "net.received_bytes_total": rounded(sum(c[0] for c in counted), TRAFFIC_STEP_BYTES),
            "net.sent_bytes_total": rounded(sum(c[1] for c in counted), TRAFFIC_STEP_BYTES),
        }

    def _has_hardware(self, name: str) -> bool:
        if name not in self._is_hardware:
            self._is_hardware[name] = (self._interfaces / name / "device").exists()
        return self._is_hardware[name]
