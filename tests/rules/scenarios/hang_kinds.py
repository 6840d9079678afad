"""Eight kinds of hangs: name -> a training that hangs like that."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.rules.scenarios.standstill import Training, new

Random = np.random.Generator


def collective_spins(random: Random) -> Training:
    """Let a rank never arrive: all GPUs spin in NCCL's kernel, and every rank polls the GPU."""
    made = new(random)
    made.rest(made.ranks * random.uniform(0.97, 1.02), 0.03)
    share = random.uniform(0.08, 0.24)
    for gpu in range(made.gpus):
        made.gpu(gpu, 100.0, share + random.uniform(-0.02, 0.02))
    return made


def a_rank_died(random: Random) -> Training:
    """Make a training in which one GPU idles, and the others spin."""
    made = new(random, gpus=int(random.integers(2, 5)))
    made.rest((made.ranks - 1) * random.uniform(0.97, 1.02), 0.03)
    for gpu in range(1, made.gpus):
        made.gpu(gpu, 100.0, random.uniform(0.08, 0.24))
    return made


def ranks_poll(random: Random) -> Training:
    made = new(random, gpus=4)
    made.rest(made.ranks * random.uniform(0.9, 1.02), 0.05)
    return made


def data_loader_deadlock(random: Random) -> Training:
    made = new(random)
    made.rest(random.uniform(0.0, 0.06), 0.01)
    return made


def idle_after_an_exception(random: Random) -> Training:
    """Let one rank wait for its dead child, and the others for it without polling."""
    made = new(random)
    made.rest(random.uniform(0.0, 0.02) * made.ranks, 0.002)
    made.memory[made.silent] *= random.uniform(0.5, 1.0)
    return made


def dead_file_server(random: Random) -> Training:
    made = new(random)
    made.rest(0.0)
    made.network[made.silent] = 500.0
    return made


def a_lock_spins(random: Random) -> Training:
    """Let one thread wait in a loop; everything else sleeps."""
    made = new(random)
    made.rest(random.uniform(0.98, 1.02), 0.02)
    return made


def without_gpus(random: Random) -> Training:
    """Return a training on many cores, of which one spins or none does anything."""
    made = new(random, gpus=0)
    made.cores *= random.uniform(2.0, 3.0) * 2.1 / made.work_cores
    made.rest(random.choice([0.0, 0.03, 1.0]), 0.01)
    return made


HANGS: dict[str, Callable[[Random], Training]] = {
    made.__name__: made
    for made in (
        collective_spins,
        a_rank_died,
        ranks_poll,
        data_loader_deadlock,
        idle_after_an_exception,
        dead_file_server,
        a_lock_spins,
        without_gpus,
    )
}
