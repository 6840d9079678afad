"""Precision and recall of every rule on labelled runs, what is found in healthy ones, and what
comes first where several causes meet.

    python -m bench.rules_scenarios            prints the figures
    python -m bench.rules_scenarios --check    exits with 1 if a rule is below 0.97, if there are
                                          more than 2 findings in 200 healthy runs, or if findings
                                          on mixtures are in the wrong order or claim too much
    python -m bench.rules_scenarios --cells 10
                                          reads the labelled runs from a store in cells of 10 s

The runs are synthetic. The labelled ones are at 1.1 to 2 times a rule's threshold, or at 0.5 to 0.9
of it, with noise, gaps, skewed steps, neighbours and other activity: see `SCENARIO` in the test
file of each rule. The healthy ones are of thirteen kinds; each is judged whole and, as while it is
going, up to some moment. The mixtures have two to four causes of known cost, from 20 s to 2 h: see
`tests/rules/scenarios/mixtures.py`.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

import numpy as np

from advisor.advice.recommendation import Spending
from advisor.costing.recoverable import RecoverablePart, recoverable_by_rule
from advisor.pricing.book import PriceBook
from advisor.recommend import AdvisedRun, Market, recommend
from bench.figures import note
from rules.claims import divide
from rules.engine import Judgement, evaluate
from rules.frame import RunFrame
from rules.ledger import WasteLedger, ledger
from rules.registry import all_rules
from tests.rules.scenarios.healthy_kinds import KINDS, findings, healthy
from tests.rules.scenarios.labelled import Labelled, Scenario, labelled, score
from tests.rules.scenarios.live import so_far
from tests.rules.scenarios.mixtures import FIRED_BY, mixture
from tests.rules.scenarios.registry import NEVER_FIRES, SCENARIOS
from tests.rules.scenarios.stored import Memory, stored

LEAST = 0.97
HEALTHY_RUNS, MOST_FINDINGS = 200, 2
MIXTURES, LEAST_RIGHT = 300, 0.95
MOST_OVERCLAIM, MOST_HEALTHY_WASTE = 0.1, 0.05
OF_OTHER_MACHINES = frozenset({"half_busy"})
"""Causes that only another machine or an experiment mends."""
CLOSE = 0.9
"""A rule whose causes cost nearly as much as the most expensive one may come first as well."""


def judge_labelled_runs(
    scenario: Scenario, seed: int, count: int, cell_seconds: float | None = None
) -> tuple[list[Labelled], list[bool]]:
    """Return the labelled runs of one rule, and whether it fired on each.

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
    are_right = _mixtures_shown(chosen)
    return int(chosen.check and (bool(failed) or not are_quiet or not are_right))


def _healthy_shown(seed: int) -> bool:
    """Print what is found in healthy runs. Returns False if it is too much."""
    random = np.random.default_rng(seed)
    found = dict.fromkeys(("whole", "going on"), 0)
    shown = whole = 0.0
    for number in range(HEALTHY_RUNS):
        kind = KINDS[number % len(KINDS)]
        run = healthy(kind, seed * HEALTHY_RUNS + number)
        seen = so_far(run, random.uniform(30, run.duration_seconds))
        shown += sum(each.seconds_high for each in recovered_of(run).values())
        whole += run.duration_seconds
        for when, each in zip(found, (run, seen), strict=True):
            for rule_id, summary in findings(each).items():
                found[when] += 1
                print(f"    {kind.__name__}, {when}: {rule_id}: {summary}")
    told = ", ".join(f"{count} findings in {HEALTHY_RUNS} {when}" for when, count in found.items())
    told += f"; they show {100 * shown / whole:.1f} % of their cost as waste"
    print(f"healthy runs of {len(KINDS)} kinds: {told}")
    are_quiet = max(found.values()) <= MOST_FINDINGS and shown <= MOST_HEALTHY_WASTE * whole
    note("rules_healthy", told, are_quiet)
    return are_quiet


def recovered_of(frame: RunFrame) -> dict[str, RecoverablePart]:
    """Return what the findings of a run give back, by rule, on nodes of one price."""
    labelled = ledger(frame)
    return recoverable_by_rule(evaluate(frame, {}), labelled, frame.duration_seconds, None)


@dataclass(frozen=True)
class MixtureResult:
    """The agreement of the findings on one mixture with its truth."""

    is_costliest_first: bool
    is_advised_first: bool | None
    """True if the first advice is on the most expensive cause; None if only another machine or an
    experiment mends that one, for which the mixture has no prices."""
    is_within_labels: bool
    overclaim: float
    """The time that is shown beyond the truth, as a share of it."""
    words: str


