"""The idle service: its memory a minute after the start, and how soon it is up again.

    python -m bench.idle            prints the figures
    python -m bench.idle --check    exits with 1 if a promise is broken

Memory is the proportional share (PSS) of all processes: supervisor, web server, worker with its
children, beat and Redis.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from bench.figures import note
from tests.running_service import Service

MOST_MB, MOST_SECONDS = 450.0, 5.0
IDLE_SECONDS = 60.0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory(prefix="trimtab-idle-") as folder:
        first = Service(Path(folder)).start()
        time.sleep(IDLE_SECONDS)
        memory_mb = _print_memory(first)
        first.stop()
        began = time.monotonic()
        again = Service(Path(folder), first.port).start()
        seconds = time.monotonic() - began
        again.stop()
    print(f"up again after {seconds:.1f} s")
    is_kept = memory_mb <= MOST_MB and seconds <= MOST_SECONDS
    note("idle", f"{memory_mb:.0f} MB, up again in {seconds:.1f} s", is_kept)
    return 0 if is_kept or not check else 1


def _print_memory(service: Service) -> float:
    """The sum in MB."""
    total = 0.0
    for process in service.tree():
        megabytes = process.memory_full_info().pss / 1e6
        print(f"{megabytes:7.0f} MB  {' '.join(process.cmdline())[:80]}")
        total += megabytes
    print(f"{total:7.0f} MB")
    return total


if __name__ == "__main__":
    sys.exit(main())
