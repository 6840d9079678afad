"""Precision and recall of every rule on labelled runs.

    python -m bench.rules_scenarios            prints the figures
    python -m bench.rules_scenarios --check exits with 1 if a rule is below 0.95
    python -m bench.rules_scenarios --cells 10
                                          reads them from a store in cells of 10 s

The runs are synthetic: at 1.1 to 2 times a rule's threshold, or at 0.5 to 0.9 of it, with noise,
gaps and other activity. `SCENARIO` in the test file of each rule defines them.
"""

from __future__ import annotations

import argparse
import sys

from bench.figures import note
from rules.engine import evaluate
from rules.frame import RunFrame
from rules.registry import all_rules
from tests.rules.scenarios.labelled import Labelled, Scenario, labelled, score
from tests.rules.scenarios.registry import NEVER_FIRES, SCENARIOS
from tests.rules.scenarios.stored import Memory, stored

LEAST = 0.95


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
    parser.add_argument("--count", type=int, default=20, help="positives, and as many near misses")
    parser.add_argument("--cells", type=float, help="seconds: read from a store in such cells")
    parser.add_argument("--rule", action="append", help="only this one")
    parser.add_argument("--wrong", action="store_true", help="show the runs judged wrongly")
    chosen = parser.parse_args(arguments)
    print(f"{'rule':26} {'positives':>9} {'near misses':>11} {'precision':>9} {'recall':>6}")
    failed = [s.rule_id for s in SCENARIOS if not _shown(s, chosen)]
    if not chosen.rule and not chosen.cells:
        good = f"{len(SCENARIOS) - len(failed)} of {len(SCENARIOS)} rules"
        note("rules_verdicts", good, not failed)
    print(f"never fire: {', '.join(NEVER_FIRES)}")
    if failed:
        print(f"below {LEAST}: {', '.join(failed)}")
    return int(chosen.check and bool(failed))


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
