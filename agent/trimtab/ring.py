"""The file in which a training process records its steps for the agent.

Each process has one ring of fixed-size records, in memory that the agent maps too. Writing a
record takes a fraction of a microsecond, needs no thread and no socket, and the record survives the
writer. A record that the agent didn't read in time is overwritten and counted.

Layout, little-endian: a header of 64 bytes (magic, rank, records written so far), then the
records. `kind` says how to read the last four fields. Names of metrics are written once to a
text file beside the ring, one per line; the record holds the line number.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

MAGIC = b"TRIMTAB2"
CAPACITY = 16_384
RECORD = struct.Struct("<BBHIqqqqq")
"""kind, phase, unused, name or flags, monotonic ns, and four fields that the kind explains."""
METRIC = struct.Struct("<BBHIqdqqq")
_HEADER = struct.Struct("<8sq")
_WRITTEN = struct.Struct("<q")
_WRITTEN_AT = 16
_HEADER_BYTES = 64
_BEING_WRITTEN = 64
"""Records nearest to the writer that the reader skips after the ring has wrapped."""
_HELD_RECORDS = 2_048
"""Records already read that may stay in the reader's memory: 96 KB. Eight whole rings are 6 MB."""

STEP, UNTIMED_STEP, PHASE_BEGIN, PHASE_END, EPOCH, LOG = range(1, 7)
CHECKPOINT, LOADER, PRECISION, MEMORY, RANK, PROFILE = range(7, 13)
GLOBAL_STEP, RESTORE, COMPILE, CHECKPOINT_FILE, DDP = range(13, 18)
GPU_STEPS, TORCH_MEMORY, OUT_OF_MEMORY, EPOCH_LENGTH, MEMORY_FORMAT = range(18, 23)
PARAMETERS, FLOPS = range(23, 25)
"""STEP: duration ns, data wait ns, samples, tokens. UNTIMED_STEP: -, -, samples, tokens. EPOCH:
number. LOG (a METRIC record): value, step. CHECKPOINT: duration ns, bytes. LOADER: workers, batch
size, prefetch factor; flags. PRECISION: type of autocast, type of the parameters (DTYPES); flags.
MEMORY: most bytes allocated and reserved on this rank's GPU, bytes it has. RANK: local rank, world
size, process id; flags: how often the launcher restarted it. PROFILE: first step, steps, bytes (0:
failed). GLOBAL_STEP: steps that the training has done. RESTORE: duration ns, bytes, step. COMPILE:
duration ns, how many compilations. CHECKPOINT_FILE: fingerprint, bytes; flags: 1 if it was loaded.
DDP: ns of communication after the rank's own backward, iteration. GPU_STEPS: ns on the GPU, steps,
ns to launch them. TORCH_MEMORY: bytes allocated and reserved now, how often memory ran out; flags:
how often torch freed its cache and tried again. OUT_OF_MEMORY: bytes that were asked for, that were
free, that the GPU has; flags: the GPU's number in the process. EPOCH_LENGTH: samples of the rank.
MEMORY_FORMAT: weights of convolutions, and those of them that are in channels_last. PARAMETERS: of
the whole model: all, those that train, those that an optimizer has, those of embeddings; flags: 1
if another layer shares one. FLOPS: of one counted step: forward, backward, recomputed, samples;
flags: 1 if some operation was not counted, and twice the tokens plus 2.
-1 is "not known"."""

PIN_MEMORY, PERSISTENT_WORKERS, EVALUATES = 1, 2, 4
"""Flags of LOADER."""
TF32_MATMUL, TF32_CUDNN = 1, 2
"""Flags of PRECISION."""
DTYPES = ("off", "float32", "float16", "bfloat16", "float64", "other")

NOT_KNOWN = -1


