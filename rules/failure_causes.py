"""Finds why a process failed, from what was recorded of its end and before it.

Sources: exit codes as POSIX shells define them (128 + n: signal n), 124: GNU coreutils' `timeout`.
XIDs: NVIDIA's catalogue of XID errors; those here are told of memory, links, the bus or firmware,
while 13, 31, 43 and 45 are mostly the program's own.
"""

from __future__ import annotations

import math
import re
import signal
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from rules.frame import RunFrame
from rules.training_loop import events_of

OOM, NAN, HARDWARE, TIMEOUT = "oom", "nan", "hardware", "timeout"
SIGNAL, EXIT_CODE, UNKNOWN = "signal", "exit_code", "unknown"
CAUSES = (OOM, HARDWARE, TIMEOUT, NAN, SIGNAL, EXIT_CODE, UNKNOWN)
"""The causes. If several apply, the first is named."""
WORDS = {
    OOM: "Out of memory",
    HARDWARE: "Hardware error",
    TIMEOUT: "Timeout",
    NAN: "Loss not a number",
    SIGNAL: "Ended by a signal",
    EXIT_CODE: "Error of the program",
    UNKNOWN: "Unknown cause",
}
HARDWARE_XIDS = frozenset({48, 61, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120, 140, 143, 158})
SHORTLY_SECONDS = 600.0
"""An error of the hardware counts as the cause of a failure up to so long after it (ours)."""
_TIMEOUT_CODE, _KILLED_CODE, _SIGNAL_CODES = 124, 128 + signal.SIGKILL, 128
_TEXTS = {
    OOM: re.compile(r"CUDA out of memory|OutOfMemoryError|\bMemoryError\b|RESOURCE_EXHAUSTED"),
    HARDWARE: re.compile(
        r"uncorrectable ECC|NVLink error|GPU has fallen off the bus|device-side hardware", re.I
    ),
    TIMEOUT: re.compile(
        r"DUE TO TIME LIMIT|collective operation timeout|Watchdog caught|\bTimeoutError\b"
    ),
    NAN: re.compile(r"\bloss\b[^\n]{0,40}\b(nan|inf)\b|\b(nan|inf)\b[^\n]{0,20}\bloss\b", re.I),
}
"""The texts that tell causes in the last lines of standard error, if they were kept."""


def cause_in(text: str, exit_code: int | None) -> str:
    """Return the cause that lines of standard error or the exit code name; empty: none."""
    named = {cause for cause, pattern in _TEXTS.items() if pattern.search(text)}
    if exit_code == _TIMEOUT_CODE:
        named.add(TIMEOUT)
    return next((cause for cause in CAUSES if cause in named), "")


def cause_of(
    frame: RunFrame, began_seconds: float, ended_seconds: float, data: dict[str, Any]
) -> str:
    """Return one of `CAUSES`.

    Args:
        began_seconds: the start of the life that ended; what was recorded before is not its own.
        data: the event of the end; empty: there is none.
    """
    said = _texts(frame, began_seconds, ended_seconds)
    if _killed_for_memory(data) or _TEXTS[OOM].search(said):
        return OOM
    if any(_events(frame, "gpu_out_of_memory", began_seconds, ended_seconds + 1)):
        return OOM
    if _TEXTS[HARDWARE].search(said) or _has_hardware_error(frame, began_seconds, ended_seconds):
        return HARDWARE
    if data.get("exit_code") == _TIMEOUT_CODE or data.get("signal") == signal.SIGXCPU:
        return TIMEOUT
    if _TEXTS[TIMEOUT].search(said):
        return TIMEOUT
    if _TEXTS[NAN].search(said) or _loss_is_lost(frame, began_seconds, ended_seconds):
        return NAN
    return _by_code(data)


def _by_code(data: dict[str, Any]) -> str:
    code = data.get("exit_code")
    if data.get("signal") or (isinstance(code, int) and _SIGNAL_CODES < code <= 192):
        return SIGNAL
    return EXIT_CODE if isinstance(code, int) and code else UNKNOWN


def _killed_for_memory(data: dict[str, Any]) -> bool:
    """Return whether it was killed for memory. A worker that is killed makes its parent fail with
    an exit code of its own.
    """
    if not data.get("oom_kills"):
        return False
    killed = data.get("signal") == signal.SIGKILL or data.get("exit_code") == _KILLED_CODE
    return killed or data.get("oom_scope") == "container" or bool(data.get("oom_process"))


def _texts(frame: RunFrame, began: float, ended: float) -> str:
    lines = _events(frame, "stderr", began, ended + 1)
    return "\n".join(text for data in lines if isinstance(text := data.get("text"), str))


def _has_hardware_error(frame: RunFrame, began: float, ended: float) -> bool:
    since = max(began, ended - SHORTLY_SECONDS)
    xids = (data.get("xid") for data in _events(frame, "gpu_xid", since, ended + 60))
    return any(xid in HARDWARE_XIDS for xid in xids) or _has_ecc_error(frame, since, ended)


def _has_ecc_error(frame: RunFrame, since: float, ended: float) -> bool:
    """Return whether a counter of uncorrected errors rose."""
    for node in frame.nodes.values():
        for number in node.allocated_gpus():
            counter = node.series(f"gpu{number}.ecc_uncorrected_errors_total")
            if counter is not None and _rises(counter.loc[since : ended + 60].to_numpy()):
                return True
    return False


def _rises(values: Any) -> bool:
    return len(values) > 1 and bool(values[-1] > values[0])


def _loss_is_lost(frame: RunFrame, began: float, ended: float) -> bool:
    """Return whether the last value of a loss is not finite."""
    last = {
        data.get("name"): data.get("value")
        for data in _events(frame, "metric", began, ended)
        if "loss" in str(data.get("name")).lower()
    }
    return any(not math.isfinite(value) for value in map(_number, last.values()))


def _number(value: Any) -> float:
    """Return the number; values that aren't finite travel as text."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return 0.0


def _events(frame: RunFrame, kind: str, since: float, until: float) -> Iterator[dict[str, Any]]:
    """Yield the events in order of time on each node. A run may have many, and many failures."""
    for node in frame.nodes.values():
        events = events_of(node, kind)
        first = bisect_left(events, since, key=itemgetter(0))
        last = bisect_right(events, until, key=itemgetter(0))
        yield from (data for _, data in events[first:last])
