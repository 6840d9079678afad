"""Records which process uploads a session, and whether that process still runs."""

from __future__ import annotations

import os

from trimtab.timeline import boot_id, process_started

NOBODY = ""
_DRAINER = "drainer "


def own_name(drainer: bool = False) -> str:
    """Return this process's name: boot, process id and start time, so that a reused id doesn't
    match.

    A drainer only retries uploads, so other processes may take over its sessions.
    """
    name = f"{boot_id()}:{os.getpid()}:{process_started(os.getpid())}"
    return _DRAINER + name if drainer else name


def is_drainer(owner: str) -> bool:
    return owner.startswith(_DRAINER)


def is_alive(owner: str) -> bool:
    owner = owner.removeprefix(_DRAINER)
    boot, _, process = owner.partition(":")
    pid, _, started = process.partition(":")
    if boot != boot_id() or not pid.isdecimal() or not started:
        return False
    return process_started(int(pid)) == started
