"""Measures how well the speed of other GPUs is predicted, and what the advice built on it is worth.

    python -m bench.advice [--check] [--quick] [--speed FOLDER] [--facts FOLDER]

Public measurements, never part of the repository, are left out by data set, workload and GPU; the
speed model is fitted again without the set. Error: the median over a set's pairs of GPUs, both
directions, of |predicted / true - 1|; macro: the mean of the sets' medians. Beside it: the two
data-sheet ratios (geometric means of bandwidth with FP32, and with the precision's peak), and the
constant of the GPU pair in the set's other workloads. Advice is played to its end: a probe is
answered with the true speed and noise. `--check` exits with 1 if a promise is broken; `--quick`
takes few sets and cases, and promises nothing.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from advisor.speed.decision import STAY
from advisor.speed.knowledge import Knowledge
from advisor.speed.measurement import Measurement, Target
from advisor.speed.prediction import predict
from advisor.speed.table import SpeedTable, from_document
from bench.advice_cases import (
    LEAST_WORKLOADS,
    SEED,
    Errors,
    errors,
    leave_out_gpu,
    macro,
    median_error,
    pair_constants,
    sample,
)
from bench.advice_play import (
    Outcome,
    Summary,
    aws_prices,
    dear_by_hour,
    dear_by_speed,
    play,
    summary,
    synthetic_prices,
)
from tools.fit_speed.calibration import factor, measurements_of
from tools.fit_speed.data import NEWEST, Case, datasets, is_slice, leave_out_faults, read_cases
from tools.fit_speed.fit import STEPS, fit, refit

BESIDE = Path(__file__).parents[2] / "shared"
FIXTURES = Path(os.environ.get("TRIMTAB_FIXTURES", BESIDE / "fixtures"))
NOISE, STRESS = 0.03, 0.08
SYNTHETIC = (1, 2, 3)


@dataclass(frozen=True)
class Promise:
    name: str
    measured: float
    least: float
    most: float
    reachable: str
    """A trial's figures."""

    @property
    def is_kept(self) -> bool:
        return self.least <= self.measured <= self.most


@dataclass(frozen=True)
class Fold:
    """One set, and what was fitted without it."""

    name: str
    cases: list[Case]
    document: dict[str, Any]
    table: SpeedTable


