"""A sign of life that a process of the service gives to its supervisor."""

from __future__ import annotations

import contextlib
import os

from webapp.service.child import PULSE_VARIABLE


def send_pulse() -> None:
    """Give a sign of life, if anybody listens. Call this every second or two from whatever must not
    hang.
    """
    descriptor = os.environ.get(PULSE_VARIABLE)
    if descriptor is not None:
        with contextlib.suppress(OSError):
            os.write(int(descriptor), b".")
