"""Traffic of the interfaces in this network namespace, and TCP retransmissions."""

from __future__ import annotations

from pathlib import Path

from trimtab.sources.procfile import TRAFFIC_STEP_BYTES, ProcFile, Reading, round_bytes

_LOST_COLUMNS = (2, 3, 10, 11)
"""The columns of packets received with errors, dropped; sent with errors, dropped."""


class Network:
    """`net.received_bytes_total`, `net.sent_bytes_total` and `net.lost_packets_total` (dropped or
    damaged, both ways) since boot, loopback left out.

    If there are hardware interfaces, only they count: bridges, bonds and virtual pairs repeat their
    traffic. A container has none, so there all interfaces count.
    """

    def __init__(self, path: str = "/proc/net/dev", interfaces: str = "/sys/class/net") -> None:
        self._file = ProcFile(path)
        self._interfaces = Path(interfaces)
        self._is_hardware: dict[str, bool] = {}

    def read(self) -> Reading:
        interfaces = {}
        for line in self._file.read().decode().splitlines()[2:]:
            name, _, counts = line.partition(":")
            fields = counts.split()
            if name.strip() != "lo" and len(fields) >= 12:
                lost = sum(int(fields[column]) for column in _LOST_COLUMNS)
                interfaces[name.strip()] = (int(fields[0]), int(fields[8]), lost)
        counted = [
            interfaces[name] for name in interfaces if self._has_hardware(name)
        ] or interfaces.values()
        if not counted:
            return {}
        return {
            "net.received_bytes_total": round_bytes(sum(c[0] for c in counted), TRAFFIC_STEP_BYTES),
            "net.sent_bytes_total": round_bytes(sum(c[1] for c in counted), TRAFFIC_STEP_BYTES),
            "net.lost_packets_total": sum(c[2] for c in counted),
        }

    def _has_hardware(self, name: str) -> bool:
        if name not in self._is_hardware:
            self._is_hardware[name] = (self._interfaces / name / "device").exists()
        return self._is_hardware[name]


class Tcp:
    """`net.tcp_segments_sent_total` and `net.tcp_segments_resent_total`, loopback included."""

    def __init__(self, path: str = "/proc/net/snmp") -> None:
        self._file = ProcFile(path)

    def read(self) -> Reading:
        lines = [line.split() for line in self._file.read().splitlines() if line[:4] == b"Tcp:"]
        counters = dict(zip(*lines))
        return {
            "net.tcp_segments_sent_total": int(counters[b"OutSegs"]),
            "net.tcp_segments_resent_total": int(counters[b"RetransSegs"]),
        }
