"""Traffic of InfiniBand, RoCE and EFA, which bypasses the network stack."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from trimtab.sources.procfile import TRAFFIC_STEP_BYTES, ProcFile, Reading, round_bytes

_WORD_BYTES = 4
_COUNTERS = {
    "received": (
        ("counters/port_rcv_data", _WORD_BYTES),
        ("hw_counters/rx_bytes", 1),
        ("hw_counters/rdma_read_bytes", 1),
    ),
    "sent": (
        ("counters/port_xmit_data", _WORD_BYTES),
        ("hw_counters/tx_bytes", 1),
        ("hw_counters/rdma_write_bytes", 1),
    ),
}
"""InfiniBand counts words; EFA has no such file, and counts messages and RDMA separately."""


class Fabric:
    """`fabric.received_bytes_total`, `fabric.sent_bytes_total` over all ports.

    Raises OSError if there is no port.
    """

    def __init__(self, devices: str = "/sys/class/infiniband") -> None:
        self._files: dict[str, list[tuple[ProcFile, int]]] = {name: [] for name in _COUNTERS}
        for port in sorted(Path(devices).glob("*/ports/*")):
            for direction, counters in _COUNTERS.items():
                for name, factor in counters:
                    with suppress(OSError):
                        self._files[direction].append((ProcFile(str(port / name)), factor))
        if not any(self._files.values()):
            raise FileNotFoundError(devices)

    def read(self) -> Reading:
        return {
            f"fabric.{direction}_bytes_total": round_bytes(
                sum(int(file.read()) * factor for file, factor in files), TRAFFIC_STEP_BYTES
            )
            for direction, files in self._files.items()
            if files
        }
