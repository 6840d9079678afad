"""A training loop of a given number of seconds, for runs that tests measure: `training.py 20`."""

import sys
import time

import trimtab

BATCH = 32


def batches(seconds: float):  # type: ignore[no-untyped-def]
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.03)
        yield [0] * BATCH


def main(seconds: float) -> None:
    loss = 0.0
    for number, _batch in enumerate(trimtab.wrap(batches(seconds))):
        loss = sum(i * i for i in range(20_000)) / (number + 1)
        trimtab.step(samples=BATCH)
    trimtab.log(loss=loss)


if __name__ == "__main__":
    main(float(sys.argv[1]))
