"""Traffic of the machine's whole disks, from /proc/diskstats.

Partitions, loop devices, RAID and device-mapper volumes repeat what their disks count, so only
devices with hardware are summed. Network and overlay file systems aren't included.
"""

from __future__ import annotations

from pathlib import Path

from trimtab.sources.procfile import ProcFile, Reading

_SECTOR_BYTES = 512


class Disks:
    """`disk.*_total` since boot, all whole disks together: bytes, operations, seconds in which a
    disk was busy, and seconds that requests spent in it or in its queue, summed over disks.
    """

    def __init__(self, path: str = "/proc/diskstats", block_devices: str = "/sys/block") -> None:
        self._file = ProcFile(path)
        self._block_devices = Path(block_devices)
        self._is_disk: dict[bytes, bool] = {}

    def read(self) -> Reading:
        reads = sectors_read = writes = sectors_written = busy_ms = queued_ms = 0
        for line in self._file.read().splitlines():
            fields = line.split()
            if len(fields) >= 14 and self._counts(fields[2]):
                reads += int(fields[3])
                sectors_read += int(fields[5])
                writes += int(fields[7])
                sectors_written += int(fields[9])
                busy_ms += int(fields[12])
                queued_ms += int(fields[13])
        if not any(self._is_disk.values()):
            return {}
        return {
            "disk.read_bytes_total": sectors_read * _SECTOR_BYTES,
            "disk.written_bytes_total": sectors_written * _SECTOR_BYTES,
            "disk.read_ops_total": reads,
            "disk.written_ops_total": writes,
            "disk.busy_seconds_total": round(busy_ms / 1000, 2),
            "disk.queued_seconds_total": round(queued_ms / 1000, 2),
        }

    def _counts(self, name: bytes) -> bool:
        if name not in self._is_disk:
            device = self._block_devices / name.decode().replace("/", "!") / "device"
            self._is_disk[name] = device.exists()
        return self._is_disk[name]