class Bench:
    def __init__(self, cases: list[Case], is_quick: bool) -> None:
        self.slices = [case for case in cases if is_slice(case)]
        self.cases = [case for case in cases if not is_slice(case)]
        self.most = 4 if is_quick else 24
        self.steps = 2 if is_quick else STEPS
        names = datasets(self.cases)[: 2 if is_quick else None]
        self.folds = [self._fold(name) for name in names]

    def _fold(self, name: str) -> Fold:
        document = fit([case for case in self.cases if case.dataset != name], self.steps)
        own = [case for case in self.cases if case.dataset == name]
        return Fold(name, own, document, from_document(document))

    def by_set(self, of_fold: Callable[[Fold], Errors]) -> dict[str, Errors]:
        found = {fold.name: of_fold(fold) for fold in self.folds}
        return {name: each for name, each in found.items() if each.model}

    def new_workloads(self) -> dict[str, Errors]:
        def of_fold(fold: Fold) -> Errors:
            constants = _constants_without_workload(fold.cases)
            knowledge = Knowledge(table=fold.table)
            return errors(sample(fold.cases, self.most), lambda _: knowledge, constants)

        return self.by_set(of_fold)

    def with_history(self) -> dict[str, Errors]:
        return self.by_set(
            lambda fold: errors(
                sample(fold.cases, self.most // 2),
                _history(fold),
                _constants_without_workload(fold.cases),
            )
        )

    def new_gpus(self) -> dict[str, Errors]:
        """Return the errors with each GPU in turn left out; the set stays, but for rows of that
        GPU.
        """
        document = fit(self.cases, self.steps)
        found: dict[str, Errors] = {}
        gpus = sorted({gpu for case in self.cases for gpu in case.throughputs})
        for gpu in gpus[: 3 if self.most < 10 else None]:
            table = from_document(refit(leave_out_gpu(self.cases, gpu), document))
            knowledge = Knowledge(table=table)
            for fold in self.folds:
                cases = [case for case in fold.cases if gpu in case.throughputs]
                each = errors(
                    sample(cases, self.most // 8 + 1), lambda _, k=knowledge: k, only_to=gpu
                )
                _extend(found.setdefault(fold.name, Errors()), each)
        return {name: each for name, each in found.items() if each.model}

    def slice_errors(self) -> list[float]:
        knowledge = Knowledge()
        found = []
        for case in self.slices:
            whole = next(gpu for gpu in case.throughputs if gpu.endswith("7g"))
            targets = [Target(gpu) for gpu in case.throughputs if gpu != whole]
            for speed in predict([case.measurement(whole)], targets, knowledge).speeds:
                truth = case.throughputs[speed.target.gpu] / case.throughputs[whole]
                found.append(speed.log_median - math.log(truth))
        return found

    def play(
        self, prices: Callable[[Case, str], Mapping[str, float]], noise: float
    ) -> list[Outcome]:
        random = np.random.default_rng(SEED)
        played = (
            play(case, here, prices(case, here), knowledge, noise, random)
            for fold in self.folds
            for knowledge in [Knowledge(table=fold.table)]
            for case in sample(fold.cases, self.most)
            for here in case.throughputs
        )
        return [outcome for outcome in played if outcome]

    def played_by_history(self, prices: Mapping[str, float]) -> list[Outcome]:
        """Play switches without any probe."""
        random = np.random.default_rng(SEED)
        found = []
        for fold in self.folds:
            knowledge = _history(fold)
            for case in sample(fold.cases, self.most // 2):
                for here in case.throughputs:
                    outcome = play(case, here, prices, knowledge(case), 0, random, may_probe=False)
                    found += [outcome] if outcome else []
        return found


def _history(fold: Fold) -> Callable[[Case], Knowledge]:
    """Return a function that knows the set's other workloads, as a workspace would."""

    @cache
    def of(workload: str) -> Knowledge:
        others: list[Measurement] = measurements_of(fold.cases, workload)
        return Knowledge(others, fold.table)

    return lambda case: of(case.workload)


def _constants_without_workload(
    cases: list[Case],
) -> Callable[[Case], Mapping[tuple[str, str], float]]:
    @cache
    def of(workload: str, precision: str) -> dict[tuple[str, str], float]:
        return pair_constants(
            case for case in cases if case.workload != workload and case.precision == precision
        )

    return lambda case: of(case.workload, case.precision)


def _extend(found: Errors, other: Errors) -> None:
    for name in ("model", "sds", "fp32_ratio", "peak_ratio", "constant"):
        getattr(found, name).extend(getattr(other, name))
    found.workloads |= other.workloads


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--speed", type=Path, default=FIXTURES / "speed")
    parser.add_argument("--facts", type=Path, default=FIXTURES.parent / "facts")
    arguments = parser.parse_args()
    if not arguments.speed.exists():
        print(f"no measurements in {arguments.speed}", file=sys.stderr)
        return 2
    cases = [leave_out_faults(case) for case in read_cases(arguments.speed)]
    bench = Bench([case for case in cases if len(case.throughputs) > 1], arguments.quick)
    promises = list(
        print_figures(bench, aws_prices(arguments.facts), errors_of_newest_sets(arguments.speed))
    )
    print(f"\n{'promise':<52}{'measured':>10}{'at least':>10}{'at most':>10}  reachable")
    for promise in promises:
        limits = f"{_limit(promise.least):>10}{_limit(promise.most):>10}"
        mark = "" if promise.is_kept else "  NOT KEPT"
        print(f"{promise.name:<52}{promise.measured:>10.3f}{limits}  {promise.reachable}{mark}")
    is_broken = any(not promise.is_kept for promise in promises)
    return 1 if arguments.check and is_broken and not arguments.quick else 0


def _limit(value: float) -> str:
    return "" if math.isinf(value) else f"{value:.3f}"


def errors_of_newest_sets(folder: Path) -> dict[str, Errors]:
    """Return the errors by the bundled table, as a service would predict."""
    cases = [leave_out_faults(case) for case in read_cases(folder, NEWEST)]
    found: dict[str, Errors] = {}
    for name in datasets(cases):
        own = [case for case in cases if case.dataset == name and len(case.throughputs) > 1]
        found[name] = errors(own, lambda _: Knowledge())
    return found


def print_figures(
    bench: Bench, aws: Mapping[str, float], of_newest: Mapping[str, Errors]
) -> Iterator[Promise]:
    """Prints all figures, and yields those that are promised."""
    new = bench.new_workloads()
    yield promise_at_most(
        "new workload: error over the better ratio", _table("new workload", new), 0.92, "0.85-0.91"
    )
    yield from coverage(new)
    history = _table("history", bench.with_history())
    yield promise_at_most("history: error over the better ratio", history, 0.75, "0.60")
    gpus = _table("GPU that no set has", bench.new_gpus())
    yield promise_at_most("new GPU: error over the better ratio", gpus, 0.92, "0.88")
    newest = _table("sets of 2026", of_newest)
    yield promise_at_most("sets of 2026: error over the better ratio", newest, 1.0, "0.80")
    yield promise_at_most(
        "MIG slices: median error", median_error(bench.slice_errors()), 0.14, "0.14"
    )
    yield from decisions(bench, aws)


def promise_at_most(name: str, measured: float, most: float, reachable: str) -> Promise:
    return Promise(name, measured, -math.inf, most, reachable)


def promise_at_least(name: str, measured: float, least: float, reachable: str) -> Promise:
    return Promise(name, measured, least, math.inf, reachable)


def _table(title: str, sets: Mapping[str, Errors]) -> float:
    """Prints errors by set; the macro error over that of the better data-sheet ratio."""
    columns = ("model", "fp32_ratio", "peak_ratio", "constant")
    print(f"\n{title:<22}" + "".join(f"{name:>12}" for name in (*columns, "coverage", "pairs")))
    figures = {name: [median_error(getattr(e, name)) for e in sets.values()] for name in columns}
    for n, (name, each) in enumerate(sets.items()):
        row = "".join(f"{figures[column][n]:>12.3f}" for column in columns)
        print(f"  {name:<20}{row}{each.covered_share():>12.2f}{len(each.model):>12}")
    means = {name: macro(values) for name, values in figures.items()}
    print(f"  {'macro':<20}" + "".join(f"{means[name]:>12.3f}" for name in columns))
    return means["model"] / min(means["fp32_ratio"], means["peak_ratio"])


def coverage(sets: Mapping[str, Errors]) -> Iterator[Promise]:
    """Yield whether each set's intervals have the width that the other sets' errors ask for."""
    covered = {
        name: each.covered_share(
            factor({n: other.scores for n, other in sets.items() if n != name})
        )
        for name, each in sets.items()
    }
    enough = [c for name, c in covered.items() if len(sets[name].workloads) >= LEAST_WORKLOADS]
    yield Promise(
        "coverage of 80 % intervals: macro", macro(covered.values()), 0.75, 0.88, "0.79-0.82"
    )
    yield promise_at_least(
        "coverage of 80 % intervals: least of a set", min(enough, default=math.nan), 0.5, "0.55"
    )


def decisions(bench: Bench, aws: Mapping[str, float]) -> Iterator[Promise]:
    gpus = {gpu for case in bench.cases for gpu in case.throughputs}
    tables = {"AWS": dict(aws)} | {
        f"synthetic {seed}": synthetic_prices(gpus, seed) for seed in SYNTHETIC
    }
    print(
        f"\n{'advice':<22}{'cases':>8}{'switches':>10}{'costlier':>9}{'slow':>9}{'captured':>10}{'probes':>8}"
    )
    for noise, most, reachable in ((NOISE, 0.01, "0-0.004"), (STRESS, 0.02, "0-0.010")):
        found = {
            name: _shown(f"{name}, {noise:.0%} noise", bench.play(lambda *_, p=prices: p, noise))
            for name, prices in tables.items()
        }
        worst = found.values()
        yield promise_at_most(
            f"more expensive, of advice, {noise:.0%} noise, worst table",
            max(s.dearer for s in worst),
            most,
            reachable,
        )
        yield promise_at_most(
            f"too slow of advice, {noise:.0%} noise, worst table",
            max(s.too_slow for s in worst),
            most,
            reachable,
        )
        yield promise_at_most(
            f"switches from rung prior, {noise:.0%} noise", sum(s.from_prior for s in worst), 0, "0"
        )
        if noise == NOISE:
            yield from _worth(found)
    yield from _by_history(bench, tables)
    wrong = sum(each.kind != STAY for each in bench.play(dear_by_speed, NOISE))
    yield promise_at_most("switches where nothing pays", wrong, 0, "0")
    asked = sum(each.kind != STAY or each.probes > 0 for each in bench.play(dear_by_hour, NOISE))
    yield promise_at_most("probes where nothing can pay", asked, 0, "0")


def _worth(found: Mapping[str, Summary]) -> Iterator[Promise]:
    synthetic = [each for name, each in found.items() if name != "AWS"]
    yield promise_at_least(
        "captured of the oracle's saving: AWS", found["AWS"].captured, 0.85, "0.86-0.95"
    )
    worst = min(each.captured for each in synthetic)
    yield promise_at_least("captured: worst synthetic table", worst, 0.78, "0.84")
    yield promise_at_most(
        "probes a case, worst table", max(s.probes for s in found.values()), 2.0, "0.9-1.7"
    )


def _by_history(bench: Bench, tables: Mapping[str, Mapping[str, float]]) -> Iterator[Promise]:
    """Yield the wrong switches of all cases."""
    dearer, too_slow = [0.0], [0.0]
    for name, prices in tables.items():
        outcomes = bench.played_by_history(prices)
        _shown(f"{name}, history alone", outcomes)
        dearer.append(sum(each.is_dearer for each in outcomes) / max(len(outcomes), 1))
        too_slow.append(sum(each.is_too_slow for each in outcomes) / max(len(outcomes), 1))
    yield promise_at_most(
        "history alone: more expensive, of cases, worst table", max(dearer), 0.015, "0-0.014"
    )
    yield promise_at_most(
        "history alone: too slow, of cases, worst table", max(too_slow), 0.025, "0-0.023"
    )


def _shown(name: str, outcomes: list[Outcome]) -> Summary:
    s = summary(outcomes)
    rates = f"{s.dearer:>9.2%}{s.too_slow:>9.2%}{s.captured:>10.2f}{s.probes:>8.2f}"
    print(f"  {name:<20}{s.cases:>8}{s.switches:>10}{rates}")
    return s


if __name__ == "__main__":
    sys.exit(main())
