"""Lists the small changes of the code that its tests don't notice.

    .venv/bin/python -m tools.mutation [MODULE | FILE#NUMBER ...] [--processes 2] [--least 90]

Without a module all modules of `targets.py` are tried; `rules/ledger.py#12` is a single mutant.
Prints each mutant that survived as a diff, and for each module how many were killed, timed out and
survived. The exit code is 1 if fewer than `--least` per cent of a module were killed or timed out,
2 if tests fail without a change.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from .mutants import Mutant, mutants_of
from .targets import TARGETS
from .trial import KILLED, SURVIVED, TIMED_OUT, Outcome, TestsFailError, outcomes

LEAST_PCT = 90.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mutation", description=__doc__)
    names = ", ".join(target.name for target in TARGETS)
    parser.add_argument("chosen", nargs="*", metavar="MODULE", help=f"{names}, or FILE#NUMBER")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--least", type=float, default=LEAST_PCT, help="per cent to be killed")
    asked = parser.parse_args()
    try:
        mutants = chosen_mutants(asked.chosen)
    except ValueError as error:
        parser.error(str(error))
    # So that the copies are removed on SIGTERM, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        return 0 if report(outcomes(mutants, asked.processes), asked.least) else 1
    except TestsFailError as error:
        print(error, file=sys.stderr)
        return 2


def chosen_mutants(chosen: Sequence[str]) -> list[Mutant]:
    """Return the chosen mutants, by module or number; all if none is chosen. Raises ValueError."""
    targets = [target for target in TARGETS if not chosen or target.name in chosen]
    files = {name.partition("#")[0] for name in chosen if "#" in name}
    partly = [each for each in TARGETS if each not in targets and files & set(each.sources())]
    mutants = [mutant for target in targets for mutant in mutants_of(target)]
    mutants += [each for target in partly for each in mutants_of(target) if each.name in chosen]
    known = {mutant.target.name for mutant in mutants} | {mutant.name for mutant in mutants}
    if unknown := set(chosen) - known:
        raise ValueError(f"no such module or mutant: {', '.join(sorted(unknown))}")
    return mutants


def report(results: Iterable[Outcome], least_pct: float) -> bool:
    """Print survivors as they are found, then one line per module. Returns whether enough were
    killed."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    cpu_seconds: defaultdict[str, float] = defaultdict(float)
    for outcome in results:
        name = outcome.mutant.target.name
        counts[name][outcome.verdict] += 1
        cpu_seconds[name] += outcome.cpu_seconds
        if outcome.verdict == SURVIVED:
            print(outcome.mutant.diff(), flush=True)
    print(f"{'module':<14}{KILLED:>8}{TIMED_OUT:>11}{SURVIVED:>10}{'rate':>10}{'CPU':>9}")
    for name, count in counts.items():
        shown = f"{count[KILLED]:>8}{count[TIMED_OUT]:>11}{count[SURVIVED]:>10}"
        print(f"{name:<14}{shown}{_rate_pct(count):>8.1f} %{cpu_seconds[name]:>7.0f} s")
    return all(_rate_pct(count) >= least_pct for count in counts.values())


def _rate_pct(count: Counter[str]) -> float:
    return 100 * (1 - count[SURVIVED] / count.total())


if __name__ == "__main__":
    sys.exit(main())
