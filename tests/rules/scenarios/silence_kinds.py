"""Twenty kinds of silence that are no hang: name -> a training that is silent like that."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rules.frame import NodeFrame
from tests.rules.scenarios.standstill import MB, Training, ends, new, told

Random = np.random.Generator


def compiles(random: Random) -> Training:
    """Compile as shapes have changed: the compiler runs on some cores and allocates."""
    made = new(random)
    made.rest(random.uniform(1.0, 6.0), 0.1)
    _grows(made, random.uniform(1, 20) * MB)
    return made


def downloads(random: Random) -> Training:
    made = new(random)
    made.rest(random.uniform(0.05, 0.6), 0.02)
    made.written[made.silent] = made.network[made.silent] = random.uniform(2, 300) * MB
    return made


def tokenises(random: Random) -> Training:
    """Read text on one core."""
    made = new(random, has_steps=bool(random.random() < 0.5))
    made.rest(1.0, 0.01)
    made.read[made.silent] = random.uniform(0.5, 200) * MB
    return made


def shuffles_in_memory(random: Random) -> Training:
    made = new(random)
    made.rest(1.0, 0.01)
    _grows(made, random.uniform(1, 30) * MB)
    return made


def unpacks(random: Random) -> Training:
    """Writes in bursts, a few seconds of each minute."""
    made = new(random)
    made.rest(1.0, 0.01)
    bursts = made.silent & (made.times % 20 < 4)
    made.written[bursts] = random.uniform(20, 200) * MB
    return made


def evaluates_on_cores(random: Random) -> Training:
    """Evaluate without recording it; memory comes and goes, or more than one core works."""
    made = new(random)
    made.rest(random.uniform(1.0, 1.4), 0.1)
    wave = np.sin(made.times / random.uniform(60, 200) * 2 * np.pi)
    made.memory[made.silent] *= 1 + 0.1 * wave[made.silent]
    return made


def evaluates_on_gpu(random: Random) -> Training:
    """Evaluate without recording it; with small kernels, or generation that is bound by memory."""
    made = new(random)
    made.rest(1.0, 0.02)
    for gpu in range(made.gpus):
        made.gpu(gpu, random.uniform(40, 100), random.uniform(0.35, 0.9), random.uniform(15, 80))
    return made


def evaluates_as_recorded(random: Random) -> Training:
    made = new(random)
    made.rest(1.0, 0.01)
    told(made, "evaluate")
    return made


def saves_as_recorded(random: Random) -> Training:
    made = new(random)
    made.rest()
    told(made, "checkpoint")
    return made


def uploads_a_checkpoint(random: Random) -> Training:
    made = new(random)
    made.rest(random.uniform(0.03, 0.5), 0.02)
    made.read[made.silent] = made.network[made.silent] = random.uniform(1, 200) * MB
    return made


def saves_slowly(random: Random) -> Training:
    """Save to a network file system, which counts only as passed on."""
    made = new(random)
    made.rest(random.uniform(0.02, 0.2), 0.01)
    made.written[made.silent] = random.uniform(1, 50) * MB
    return made


def waits_for_a_slow_node(random: Random) -> Training:
    """Wait for the other node, which still reads its data."""
    made = new(random)
    made.rest(made.ranks * 1.0, 0.02)
    for gpu in range(made.gpus):
        made.gpu(gpu, 100.0, 0.15)

    def slow(of: Training) -> NodeFrame:
        of.rest(random.uniform(0.3, 4.0), 0.05)
        of.read[of.silent] = random.uniform(0.5, 50) * MB
        return of.node("n2")

    made.other = slow
    return made


def is_suspended(random: Random) -> Training:
    made = new(random)
    made.rest()
    made.suspended[made.silent] = made.ranks
    return made


def is_debugged(random: Random) -> Training:
    """Let a debugger hold one rank, for which the others wait."""
    made = new(random)
    made.rest((made.ranks - 1) * 1.0, 0.02)
    made.suspended[made.silent] = 1
    return made


def laptop_sleeps(random: Random) -> Training:
    made = new(random)
    made.rest()
    made.unknown = made.silent.copy()
    return made


def notebook_idles(random: Random) -> Training:
    made = new(random, has_steps=False, silent_seconds=random.uniform(660, 3600))
    made.rest(random.uniform(0.0, 0.05), 0.005)
    return made


def waits_in_a_queue(random: Random) -> Training:
    """Wait before it has begun: nothing is computed before its turn comes."""
    made = new(random, has_steps=False)
    made.silent[:] = True
    made.rest(random.uniform(0.0, 1.0), 0.01)
    return made


def steps_are_long(random: Random) -> Training:
    """Let a step take minutes, in which it waits for simulations elsewhere."""
    made = new(random, step_seconds=random.uniform(120, 400))
    made.silent_seconds = made.step_seconds * random.uniform(3, 9)
    made.before_seconds, made.after_seconds = 60 + 12 * made.step_seconds, 0.0
    made.begin()
    made.starts_up()
    made.rest(random.uniform(0.0, 1.0), 0.01)
    return made


def is_over(random: Random) -> Training:
    """Let the work be done; the program ends after a while: its idle tail."""
    made = new(random, is_final=True)
    made.after_seconds = 0.0
    made.begin()
    made.starts_up()
    made.rest(random.uniform(0.0, 0.05), 0.01)
    ends(made, 0)
    return made


def pauses_as_usual(random: Random) -> Training:
    """Wait, after each of some epochs, for labels that people make."""
    pauses = int(random.integers(3, 6))
    made = new(random, pauses=pauses, step_seconds=1.0, is_final=True)
    made.rest(random.uniform(0.0, 0.05), 0.01)
    return made


SILENCES: dict[str, Callable[[Random], Training]] = {
    made.__name__: made
    for made in (
        compiles,
        downloads,
        tokenises,
        shuffles_in_memory,
        unpacks,
        evaluates_on_cores,
        evaluates_on_gpu,
        evaluates_as_recorded,
        saves_as_recorded,
        uploads_a_checkpoint,
        saves_slowly,
        waits_for_a_slow_node,
        is_suspended,
        is_debugged,
        laptop_sleeps,
        notebook_idles,
        waits_in_a_queue,
        steps_are_long,
        is_over,
        pauses_as_usual,
    )
}


def _grows(made: Training, bytes_per_second: float) -> None:
    grown = np.cumsum(made.silent) * 0.5 * bytes_per_second
    made.memory += grown
