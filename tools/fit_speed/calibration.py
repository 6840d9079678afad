"""Widens the intervals by data sets that a fit hasn't seen."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from advisor.speed.knowledge import Knowledge
from advisor.speed.measurement import Measurement, Target
from advisor.speed.prediction import HISTORY, PRIOR, SAME, Z80, predict
from advisor.speed.table import from_document

from .data import Case, datasets, is_slice, leave_out_faults
from .fit import refit

COVERAGE = 0.82
"""The share of 80 % intervals that must cover the truth, on average over the sets; a little more
for sets harder than these."""
CASES = 20
"""The cases of each set."""


def calibrate(cases: Sequence[Case], document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with the factors that its hyperparameters need on left-out sets."""
    known = [leave_out_faults(case) for case in cases if not is_slice(case)]
    scores: dict[str, dict[str, list[float]]] = {PRIOR: {}, HISTORY: {}}
    for name in datasets(known):
        table = from_document(refit([c for c in known if c.dataset != name], document))
        own = [case for case in known if case.dataset == name]
        few = random.Random(1).sample(own, min(CASES, len(own)))  # noqa: S311
        scores[PRIOR][name] = list(_scores(few, Knowledge(table=table)))
        scores[HISTORY][name] = [
            score
            for workload in sorted({case.workload for case in few})
            for score in _scores(
                [case for case in few if case.workload == workload],
                Knowledge(measurements_of(own, workload), table),
            )
        ]
    factors = {rung: factor(found) for rung, found in scores.items()}
    factors[HISTORY] = max(factors[HISTORY], 1.0)  # this rung may switch without a measurement
    return document | {"calibration": {SAME: 1.0} | factors}


def factor(scores: Mapping[str, Sequence[float]]) -> float:
    """Return the factor by which standard deviations have to grow so that COVERAGE of the sets'
    errors is inside.
    """
    tried = np.arange(0.9, 3.0, 0.01)
    sets = [np.array(found) for found in scores.values() if found]
    covered = [np.mean([np.mean(each <= Z80 * k) for each in sets]) for k in tried]
    return round(float(tried[min(int(np.searchsorted(covered, COVERAGE)), len(tried) - 1)]), 2)


def measurements_of(cases: Sequence[Case], left_out: str = "") -> list[Measurement]:
    """Return what a workspace would know that ran these, without one workload."""
    return [
        case.measurement(gpu)
        for case in cases
        if case.workload != left_out
        for gpu in case.throughputs
    ]


def _scores(cases: Sequence[Case], knowledge: Knowledge) -> Iterator[float]:
    """Yield absolute errors in standard deviations."""
    for case in cases:
        for gpu in case.throughputs:
            targets = [Target(other, case.gpus) for other in case.throughputs if other != gpu]
            for speed in predict([case.measurement(gpu)], targets, knowledge).speeds:
                truth = np.log(case.throughputs[speed.target.gpu] / case.throughputs[gpu])
                yield abs(speed.log_median - float(truth)) / speed.log_sd
