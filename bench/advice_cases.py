"""Public speed measurements for bench/advice.py: cases, errors and data-sheet ratios."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from advisor.speed.data_sheets import PRECISION_CLASSES, DataSheet, data_sheet, precision_class
from advisor.speed.knowledge import Knowledge
from advisor.speed.measurement import Target
from advisor.speed.prediction import Z80, Speed, predict
from tools.fit_speed.data import Case

SEED = 20261123
LEAST_WORKLOADS = 5
"""The fewest workloads of a set whose own coverage is judged."""


@dataclass
class Errors:
    """Natural logarithms of predicted over true, of one set; all of one length."""

    model: list[float] = field(default_factory=list)
    sds: list[float] = field(default_factory=list)
    fp32_ratio: list[float] = field(default_factory=list)
    peak_ratio: list[float] = field(default_factory=list)
    constant: list[float] = field(default_factory=list)
    """The errors of the constant of the GPU pair in other workloads; NaN without one."""
    workloads: set[str] = field(default_factory=set)

    def covered_share(self, factor: float = 1.0) -> float:
        scores = np.abs(np.array(self.model)) / np.array(self.sds)
        return float(np.mean(scores <= Z80 * factor))

    @property
    def scores(self) -> list[float]:
        return list(np.abs(np.array(self.model)) / np.array(self.sds))


def median_error(logs: Iterable[float]) -> float:
    """Return the median of |predicted / true - 1|; NaN without a figure."""
    values = [abs(math.exp(log) - 1) for log in logs if not math.isnan(log)]
    return float(np.median(values)) if values else math.nan


def macro(figures: Iterable[float]) -> float:
    """Return the mean over the sets that have one."""
    known = [figure for figure in figures if not math.isnan(figure)]
    return float(np.mean(known)) if known else math.nan


def sample(cases: Sequence[Case], most: int) -> list[Case]:
    """Return a sample of cases, always the same."""
    order = np.random.default_rng(SEED).permutation(len(cases))[:most]
    return [cases[n] for n in sorted(order)]


def errors(
    cases: Sequence[Case],
    knowledge: Callable[[Case], Knowledge],
    constants: Callable[[Case], Mapping[tuple[str, str], float]] = lambda _: {},
    only_to: str = "",
) -> Errors:
    """Return the errors of each GPU as the present one, to each other (or `only_to`)."""
    found = Errors()
    for case in cases:
        known, pairs = knowledge(case), constants(case)
        for here in case.throughputs:
            others = [gpu for gpu in case.throughputs if gpu != here and only_to in ("", gpu)]
            targets = [Target(gpu, case.gpus) for gpu in others]
            if not targets:
                continue
            for speed in predict([case.measurement(here)], targets, known).speeds:
                _add(found, case, here, speed, pairs)
    return found


def _add(
    found: Errors, case: Case, here: str, speed: Speed, constants: Mapping[tuple[str, str], float]
) -> None:
    gpu = speed.target.gpu
    truth = math.log(case.throughputs[gpu] / case.throughputs[here])
    fp32, peak = data_sheet_ratios(here, gpu, case.precision)
    found.model.append(speed.log_median - truth)
    found.sds.append(speed.log_sd)
    found.fp32_ratio.append(fp32 - truth)
    found.peak_ratio.append(peak - truth)
    found.constant.append(constants.get((here, gpu), math.nan) - truth)
    found.workloads.add(case.workload)


def data_sheet_ratios(here: str, there: str, precision: str) -> tuple[float, float]:
    """Return logarithms: bandwidth with FP32, bandwidth with the precision's peak; geometric
    means.
    """
    one, other = _sheet(here), _sheet(there)
    n = PRECISION_CLASSES.index(precision_class(precision))
    bandwidth = other.log_bandwidth - one.log_bandwidth
    peak = other.log_peaks[n] - one.log_peaks[n]
    return other.log_ratio - one.log_ratio, (peak + bandwidth) / 2


def pair_constants(cases: Iterable[Case]) -> dict[tuple[str, str], float]:
    """Return the median log ratio of each ordered pair of GPUs."""
    seen: dict[tuple[str, str], list[float]] = {}
    for case in cases:
        for one, value in case.throughputs.items():
            for other, faster in case.throughputs.items():
                if one != other:
                    seen.setdefault((one, other), []).append(math.log(faster / value))
    return {pair: float(np.median(values)) for pair, values in seen.items()}


def leave_out_gpu(cases: Iterable[Case], gpu: str) -> list[Case]:
    kept = [(case, {g: t for g, t in case.throughputs.items() if g != gpu}) for case in cases]
    return [_with(case, throughputs=left) for case, left in kept if len(left) > 1]


def _with(case: Case, **changes: Any) -> Case:
    return Case(**(case.__dict__ | changes))


def _sheet(gpu: str) -> DataSheet:
    sheet = data_sheet(gpu)
    assert sheet is not None
    return sheet
