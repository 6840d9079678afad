"""Identifies checkpoints, wherever they are copied, by a hash of a file's size and of parts of its
bytes.

A training changes all of its weights with each step, so some parts of a file are enough: its head,
its end (where PyTorch's files have the checksums of all tensors) and blocks in between. At most
136 KiB are read, whatever the size. Nothing is unpickled, and nothing can be read from the hash.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from time import monotonic_ns
from typing import Any

from trimtab import sdk
from trimtab.recorder import Recorder
from trimtab.ring import NOT_KNOWN

_MOST_LOADED, _MOST_READ = 20, 200
"""The most files loaded before the first step that are reported, the largest ones, and that are
read at all, because a data set may have a file a sample (ours)."""

_HEAD, _BLOCK, _BLOCKS, _END = 16_384, 4_096, 14, 65_536
_BITS = 63
_SLOW_NS = 100_000_000
"""The time above which a file, on a file server far away, is the last one that is read (ours)."""

Read = Callable[[int, int], bytes]
"""A function that reads (size, offset) -> bytes."""


class CheckpointFiles:
    """The files that one process saves, and those that it loads before its first step. Only the
    first rank tells of them: others save parts of the same checkpoint."""

    def __init__(self) -> None:
        self._loaded: list[tuple[int, int, int]] = []
        """The loaded files: bytes, monotonic ns and fingerprint."""
        self._read = 0
        self._is_slow = False

    def record_save(self, recorder: Recorder, file: Any) -> None:
        if file is not None and recorder.rank == 0:
            known, size = self._fingerprint(file)
            if known != NOT_KNOWN:
                recorder.checkpoint_file(monotonic_ns(), known, size, is_loaded=False)

    def record_load(self, file: Any) -> None:
        recorder = sdk.attached.recorder
        is_sample = recorder is not None and recorder.fetching
        if self._read < _MOST_READ and not is_sample:
            self._read += 1
            known, size = self._fingerprint(file)
            if known != NOT_KNOWN:
                self._loaded = sorted([*self._loaded, (size, monotonic_ns(), known)])[
                    -_MOST_LOADED:
                ]

    def first_step(self, recorder: Recorder) -> None:
        """Report what was loaded. Later loads don't say where the training began."""
        loaded, self._loaded, self._read = self._loaded, [], _MOST_READ
        for size, at_ns, known in loaded if recorder.rank == 0 else ():
            recorder.checkpoint_file(at_ns, known, size, is_loaded=True)

    def _fingerprint(self, file: Any) -> tuple[int, int]:
        if self._is_slow:
            return NOT_KNOWN, NOT_KNOWN
        began_ns = monotonic_ns()
        found = fingerprint(file)
        self._is_slow = monotonic_ns() - began_ns > _SLOW_NS
        return found


def fingerprint(file: Any) -> tuple[int, int]:
    """Return the fingerprint of a file.

    Args:
        file: a path, an open file, or a buffer in memory. Its position isn't moved.

    Returns:
        A number of 63 bits and the file's size in bytes; (NOT_KNOWN, NOT_KNOWN) where there is
        nothing to read, such as for a pipe. Never raises.
    """
    with suppress(Exception):
        if isinstance(file, io.BytesIO):
            with file.getbuffer() as view:
                return _hashed(len(view), lambda size, at: bytes(view[at : at + size]))
        return _of_file(_path_of(file))
    return NOT_KNOWN, NOT_KNOWN


def _path_of(file: Any) -> str:
    """Return the path, of an open file by its descriptor: it may be open for writing only, or be
    renamed.
    """
    if isinstance(file, (str, os.PathLike)):
        return os.fspath(file)
    return f"/proc/self/fd/{int(file.fileno())}"


def _of_file(path: str) -> tuple[int, int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            return NOT_KNOWN, NOT_KNOWN
        return _hashed(facts.st_size, lambda size, at: os.pread(descriptor, size, at))
    finally:
        os.close(descriptor)


def _hashed(size: int, read: Read) -> tuple[int, int]:
    digest = hashlib.blake2b(size.to_bytes(8, "little"), digest_size=8)
    for length, at in _parts(size):
        digest.update(read(length, at))
    return int.from_bytes(digest.digest(), "little") >> (64 - _BITS), size


def _parts(size: int) -> Iterator[tuple[int, int]]:
    if size <= _HEAD + _BLOCKS * _BLOCK + _END:
        yield size, 0
        return
    yield _HEAD, 0
    between = size - _HEAD - _END
    for number in range(_BLOCKS):
        yield _BLOCK, _HEAD + between * number // _BLOCKS
    yield _END, size - _END
