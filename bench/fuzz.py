"""Feeds each decoder hostile inputs, directly and over HTTP to a real service.

    python -m bench.fuzz                                      100,000 inputs to all decoders
    python -m bench.fuzz --inputs 1000000 --seed 5 segment    one decoder
    python -m bench.fuzz --inputs 0 --http 100000 --check     to a started service

Inputs are valid ones with a few things changed (`tests/service/hostile.py`). A decoder may refuse
an input by its own error only, within a second and without memory that grows. Over HTTP no answer
may be a 5xx or miss its reason, nothing may hang, the web server's memory stays bounded, and what
was accepted must be readable and analysed afterwards. With --check it exits with 1 otherwise; the
seed and number of an input reproduce it.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench.figures import note

OVER_HTTP = "over HTTP"
MOST_SECONDS = 1.0
MOST_MORE_BYTES = 200_000_000
MOST_PROBLEMS = 20


class HangError(Exception):
    """An input took too long."""


@dataclass(frozen=True)
class Decoder:
    """The decoder that is tried: `inputs` makes a hostile one, `decode` may raise one of
    `refusals`.
    """

    name: str
    inputs: Callable[[random.Random], object]
    decode: Callable[[object], object]
    refusals: tuple[type[Exception], ...]
    share: float = 1.0
    """The number of inputs as a share of another decoder's: files take long to write."""


@dataclass
class Result:
    """The results of the inputs of one decoder."""

    name: str
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest_seconds: float = 0.0
    more_bytes: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    def add(self, other: Result) -> None:
        """Add what another one found of the same decoder at the same time."""
        self.outcomes += other.outcomes
        self.slowest_seconds = max(self.slowest_seconds, other.slowest_seconds)
        self.problems += other.problems

    def __str__(self) -> str:
        outcomes = ", ".join(f"{count} {name}" for name, count in sorted(self.outcomes.items()))
        return (
            f"{self.name}: {self.outcomes.total()} inputs ({outcomes}), "
            f"slowest {self.slowest_seconds * 1e3:.0f} ms, {self.more_bytes / 1e6:.0f} MB more "
            f"memory, {self.seconds:.0f} s, {len(self.problems)} problems"
        )


def try_inputs(decoder: Decoder, inputs: int, seed: int) -> Result:
    """Tries so many inputs. Stops after 20 problems."""
    found, began = Result(decoder.name), time.perf_counter()
    before = _peak_bytes()
    with _alarm():
        for number in range(inputs):
            given = decoder.inputs(random.Random(seed * 1_000_003 + number))
            _try(decoder, given, found, f"seed {seed}, input {number}")
            if len(found.problems) >= MOST_PROBLEMS:
                break
    found.seconds = time.perf_counter() - began
    found.more_bytes = _peak_bytes() - before
    if found.more_bytes > MOST_MORE_BYTES:
        found.problems.append(f"memory grew by {found.more_bytes / 1e6:.0f} MB")
    return found


def _try(decoder: Decoder, given: object, found: Result, name: str) -> None:
    began = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        decoder.decode(given)
        outcome = "accepted"
    except decoder.refusals:
        outcome = "refused"
    except Exception as error:
        outcome = "failed"
        found.problems.append(f"{name}: {type(error).__name__}: {str(error)[:300]}")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    found.outcomes[outcome] += 1
    found.slowest_seconds = max(found.slowest_seconds, time.process_time() - began)


@contextmanager
def _alarm() -> Iterator[None]:
    """Limit the CPU time: other load on the machine makes no hang."""

    def ring(*_: object) -> None:
        raise HangError(f"more than {MOST_SECONDS:g} s of CPU time")

    before = signal.signal(signal.SIGPROF, ring)
    try:
        yield
    finally:
        signal.signal(signal.SIGPROF, before)


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def decoders() -> dict[str, Decoder]:
    """Return the decoders by name. Django must be set up."""
    from bench.fuzz_decoders import all_decoders

    return {decoder.name: decoder for decoder in all_decoders()}


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("decoder", nargs="*", help="default: all")
    options.add_argument("--inputs", type=int, default=100_000, help="for all decoders together")
    options.add_argument("--http", type=int, default=0, help="inputs to a started service")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--check", action="store_true")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="trimtab-fuzz-") as folder:
        os.environ |= {"DJANGO_SETTINGS_MODULE": "webapp.settings", "TRIMTAB_DATA_DIR": folder}
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        results = list(_results(asked))
    _note("hostile_inputs", [result for result in results if result.name != OVER_HTTP])
    _note("hostile_requests", [result for result in results if result.name == OVER_HTTP])
    return int(asked.check and any(result.problems for result in results))


def _note(promise: str, results: list[Result]) -> None:
    """Note the results. Nothing is noted of what wasn't asked for."""
    if count := sum(result.outcomes.total() for result in results):
        broken = sum(len(result.problems) for result in results)
        slowest = max(result.slowest_seconds for result in results)
        more_bytes = max(result.more_bytes for result in results)
        measured = (
            f"{count:,}, {broken} problems; slowest {slowest * 1e3:,.0f} ms, "
            f"{more_bytes / 1e6:.0f} MB more memory"
        )
        note(promise, measured, not broken)


def _results(asked: argparse.Namespace) -> Iterator[Result]:
    import django

    django.setup()
    known = decoders() if asked.inputs else {}
    chosen = [known[name] for name in asked.decoder] or list(known.values())
    shares = sum(decoder.share for decoder in chosen)
    for decoder in chosen:
        inputs = math.ceil(asked.inputs * decoder.share / shares)
        yield _told(try_inputs(decoder, inputs, asked.seed))
    if asked.http:
        from bench.fuzz_http import tried_over_http

        yield _told(tried_over_http(asked.http, asked.seed))


def _told(result: Result) -> Result:
    print(result, flush=True)
    for problem in result.problems:
        print(f"Broken: {result.name}: {problem}", flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main())