def judge_mixture(seed: int) -> MixtureResult:
    """Judge one mixture by what it wastes."""
    frame, truth = mixture(seed)
    judged, labelled = evaluate(frame, {}), ledger(frame)
    found = recoverable_by_rule(judged, labelled, frame.duration_seconds, _node_usd(frame))
    causes = [rule for rule, each in found.items() if not each.explained_by]
    causes.sort(key=lambda rule: found[rule].weight, reverse=True)
    first = causes[0] if causes else ""
    named = sum(seconds for cause, seconds in truth.items() if first in FIRED_BY[cause])
    shown = sum(each.seconds_high for each in found.values())
    amounts = ", ".join(f"{rule} {found[rule].seconds_high:.0f}" for rule in causes)
    wasted = ", ".join(f"{cause} {s:.0f}" for cause, s in truth.items())
    words = f"{seed}: {frame.duration_seconds:.0f} s: {wasted}; shown: {amounts}"
    return MixtureResult(
        named >= CLOSE * max(truth.values()),
        _is_advised_first(frame, judged, found, truth),
        _is_within_labels(judged, labelled, frame),
        max(shown / sum(truth.values()) - 1, 0.0),
        words,
    )


def _node_usd(frame: RunFrame) -> dict[str, Decimal]:
    """Return the cost of each node at a cent a second."""
    return dict.fromkeys(frame.nodes, Decimal(round(frame.duration_seconds)) / 100)


def _is_advised_first(
    frame: RunFrame,
    judged: list[Judgement],
    found: Mapping[str, RecoverablePart],
    truth: Mapping[str, float],
) -> bool | None:
    """Return whether the first advice on the run is on its most expensive cause."""
    costliest = max(truth, key=lambda cause: truth[cause])
    if costliest in OF_OTHER_MACHINES:
        return None
    usd = sum(_node_usd(frame).values(), Decimal(0))
    spending = Spending(usd, frame.duration_seconds, (usd,))
    run = AdvisedRun(judged, None, spending, recovered=found)
    advised = recommend(run, Market(PriceBook([]), {}, datetime(2026, 11, 1, tzinfo=UTC)))
    rules = set(advised[0].rules) if advised else set()
    named = sum(seconds for cause, seconds in truth.items() if rules & FIRED_BY[cause])
    return named >= CLOSE * truth[costliest]


def _is_within_labels(judged: list[Judgement], labelled: WasteLedger, frame: RunFrame) -> bool:
    claims = {each.rule_id: each.verdict.claims for each in judged}
    known = {rule: all_rules()[rule].directness for rule in claims}
    held = labelled.held_seconds()
    got: Counter[str] = Counter()
    for portion in divide(claims, known, held, frame.duration_seconds).values():
        got.update(portion.labels)
    holds: Counter[str] = Counter()
    for labels in held.values():
        holds.update(labels)
    return all(seconds <= holds[label] * (1 + 1e-9) for label, seconds in got.items())


def _mixtures_shown(chosen: argparse.Namespace) -> bool:
    """Print how findings on mixtures agree with the truth. Returns False if too many don't."""
    judged = [judge_mixture(chosen.seed * MIXTURES + number) for number in range(MIXTURES)]
    first = sum(each.is_costliest_first for each in judged)
    within = sum(each.is_within_labels for each in judged)
    advice = [each.is_advised_first for each in judged if each.is_advised_first is not None]
    fair = sum(each.overclaim <= MOST_OVERCLAIM for each in judged)
    for each in judged:
        is_right = each.is_costliest_first and each.is_advised_first is not False
        if chosen.wrong and not (is_right and each.overclaim <= MOST_OVERCLAIM):
            print(f"    {each.words}")
    told = (
        f"the most expensive cause first in {first} of {MIXTURES}, as advice in {sum(advice)} of "
        f"{len(advice)}, claims within their labels in "
        f"{within}, at most {100 * MOST_OVERCLAIM:.0f} % beyond the truth in {fair}"
    )
    print(f"mixtures: {told}")
    is_well_advised = sum(advice) >= LEAST_RIGHT * len(advice)
    are_right = min(first, fair) >= LEAST_RIGHT * MIXTURES and within == MIXTURES
    are_right = are_right and is_well_advised
    note("rules_mixtures", told, are_right)
    return are_right


def _shown(scenario: Scenario, chosen: argparse.Namespace) -> bool:
    """Print one rule's line. Returns False if the rule is not good enough."""
    if chosen.rule and scenario.rule_id not in chosen.rule:
        return True
    runs, fired = judge_labelled_runs(scenario, chosen.seed, chosen.count, chosen.cells)
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
