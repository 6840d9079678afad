"""A training with many data-loader processes that mostly wait, as most of them do.

python bench/many_loaders.py LOADERS SECONDS
"""

from __future__ import annotations

import os
import sys
import time

WAIT_SECONDS = 1.0


def main(loaders: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    children = [pid for _ in range(loaders) if (pid := _started(until))]
    for pid in children:
        os.waitpid(pid, 0)


def _started(until: float) -> int:
    """Return the new process's id; never returns in the new process."""
    pid = os.fork()
    if pid:
        return pid
    while time.monotonic() < until:
        time.sleep(WAIT_SECONDS)
        sum(range(1000))
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
