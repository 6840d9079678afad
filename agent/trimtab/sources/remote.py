"""Network file systems, which /proc/diskstats doesn't include: NFS and Lustre.

These are the client's counters: reading them asks no server, so a dead server can't block it.
"""

from __future__ import annotations

import glob
from contextlib import suppress

from trimtab.sources.procfile import TRAFFIC_STEP_BYTES, ProcFile, Reading, round_bytes

_LUSTRE = ("/proc/fs/lustre/llite/*/stats", "/sys/kernel/debug/lustre/llite/*/stats")


class Nfs:
    """`nfs.*_total` over all mounts: bytes from and to servers, operations, their duration.

    Raises OSError if nothing is mounted by NFS.
    """

    def __init__(self, path: str = "/proc/self/mountstats") -> None:
        self._file = ProcFile(path)
        if b" with fstype nfs" not in self._file.read():
            self._file.close()
            raise FileNotFoundError(f"no NFS in {path}")

    def read(self) -> Reading:
        received = sent = reads = writes = waited_ms = 0
        is_nfs = False
        for line in self._file.read().splitlines():
            fields = line.split()
            if fields[:1] == [b"device"]:
                is_nfs = b" with fstype nfs" in line
            elif is_nfs and fields[:1] == [b"bytes:"]:
                received, sent = received + int(fields[5]), sent + int(fields[6])
            elif is_nfs and len(fields) > 8 and fields[0] in (b"READ:", b"WRITE:"):
                reads += int(fields[1]) if fields[0] == b"READ:" else 0
                writes += int(fields[1]) if fields[0] == b"WRITE:" else 0
                waited_ms += int(fields[8])
        return {
            "nfs.read_bytes_total": round_bytes(received, TRAFFIC_STEP_BYTES),
            "nfs.write_bytes_total": round_bytes(sent, TRAFFIC_STEP_BYTES),
            "nfs.read_ops_total": reads,
            "nfs.write_ops_total": writes,
            "nfs.wait_seconds_total": round(waited_ms / 1000, 2),
        }


class Lustre:
    """`lustre.*_total` over all mounts. Raises OSError if none is readable."""

    def __init__(self, patterns: tuple[str, ...] = _LUSTRE) -> None:
        self._files = []
        for path in sorted(path for pattern in patterns for path in glob.glob(pattern)):  # noqa: PTH207
            with suppress(OSError):
                self._files.append(ProcFile(path))
        if not self._files:
            raise FileNotFoundError(patterns[0])

    def read(self) -> Reading:
        """Read lines like `read_bytes 12 samples [bytes] 4096 1048576 5242880`: count, unit,
        sum.
        """
        totals = {b"read_bytes": [0, 0], b"write_bytes": [0, 0]}
        for file in self._files:
            for line in file.read().splitlines():
                fields = line.split()
                if fields and fields[0] in totals and len(fields) >= 7:
                    totals[fields[0]][0] += int(fields[1])
                    totals[fields[0]][1] += int(fields[6])
        reads, writes = totals.values()
        return {
            "lustre.read_bytes_total": round_bytes(reads[1], TRAFFIC_STEP_BYTES),
            "lustre.write_bytes_total": round_bytes(writes[1], TRAFFIC_STEP_BYTES),
            "lustre.read_ops_total": reads[0],
            "lustre.write_ops_total": writes[0],
        }
