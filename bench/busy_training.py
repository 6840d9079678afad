"""A small training-like load: loader processes that read and unpack, steps, checkpoints.

    python bench/busy_training.py SECONDS

It keeps about half a core busy, unevenly, so that the agent's series vary as in a real training.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import sys
import tempfile
import time
import zlib
from pathlib import Path

import trimtab

WORKERS = 3
BLOCK_BYTES = 256 * 1024
CHECKPOINT_SECONDS = 20.0


def load(path: str, batches: multiprocessing.Queue[int]) -> None:
    chance = random.Random(os.getpid())
    size = Path(path).stat().st_size
    with Path(path).open("rb") as file:
        while True:
            file.seek(chance.randrange(size - BLOCK_BYTES))
            block = file.read(BLOCK_BYTES)
            batches.put(len(zlib.compress(block[: chance.randrange(BLOCK_BYTES)], 1)))
            time.sleep(chance.uniform(0.0, 0.08))


def main(seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data, state = Path(folder) / "data", Path(folder) / "state"
        data.write_bytes(os.urandom(64 * 1024 * 1024))
        batches: multiprocessing.Queue[int] = multiprocessing.Queue(16)
        for _ in range(WORKERS):
            multiprocessing.Process(target=load, args=(str(data), batches), daemon=True).start()
        train(batches, state, time.monotonic() + seconds)


def train(batches: multiprocessing.Queue[int], state: Path, until: float) -> None:
    chance, saved, kept = random.Random(7), time.monotonic(), bytearray()
    while time.monotonic() < until:
        work = batches.get()
        end = time.process_time() + chance.uniform(0.002, 0.01)
        while time.process_time() < end:
            work = hash((work, end))
        kept += bytes(chance.randrange(64 * 1024))
        trimtab.step(samples=64)
        if time.monotonic() - saved > CHECKPOINT_SECONDS:
            with trimtab.phase("checkpoint"):
                state.write_bytes(kept)
            saved, kept = time.monotonic(), bytearray()


if __name__ == "__main__":
    main(float(sys.argv[1]))
