"""Precision and recall of every rule on labelled runs, and what is found in healthy ones.

    python -m bench.rules_scenarios            prints the figures
    python -m bench.rules_scenarios --check    exits with 1 if a rule is below 0.97, or if there are
                                          more than 2 findings in 200 healthy runs
    python -m bench.rules_scenarios --cells 10
                                          reads the labelled runs from a store in cells of 10 s

The runs are synthetic. The labelled ones are at 1.1 to 2 times a rule's threshold, or at 0.5 to 0.9
of it, with noise, gaps, skewed steps, neighbours and other activity: see `SCENARIO` in the test
file of each rule. The healthy ones are of thirteen kinds; each is judged whole and, as while it is
going, up to some moment.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from bench.figures import note
from rules.engine import evaluate
from rules.frame import RunFrame
from rules.registry import all_rules
from tests.rules.scenarios.healthy_kinds import KINDS, findings, healthy
from tests.rules.scenarios.labelled import Labelled, Scenario, labelled, score
from tests.rules.scenarios.live import so_far
from tests.rules.scenarios.registry import NEVER_FIRES, SCENARIOS
from tests.rules.scenarios.stored import Memory, stored

LEAST = 0.97
HEALTHY_RUNS, MOST_FINDINGS = 200, 2


def judged(
    scenario: Scenario, seed: int, count: int, cell_seconds: float | None = None
) -> tuple[list[Labelled], list[bool]]:
    """The labelled runs of one rule, and whether it fired on each.

    Args:
        cell_seconds: how the runs are read from a store; None: as they are made.
    """
    rule = all_rules()[scenario.rule_id]
    sampled = 1.0 if cell_seconds is None else 0.5
    runs = list(labelled(scenario, seed, count, sampled))
    frames = (_read(run, cell_seconds) if cell_seconds else run.frame for run in runs)
    verdicts = [evaluate(frame, {}, [rule])[0].verdict for frame in frames]
    return runs, [verdict.state == "fired" for verdict in verdicts]


def _read(run: Labelled, cell_seconds: float) -> RunFrame:
    return stored(run.frame, Memory()).read(cell_seconds)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=40, help="positives, and as many near misses")
    parser.add_argument("--cells", type=float, help="seconds: read from a store in such cells")
    parser.add_argument("--rule", action="append", help="only this one")
    parser.add_argument("--wrong", action="store_true", help="show the runs judged wrongly")
    chosen = parser.parse_args(arguments)
    print(f"{'rule':26} {'positives':>9} {'near misses':>11} {'precision':>9} {'recall':>6}")
    failed = [s.rule_id for s in SCENARIOS if not _shown(s, chosen)]
    print(f"never fire: {', '.join(NEVER_FIRES)}")
    if failed:
        print(f"below {LEAST}: {', '.join(failed)}")
    if chosen.rule or chosen.cells:
        return int(chosen.check and bool(failed))
    good = f"{len(SCENARIOS) - len(failed)} of {len(SCENARIOS)} rules"
    note("rules_verdicts", good, not failed)
    are_quiet = _healthy_shown(chosen.seed)
    return int(chosen.check and (bool(failed) or not are_quiet))


def _healthy_shown(seed: int) -> bool:
    """Print what is found in healthy runs. Returns False if it is too much."""
    random = np.random.default_rng(seed)
    found = dict.fromkeys(("whole", "going on"), 0)
    for number in range(HEALTHY_RUNS):
        kind = KINDS[number % len(KINDS)]
        run = healthy(kind, seed * HEALTHY_RUNS + number)
        seen = so_far(run, random.uniform(30, run.duration_seconds))
        for when, each in zip(found, (run, seen), strict=True):
            for rule_id, summary in findings(each).items():
                found[when] += 1
                print(f"    {kind.__name__}, {when}: {rule_id}: {summary}")
    told = ", ".join(f"{count} findings in {HEALTHY_RUNS} {when}" for when, count in found.items())
    print(f"healthy runs of {len(KINDS)} kinds: {told}")
    are_quiet = max(found.values()) <= MOST_FINDINGS
    note("rules_healthy", told, are_quiet)
    return are_quiet


def _shown(scenario: Scenario, chosen: argparse.Namespace) -> bool:
    """Print one rule's line. Returns False if the rule is not good enough."""
    if chosen.rule and scenario.rule_id not in chosen.rule:
        return True
    runs, fired = judged(scenario, chosen.seed, chosen.count, chosen.cells)
    scored = score(runs, fired)
    print(
        f"{scenario.rule_id:26} {scored.positives:9} {scored.near_misses:11} "
        f"{scored.precision:9.3f} {scored.recall:6.3f}"
    )
    for run, is_fired in zip(runs, fired, strict=True):
        if chosen.wrong and run.should_fire != is_fired:
            [judgement] = evaluate(run.frame, {}, [all_rules()[run.rule_id]])
            print(f"    factor {run.factor:.2f}, {run.confounder}: {judgement.verdict.summary}")
    return min(scored.precision, scored.recall) >= LEAST


if __name__ == "__main__":
    sys.exit(main())
