"""Records what was asked and what was free when a GPU's memory ran out and ended the process.

The numbers are those of torch's message. CUDA has no hook for it that doesn't initialise the GPU,
and memory mostly runs out before the first step.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from trimtab import ring
from trimtab.recorder import Recorder
from trimtab.ring import NOT_KNOWN

_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SIZE = r"([\d.]{1,20}) (bytes|[KMGT]iB)"
_ASKED = re.compile(f"Tried to allocate {_SIZE}")
_GPU = re.compile(r"GPU (\d{1,9})")
_TOTAL = re.compile(f"total capacity of {_SIZE}|{_SIZE} total capacity")
_FREE = re.compile(f"(?:of which|;) {_SIZE}(?: is)? free")
_NO_GPU = 2**32 - 1


def watch(open_recorder: Callable[[], Recorder | None]) -> None:
    """Look at the exception that ends the process; everything else stays as it is."""
    original = sys.excepthook

    def excepthook(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        with suppress(Exception):
            record(error, open_recorder)
        original(kind, error, trace)

    sys.excepthook = excepthook


def record(error: BaseException, open_recorder: Callable[[], Recorder | None]) -> None:
    """Record the numbers of an error of torch about memory; ignore other errors."""
    text = str(error)
    asked = _ASKED.search(text)
    if asked is None or type(error).__name__ != "OutOfMemoryError":
        return
    if recorder := open_recorder():
        gpu = _GPU.search(text)
        recorder.fact(
            ring.OUT_OF_MEMORY,
            _bytes(asked),
            _bytes(_FREE.search(text)),
            _bytes(_TOTAL.search(text)),
            flags=int(gpu[1]) if gpu else _NO_GPU,
        )
        recorder.flush()


def _bytes(match: re.Match[str] | None) -> int:
    if match is None:
        return NOT_KNOWN
    number, unit = filter(None, match.groups())
    return round(float(number) * _UNITS[unit])
