"""End this process, with the stack of all threads in its log, when nothing in it can go on.

While a C call holds the interpreter, every Python thread waits, so none of them can notice. The
kernel's timers can, with signal handlers in C, which need no interpreter. They are set again as
long as all is well, on two clocks:

- `HELD`: the CPU time of the process since a thread last had the interpreter. A process that is
  stopped, suspended or starved uses none, so time that merely passes never counts.
- `HUNG`: the time since the event loop last turned. It finds what waits and uses no CPU time.

Standard library only, like the supervisor, which restarts what ended this way without a pause.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
import threading
import time

HELD, HUNG = signal.SIGPROF, signal.SIGALRM
ENDINGS = {
    int(HELD): "ended by its watchdog: something held the interpreter",
    int(HUNG): "ended by its watchdog: its loop hung",
}
"""Exit code -> how the process ended."""
HELD_SECONDS, HUNG_SECONDS = 5.0, 15.0
"""The second one is shorter than the patience of the supervisor, which leaves no stack."""
LOOK_SECONDS = 0.05


def start() -> None:
    """Watch this process from now on. The loop has to call `loop_turned` every second or two."""
    for each in (HELD, HUNG):
        _exit_with_stack_on(each)
    threading.Thread(target=_renew, name="watchdog", daemon=True).start()
    loop_turned()


def loop_turned() -> None:
    """Give the event loop its full time again."""
    signal.setitimer(signal.ITIMER_REAL, HUNG_SECONDS)


def _renew() -> None:
    """Give the process its full CPU time again whenever this thread gets the interpreter."""
    # Every processor may have worked for threads that don't need the interpreter between two looks.
    allowed_seconds = HELD_SECONDS + LOOK_SECONDS * (os.cpu_count() or 1)
    while True:
        signal.setitimer(signal.ITIMER_PROF, allowed_seconds)
        time.sleep(LOOK_SECONDS)


def _exit_with_stack_on(each: signal.Signals) -> None:
    """Make the signal write the stacks and exit with its own number as the status."""
    # The default action would do, but the first process of a container is immune to it. So libc's
    # `_exit` is the handler that faulthandler calls when the stacks are written.
    libc = ctypes.CDLL(None)
    libc.signal(int(each), ctypes.cast(libc._exit, ctypes.c_void_p))
    faulthandler.register(each, file=sys.__stderr__ or sys.stderr, all_threads=True, chain=True)
