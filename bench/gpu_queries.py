"""Measures what each of the agent's queries to NVML takes, on this machine's own GPUs.

    python -m bench.gpu_queries                12 rounds of all, half a second apart
    python -m bench.gpu_queries --rounds 100

In the bench of the agent's overhead a simulated driver takes as long as was measured here. A round
asks everything, as a tick in which all is due: the first query finds cold caches, the others don't.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

from trimtab.sources.gpu import nvml
from trimtab.sources.gpu.device import Device
from trimtab.sources.gpu.schedule import BUDGET, Query, plan

PAUSE_SECONDS = 0.5
LONG_PAUSE_SECONDS = 5.0
TICK_SECONDS = 0.5


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=12)
    rounds = parser.parse_args().rounds
    try:
        nvml.initialise()
        device = Device(0, pids=list, tell=lambda kind, data: None)
    except (OSError, nvml.NvmlError) as error:
        print(f"no GPU can be read here: {error}", file=sys.stderr)
        return 1
    print(f"{device.card.model}: milliseconds of CPU, and how often the agent asks")
    for line in price_queries(device, rounds):
        print(line)
    return 0


def price_queries(device: Device, rounds: int) -> list[str]:
    """Return a line for each query: its price, the longest-paused price, and its pause."""
    prices = _prices(device, [PAUSE_SECONDS] * rounds)
    later = _prices(device, [LONG_PAUSE_SECONDS] * 2)
    queries = device.schedule.queries
    for query in queries:
        query.price_seconds = statistics.median(prices[query.name])
    plan(queries, TICK_SECONDS)
    lines = [
        f"{1000 * query.price_seconds:6.2f} ms, {1000 * statistics.median(later[query.name]):5.2f}"
        f" after {LONG_PAUSE_SECONDS:g} s, {_pause(query):>12}  {query.name}"
        for query in sorted(queries, key=lambda query: -query.price_seconds)
    ]
    load = sum(query.load(TICK_SECONDS) for query in queries)
    return [*lines, f"{1000 * load:6.2f} ms a second in all, of {1000 * BUDGET:g}"]


def _prices(device: Device, pauses: list[float]) -> dict[str, list[float]]:
    """Return the CPU seconds of each query. The first round only finds out what there is."""
    device.read(settles=True)
    prices: dict[str, list[float]] = {}
    for pause in pauses:
        time.sleep(pause)
        for query in list(device.schedule.queries):
            began = time.thread_time()
            device._answer(query, time.monotonic())
            prices.setdefault(query.name, []).append(time.thread_time() - began)
        device.take_spans()
    return prices


def _pause(query: Query) -> str:
    seconds = query.planned_seconds
    return f"every {max(seconds, TICK_SECONDS):.1f} s" if seconds < 1e9 else "never"


if __name__ == "__main__":
    sys.exit(main())
