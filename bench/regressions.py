"""How often the check of successive runs raises a false alarm, and how often it detects a change.

    python -m bench.regressions [--check] [--histories 4000]

Seeded simulation: runs whose cost per unit of work varies log-normally from run to run. Prints
false alarms, power for +10 %, and results for runs of autocorrelated steps. `--check` exits with 1
if a promise is broken: at most 1 % false alarms at 2 % variation, power for +10 % of at least 0.75
with 4 runs before and 0.9 with 8, and no significance from the steps of equal runs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from advisor.successive.baseline import WORSE, compare_to_baseline
from advisor.successive.history import CONFIRMED, Observation, judge_runs
from bench.figures import note

SEED = 20261121
MOST_FALSE = 0.01
LEAST_POWER = {4: 0.75, 8: 0.9}
STEPS, WITHIN, CORRELATION = 2000, 0.05, 0.6
RUNS_BEFORE = (3, 4, 5, 8, 10, 20)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--histories", type=int, default=4000)
    arguments = parser.parse_args()
    random = np.random.default_rng(SEED)
    failed = [
        *false_alarms(random, arguments.histories),
        *power(random, arguments.histories),
        *detectable(random, arguments.histories),
        *series(random, arguments.histories // 10),
        *steps(random, arguments.histories // 10),
        *speed(random),
    ]
    for line in failed:
        print(f"NOT KEPT: {line}")
    return 1 if arguments.check and failed else 0


def _runs(random: np.random.Generator, count: int, variation: float) -> list[float]:
    return list(np.exp(random.normal(0, variation, count)))


def _share(times: int, happens: Callable[[], bool]) -> float:
    return sum(happens() for _ in range(times)) / times


def _called_worse(
    random: np.random.Generator, before: int, variation: float, step: float = 0.0
) -> Callable[[], bool]:
    def one() -> bool:
        values = _runs(random, before + 1, variation)
        return compare_to_baseline(values[:-1], values[-1] * (1 + step)).direction == WORSE

    return one


def false_alarms(random: np.random.Generator, times: int) -> list[str]:
    """Newest runs that are judged worse although nothing changed."""
    print("false alarms            " + "".join(f"n={n:<6}" for n in RUNS_BEFORE))
    failed = []
    for variation in (0.01, 0.02, 0.05):
        rates = [_share(times, _called_worse(random, n, variation)) for n in RUNS_BEFORE]
        print(f"  variation {variation:4.0%}        " + "".join(f"{r:<8.2%}" for r in rates))
        if variation == 0.02:
            note("false_alarms", f"at most {max(rates):.2%}", max(rates) <= MOST_FALSE)
        if variation == 0.02 and max(rates) > MOST_FALSE:
            failed.append(f"false alarms of {max(rates):.2%} at 2 % variation")
    return failed


def power(random: np.random.Generator, times: int) -> list[str]:
    """Newest runs that cost 10 % more and are judged so."""
    print("power for +10 %")
    failed = []
    for variation in (0.01, 0.02, 0.05):
        rates = [_share(times, _called_worse(random, n, variation, 0.1)) for n in RUNS_BEFORE]
        print(f"  variation {variation:4.0%}        " + "".join(f"{r:<8.2f}" for r in rates))
        if variation == 0.02:
            seen = dict(zip(RUNS_BEFORE, rates, strict=True))
            failed += [
                f"power {seen[n]:.2f} with {n} runs before; promised {least}"
                for n, least in LEAST_POWER.items()
                if seen[n] < least
            ]
    return failed


def detectable(random: np.random.Generator, times: int) -> list[str]:
    """Whether the smallest detectable change is detected as often as stated."""
    print("seen at the smallest detectable change (0.80 is what it says)")

    def one(before: int) -> bool:
        values = _runs(random, before + 1, 0.02)
        step = compare_to_baseline(values[:-1], values[-1]).detects or 0
        return compare_to_baseline(values[:-1], values[-1] * (1 + step)).direction == WORSE

    rates = [_share(times, partial(one, n)) for n in RUNS_BEFORE]
    print("  variation   2%        " + "".join(f"{r:<8.2f}" for r in rates))
    return []


def series(random: np.random.Generator, times: int) -> list[str]:
    """Whole histories: confirmed alarms of any run, and detection of a step in the middle."""

    def alarmed(step: float, at: int, variation: float) -> bool:
        values = _runs(random, 24, variation)
        shifted = [v * (1 + step) if n >= at else v for n, v in enumerate(values)]
        judgements = judge_runs(Observation(n, v) for n, v in enumerate(shifted))
        return any(j.status == CONFIRMED and (j.since or 0) >= at - 2 for j in judgements)

    quiet = _share(times, lambda: alarmed(0.0, 2, 0.02))
    step = _share(times, lambda: alarmed(0.1, 12, 0.02))
    small = _share(times, lambda: alarmed(0.06, 12, 0.02))
    print(f"24 runs: confirmed though nothing changed {quiet:.2%}, +10 % found {step:.2f}, "
          f"+6 % found {small:.2f}")  # fmt: skip
    return [f"{quiet:.2%} of quiet histories are alarmed"] if quiet > MOST_FALSE else []


def steps(random: np.random.Generator, times: int) -> list[str]:
    """Runs of correlated steps: no difference between equal runs, because the replicate is the
    run."""

    def run(variation: float) -> float:
        level = np.exp(random.normal(0, variation)) if variation else 1.0
        noise = random.normal(0, WITHIN * np.sqrt(1 - CORRELATION**2), STEPS)
        drift = np.empty(STEPS)
        drift[0] = random.normal(0, WITHIN)
        for n in range(1, STEPS):
            drift[n] = CORRELATION * drift[n - 1] + noise[n]
        return float(level * np.exp(drift).mean())

    def alarmed(before: int, variation: float) -> bool:
        values = [run(variation) for _ in range(before + 1)]
        return compare_to_baseline(values[:-1], values[-1]).is_significant

    failed = []
    for before in (1, 2, 4, 8):
        often = max(times // 4, 50)
        rates = [_share(often, partial(alarmed, before, variation)) for variation in (0, 0.01)]
        print(f"steps with AR(1) {CORRELATION}, {before} before: {rates[0]:.2%} and {rates[1]:.2%}")
        if max(rates) > MOST_FALSE or (before < 3 and max(rates) > 0):
            failed.append(f"correlated steps alarm in {max(rates):.2%} with {before} runs before")
    return failed


def speed(random: np.random.Generator) -> list[str]:
    """A history of 10,000 runs, of which only the newest matter."""
    observations = [Observation(n, v) for n, v in enumerate(_runs(random, 10_000, 0.02))]
    started = time.perf_counter()
    judge_runs(observations)
    print(f"a history of 10,000 runs is judged in {time.perf_counter() - started:.3f} s")
    return []


if __name__ == "__main__":
    sys.exit(main())
