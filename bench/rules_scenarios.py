"""Precision and recall of every rule on labelled runs.

    python -m bench.rules_scenarios            prints the figures
    python -m bench.rules_scenarios --check exits with 1 if a rule is below 0.95

The runs are synthetic: at 1.1 to 2 times a rule's threshold, or at 0.5 to 0.9 of it, with noise,
gaps and other activity. `SCENARIO` in the test file of each rule defines them.
"""

from __future__ import annotations

import argparse
import sys

from bench.figures import note
from rules.engine import evaluate
from rules.registry import all_rules
from tests.rules.scenarios.labelled import Labelled, Scenario, labelled, score
from tests.rules.scenarios.registry import NEVER_FIRES, SCENARIOS

LEAST = 0.95


def judged(scenario: Scenario, seed: int, count: int) -> tuple[list[Labelled], list[bool]]:
    """The labelled runs of one rule, and whether it fired on each."""
    rule = all_rules()[scenario.rule_id]
    runs = list(labelled(scenario, seed, count))
    verdicts = [evaluate(run.frame, {}, [rule])[0].verdict for run in runs]
    return runs, [verdict.state == "fired" for verdict in verdicts]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20, help="positives, and as many near misses")
    parser.add_argument("--rule", action="append", help="only this one")
    parser.add_argument("--wrong", action="store_true", help="show the runs judged wrongly")
    chosen = parser.parse_args(arguments)
    print(f"{'rule':26} {'positives':>9} {'near misses':>11} {'precision':>9} {'recall':>6}")
    failed = [s.rule_id for s in SCENARIOS if not _shown(s, chosen)]
    if not chosen.rule:
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
    runs, fired = judged(scenario, chosen.seed, chosen.count)
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
