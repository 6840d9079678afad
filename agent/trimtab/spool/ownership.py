"""Which process looks after a session, and whether that process still lives."""

from __future__ import annotations

import os

from trimtab.timeline import boot_id, process_started

NOBODY = ""
_DRAINER = "drainer "


def own_name(drainer: bool = False) -> str:
    """This process: boot, number and start time, so that a later one isn't taken for it.

    A drainer only repeats uploads until they succeed, so anyone who asks may take over from it.
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
