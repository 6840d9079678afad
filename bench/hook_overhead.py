"""The overhead of the training hook: a PyTorch loop alternately with and without it, in one
process.

    python -m bench.hook_overhead            prints the figures
    python -m bench.hook_overhead --check exits with 1 if a promise is broken

Turns in one process share its memory, its caches and the machine's load, so their difference is the
hook's. Measured are: a single event, repeated; a torch loop with almost empty steps, in which each
event meets cold caches (compared with a torch hook that does nothing); and a loop with a small
network, where the overhead should be within noise. TRIMTAB_TEST_TORCH_PYTHON names a Python with
torch, if this one has none.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from trimtab import hooks

from bench.figures import note

EVENT_MICROSECONDS = 1.0
"""The promise for a single event. A step has two: a batch arrives, the optimizer steps."""
NOISE_PCT = 1.0
"""A smaller difference in a real loop's step is within noise."""
PAIRS = 60

WORKER = '''
import gc, json, sys, time, torch
from torch.utils.data import DataLoader
from torch.optim import optimizer as optimizers
torch.set_num_threads(1)
with_what, sizes = sys.argv[1], map(int, sys.argv[2:])
width, batch, pairs, steps = sizes

class Ready:
    """Batches that cost nothing to fetch."""
    def __init__(self): self.item = torch.randn(width)
    def __len__(self): return steps * batch
    def __getitem__(self, index): return self.item
    def __getitems__(self, indices): return self.items

data = Ready()
data.items = [data.item] * batch
kept = torch.stack(data.items)
loader = DataLoader(data, batch_size=batch, collate_fn=lambda items: kept)
layer = torch.nn.Linear(width, width)
optimizer = torch.optim.SGD(layer.parameters(), lr=1e-6)
iterator = torch.utils.data.dataloader._BaseDataLoaderIter
hooked = DataLoader.__iter__, iterator.__next__, dict(optimizers._global_optimizer_post_hooks)
assert len(hooked[2]) == 1, "the hook isn't there"
bare = DataLoader.__iter__.__wrapped__, iterator.__next__.__wrapped__, {}
nothing = bare[0], bare[1], {1: lambda optimizer, arguments, named: None}
if with_what == "nothing": hooked = nothing

def alone():
    """Microseconds of a batch and of a step, the best of five."""
    import timeit
    from trimtab.hooks import pytorch
    from trimtab import sdk
    for _ in range(2): turn(hooked)
    pytorch.training.note_step(optimizer)
    recorder = sdk.attached.recorder
    class Iterator: pass
    it = Iterator()
    it._trimtab, it._num_yielded = recorder.usual_batches, 1
    assert it._trimtab is not None and recorder.usual_optimizer == id(optimizer)
    fetch = lambda self: None
    hooked_next = pytorch._timed_next(fetch, torch.is_grad_enabled)
    best = lambda call: min(timeit.repeat(call, number=20_000, repeat=5)) / 20_000 * 1e6
    batch = best(lambda: hooked_next(it)) - best(lambda: fetch(it))
    return batch, best(lambda: pytorch.training.note_step(optimizer, (), {}))

def turn(ways):
    DataLoader.__iter__, iterator.__next__ = ways[:2]
    optimizers._global_optimizer_post_hooks.clear()
    optimizers._global_optimizer_post_hooks.update(ways[2])
    gc.collect()
    began = time.process_time_ns()
    for x in loader:
        layer(x).sum().backward()
        optimizer.step()
    return (time.process_time_ns() - began) / steps / 1000

if with_what == "alone":
    print(json.dumps([alone()]))
    raise SystemExit
for ways in (bare, hooked) * 3: turn(ways)
durations = []
for number in range(pairs):
    order = (bare, hooked) if number % 2 else (hooked, bare)
    times = {id(ways): turn(ways) for ways in order}
    durations.append((times[id(bare)], times[id(hooked)]))
print(json.dumps(durations))
'''


@dataclass(frozen=True)
class Loop:
    """Medians over the pairs, CPU microseconds a step; the interval holds 95 % by rank."""

    name: str
    bare: float
    added: float
    added_low: float
    added_high: float

    @property
    def added_pct(self) -> float:
        return 100 * self.added / self.bare


def measure(name: str, what: str, width: int, batch: int, steps: int, pairs_count: int) -> Loop:
    pairs = worker(what, width, batch, steps, pairs_count)
    added = sorted(hooked - bare for bare, hooked in pairs)
    # The median's interval by order statistics: a binomial's 2.5 % point, normal approximation.
    reach = round(0.98 * len(added) ** 0.5)
    middle = len(added) // 2
    return Loop(
        name,
        statistics.median(bare for bare, _ in pairs),
        statistics.median(added),
        added[max(0, middle - reach)],
        added[min(len(added) - 1, middle + reach)],
    )


def worker(
    what: str, width: int, batch: int, steps: int, pairs: int = PAIRS
) -> list[tuple[float, float]]:
    """Return pairs of microseconds: a step bare and hooked; or a batch and a step alone."""
    python = os.environ.get("TRIMTAB_TEST_TORCH_PYTHON") or sys.executable
    with tempfile.TemporaryDirectory() as folder:
        environment = hooks.environment(os.environ, Path(folder))
        sizes = [str(number) for number in (width, batch, pairs, steps)]
        command = [python, "-W", "ignore", "-c", WORKER, what, *sizes]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{python} can't run the loop:\n{done.stderr[-2000:]}")
    return [(bare, hooked) for bare, hooked in json.loads(done.stdout)]


def broken_promises(alone: tuple[float, float], real: Loop) -> list[str]:
    broken = [f"{us:.2f} us an event, over 1.0" for us in alone if us > EVENT_MICROSECONDS]
    if real.added_low > real.bare * NOISE_PCT / 100:
        broken.append(f"{real.added_pct:.2f} % of a real step, over {NOISE_PCT} %")
    return broken


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail where a promise is broken")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="turns with and without the hook")
    asked = parser.parse_args()
    (alone,) = worker("alone", 4, 2, 2_000)
    print(f"alone: {alone[0]:.2f} us a batch, {alone[1]:.2f} us a step")
    loops = [
        measure("empty", "hook", 4, 2, 2_000, asked.pairs),
        measure("empty, no-op", "nothing", 4, 2, 2_000, asked.pairs),
        measure("small network", "hook", 768, 64, 60, asked.pairs),
    ]
    print(f"{'loop':14} {'bare us':>9} {'added us':>9} {'95 % interval':>16} {'added %':>8}")
    for loop in loops:
        interval = f"{loop.added_low:.2f}..{loop.added_high:.2f}"
        figures = f"{loop.bare:9.1f} {loop.added:9.2f} {interval:>16} {loop.added_pct:8.2f}"
        print(f"{loop.name:14} {figures}")
    broken = broken_promises(alone, loops[-1])
    added = f"a small network {loops[-1].added_pct:+.2f} %"
    note("hook", f"{max(alone):.2f} µs an event, {added}", not broken)
    for promise in broken:
        print(f"broken: {promise}")
    return int(asked.check and bool(broken))


if __name__ == "__main__":
    sys.exit(main())