class RingWriter:
    """The training process's side. Only the constructor raises OSError."""

    def __init__(self, folder: str, rank: int) -> None:
        path, descriptor = _made(Path(folder))
        size = _HEADER_BYTES + CAPACITY * RECORD.size
        try:
            # Reserved now: a full disk must be an error here, not a fatal signal at a later write.
            os.posix_fallocate(descriptor, 0, size)
            self._memory = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)
        self._names_path = path.with_suffix(".names")
        self._names: dict[str, int] = {}
        self._written = 0
        _HEADER.pack_into(self._memory, 0, MAGIC, rank)

    def write(
        self,
        kind: int,
        phase: int,
        at_ns: int,
        a: int,
        b: int,
        c: int,
        flags: int = 0,
        d: int = NOT_KNOWN,
    ) -> None:
        written = self._written
        at = _HEADER_BYTES + written % CAPACITY * RECORD.size
        RECORD.pack_into(self._memory, at, kind, phase, 0, flags, at_ns, a, b, c, d)
        self._written = written = written + 1
        _WRITTEN.pack_into(self._memory, _WRITTEN_AT, written)

    def write_metric(self, name: str, at_ns: int, value: float, step: int) -> None:
        number = self._names.get(name)
        if number is None:
            number = self._add_name(name)
        at = _HEADER_BYTES + self._written % CAPACITY * RECORD.size
        METRIC.pack_into(self._memory, at, LOG, 0, 0, number, at_ns, value, step, -1, -1)
        self._written += 1
        _WRITTEN.pack_into(self._memory, _WRITTEN_AT, self._written)

    def _add_name(self, name: str) -> int:
        with self._names_path.open("a", encoding="utf-8") as names:
            names.write(name.replace("\n", " ")[:120] + "\n")
        self._names[name] = len(self._names)
        return self._names[name]


def _made(folder: Path) -> tuple[Path, int]:
    """Make `PID.ring` and return it open; `PID-1.ring` after the process has replaced its program
    (exec), and so on: the agent may not have read the earlier ring yet.
    """
    for number in count():
        path = folder / (f"{os.getpid()}-{number}.ring" if number else f"{os.getpid()}.ring")
        with suppress(FileExistsError):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            return path, os.open(path, flags, 0o600)
    raise AssertionError("there is always another number")


def process_of(name: str) -> int:
    """Return the id of the process whose ring has this file name; -1 for other files."""
    stem, suffix = os.path.splitext(name)  # noqa: PTH122 - runs often
    pid = stem.partition("-")[0]
    return int(pid) if suffix == ".ring" and pid.isdecimal() else -1


def is_made(path: Path) -> bool:
    """Return whether the writer has made the ring; false while it is being made. May raise
    OSError.
    """
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


class RingReader:
    """The agent's side: new records since the last call, and how many were lost."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        magic, self.rank = _HEADER.unpack_from(self._memory, 0)
        expected = _HEADER_BYTES + CAPACITY * RECORD.size
        if magic != MAGIC or len(self._memory) != expected or not 0 <= self.rank <= 10_000_000:
            raise ValueError(f"{path.name} is not a ring of this version")
        self._names_path = path.with_suffix(".names")
        self._names: list[str] = []
        self._read = self._let_go = 0
        self.lost = 0

    def records(self) -> Iterator[tuple[int, ...]]:
        """Yield the new records as (kind, phase, name or flags, monotonic ns, a, b, c, d),
        oldest first.
        """
        written = _WRITTEN.unpack_from(self._memory, _WRITTEN_AT)[0]
        if written - self._read > CAPACITY - _BEING_WRITTEN:
            oldest = written - CAPACITY + _BEING_WRITTEN
            self.lost += oldest - self._read
            self._read = oldest
        if self._read - self._let_go > _HELD_RECORDS:
            # They stay in the file; only this process's memory is given back.
            self._memory.madvise(mmap.MADV_DONTNEED)
            self._let_go = self._read
        while self._read < written:
            at = _HEADER_BYTES + self._read % CAPACITY * RECORD.size
            layout = METRIC if self._memory[at] == LOG else RECORD
            kind, phase, _, name, *rest = layout.unpack_from(self._memory, at)
            self._read += 1
            yield kind, phase, name, *rest

    def skip(self) -> None:
        """Skip what has been written so far."""
        self._read = _WRITTEN.unpack_from(self._memory, _WRITTEN_AT)[0]

    def name(self, number: int) -> str:
        if number >= len(self._names):
            with self._names_path.open(encoding="utf-8", errors="replace") as names:
                self._names = names.read().split("\n")[:-1]
        return self._names[number]
