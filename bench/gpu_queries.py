"""What each of the agent's queries to NVML takes, on this machine's own GPUs.

    python -m bench.gpu_queries                30 calls of each at once, and 30 half a second apart
    python -m bench.gpu_queries --calls 100

The agent's simulated driver answers in no time, so what a real one takes is measured here. It needs
a GPU, and nothing but the agent's own dependencies. Calls that follow a pause find cold caches, and
on some virtual machines memory that the host has reclaimed: compare them with those at once.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import pynvml as nvml
from trimtab.sources.gpu.device import Device, Parts

from bench.overhead_machine import RestedMemory

PAUSE_SECONDS = 0.5


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=30)
    calls = parser.parse_args().calls
    try:
        nvml.nvmlInit()
        device = Device(0, pids=list)
    except nvml.NVMLError as error:
        print(f"no GPU can be read here: {error}", file=sys.stderr)
        return 1
    print(f"{device.card.model}: milliseconds of CPU a call (of elapsed time)")
    print(f"{'at once':>30}{'after a pause':>20}")
    for name, ask in [*_queries(device._whole), ("all that a tick asks", device.read)]:
        at_once, rested = _taken(ask, calls, 0.0), _taken(ask, calls, PAUSE_SECONDS)
        print(f"{_shown(at_once):>30}{_shown(rested):>20}  {name}")
    memory = RestedMemory()
    for _ in range(5):
        memory.look()
    print(memory.words())
    return 0


def _queries(parts: Parts) -> list[tuple[str, Callable[[], object]]]:
    """Each part of the GPU's reading, named by what it gives."""
    asked = [partial(parts._answer, part) for part in parts._parts]
    for ask in asked:
        ask()  # The first time, some only find out what there is
    return [(", ".join(ask()) or "nothing new", ask) for ask in asked]


def _taken(ask: Callable[[], object], calls: int, pause_seconds: float) -> tuple[float, float]:
    """Median milliseconds of CPU and elapsed."""
    found = []
    for _ in range(calls):
        time.sleep(pause_seconds)
        cpu, began = time.process_time(), time.perf_counter()
        ask()
        found.append((time.process_time() - cpu, time.perf_counter() - began))
    cpus, elapsed = zip(*found, strict=True)
    return statistics.median(cpus) * 1000, statistics.median(elapsed) * 1000


def _shown(taken: tuple[float, float]) -> str:
    return f"{taken[0]:.2f} ({taken[1]:.2f})"


if __name__ == "__main__":
    sys.exit(main())
