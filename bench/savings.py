"""Realised savings of simulated jobs against what their changes truly saved.

    python -m bench.savings [--check] [--jobs 1000]

Each job has 40 to 200 runs of unlike amounts of work, with 1 to 3 % variation: it follows a
recommendation for good, alternates, relapses, moves on to a second machine, or chooses one that
nobody recommended, with a second change at once or later, a change of prices and partial runs.
The sum of its savings is compared with the truth; its rows, with each run's saving; and all of it
again with its runs and recommendations in another order. `--check` exits with 1 if the promise is
broken.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from advisor.proof.proving import Proof, prove
from advisor.proof.saving import RunSaving
from bench.figures import note
from bench.savings_jobs import SimulatedJob

NEAR = 0.05
BOUND_REACH = 2.58
"""Standard errors to the bound below which 99.5 % of a normal variable lie."""
WANTED = (
    ("is_near", 0.95, "within 5 % of the truth"),
    ("is_below", 0.99, "below the truth's bound of 99 %"),
    ("is_signed", 1.0, "signed right"),
    ("is_exact", 1.0, "whose rows sum to each run's saving"),
    ("is_same", 1.0, "the same in another order"),
)
"""The conditions for a job's count, the share of the jobs that must meet each, and the words for
it."""


@dataclass(frozen=True)
class CountedJob:
    """`error`: the sum of the job's savings over the truth, less 1."""

    error: float
    is_below: bool
    is_signed: bool
    is_exact: bool
    is_same: bool

    @property
    def is_near(self) -> bool:
        return abs(self.error) <= NEAR


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    counted = [count_job(seed) for seed in range(arguments.jobs)]
    jobs, failed = len(counted), []
    worst = max((each.error for each in counted), key=abs)
    for name, least, words in WANTED:
        kept = sum(getattr(each, name) for each in counted)
        print(f"{words:42}{kept:6} of {jobs}")
        if kept < least * jobs:
            failed.append(f"{kept} of {jobs} {words}")
    print(f"{'the largest error':42}{worst:+9.1%}")
    near = sum(each.is_near for each in counted)
    measured = f"{near / jobs:.1%} within {NEAR:.0%}, the largest error {worst:+.1%}"
    note("savings", "; ".join([measured, *failed]), not failed)
    for line in failed:
        print(f"NOT KEPT: {line}")
    return 1 if arguments.check and failed else 0


def count_job(seed: int) -> CountedJob:
    job = SimulatedJob(seed)
    proofs = prove(job.promises, job.runs, job.price_at)
    usd = sum((each.usd for proof in proofs.values() for each in proof.savings), Decimal(0))
    runs, promises = list(job.runs), list(job.promises)
    job.dice.shuffle(runs)
    job.dice.shuffle(promises)
    bound = BOUND_REACH * job.error_usd
    return CountedJob(
        error=float(usd) / job.truth_usd - 1,
        is_below=float(usd) <= job.truth_usd + bound,
        is_signed=float(usd) * job.truth_usd > 0 or abs(job.truth_usd) < bound,
        is_exact=_are_exact(job, proofs),
        is_same=prove(promises, runs, job.price_at) == proofs,
    )


def _are_exact(job: SimulatedJob, proofs: Mapping[Hashable, Proof]) -> bool:
    """Return whether the rows of each run sum to the baseline of the first that was adopted, which
    is the reference, less what the run cost: to the nano-dollar.
    """
    rows: dict[int, list[RunSaving]] = defaultdict(list)
    for proof in sorted(proofs.values(), key=lambda each: each.claimed_by):
        for each in proof.savings:
            rows[each.number].append(each)
    cost = {run.number: run.cost_usd or Decimal(0) for run in job.runs}
    return all(
        sum((each.usd for each in own), Decimal(0)) == own[0].baseline_usd - cost[number]
        for number, own in rows.items()
    )


if __name__ == "__main__":
    sys.exit(main())
