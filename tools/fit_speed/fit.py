"""Hyperparameters by maximum posterior density, then the effects that all data sets share."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from advisor.speed.data_sheets import PRECISION_CLASSES, data_sheet
from advisor.speed.kernel import (
    EFFECTS,
    RATES,
    EffectLevel,
    Floats,
    Points,
    all_points,
    class_factor,
    effect_products,
)
from advisor.speed.knowledge import point
from advisor.speed.measurement import NOISE
from advisor.speed.table import LEVELS, from_document, sheets

from .data import Case, leave_out_faults

ROWS_TO_TUNE, ROWS_TO_FIT = 24, 100
"""The rows of each data set, so that a large one counts no more than others."""
_USUAL_SD, _SPREAD_OF_LOG_SD = 0.12, 0.8
"""The prior of a standard deviation before any data."""
_INTERCEPT_VARIANCE = 100.0
STEPS = 25
_PUBLIC_SDS = ((0.01, 0.05), (0.01, 0.05), (0.01, 0.05), (0.25, 0.5), (0.01, 0.04))
"""Least and largest, in the order of EFFECTS. What all trainings share is drawn only once, so that
the likelihood says little; left-out sets and GPUs ask for generations rather than slopes."""


@dataclass(frozen=True)
class _Rows:
    """Log throughputs over the data sheets' ratio, and what each belongs to."""

    points: Points
    residuals: Floats
    same: list[Floats]
    """The matrix for each of LEVELS: 1 where two rows share it, (rows, rows)."""


def fit(cases: Sequence[Case], steps: int = STEPS) -> dict[str, Any]:
    """Return the document of a speed table, without calibration."""
    levels = _tuned(_rows(cases, ROWS_TO_TUNE), steps)
    rows = _rows(cases, ROWS_TO_FIT)
    return {
        "levels": {name: _as_document(level) for name, level in zip(LEVELS, levels, strict=True)},
        "effects": _effects(rows, levels),
        "calibration": {},
    }


def refit(cases: Sequence[Case], document: dict[str, Any]) -> dict[str, Any]:
    """Return the same hyperparameters with the effects that these cases show."""
    table = from_document(document)
    levels = [table.levels[name] for name in LEVELS]
    return document | {"effects": _effects(_rows(cases, ROWS_TO_FIT), levels)}


def _rows(cases: Sequence[Case], most: int) -> _Rows:
    chosen = [case for of_set in _by_set(cases).values() for case in _sample(of_set, most)]
    keys: list[tuple[str, str, str]] = []
    index: list[int] = []
    residuals: list[float] = []
    for case in chosen:
        logs = _residuals(case)
        index += logs
        residuals += [value - float(np.mean(list(logs.values()))) for value in logs.values()]
        keys += [(case.dataset, f"{case.dataset}|{case.workload}", case.configuration)] * len(logs)
    columns = zip(*keys, strict=True)
    same = [np.ones((len(keys), len(keys))), *(_equal(column) for column in columns)]
    return _Rows(all_points(sheets())[index], np.array(residuals), same)


def _residuals(case: Case) -> dict[int, float]:
    found: dict[int, float] = {}
    for gpu, throughput in case.throughputs.items():
        sheet = data_sheet(gpu)
        if sheet is not None:
            found[point(sheet, case.precision)] = float(np.log(throughput)) - sheet.log_ratio
    return found


def _by_set(cases: Sequence[Case]) -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = defaultdict(list)
    for case in map(leave_out_faults, cases):
        if len(_residuals(case)) > 1 and all("/mig" not in gpu for gpu in case.throughputs):
            found[case.dataset].append(case)
    return found


def _sample(cases: list[Case], most: int) -> Iterator[Case]:
    """Yield cases of every workload in turn, until there are enough rows."""
    shuffled = random.Random(0).sample(cases, len(cases))  # noqa: S311
    turns: dict[str, int] = defaultdict(int)
    ordered = []
    for number, case in enumerate(shuffled):
        turns[case.workload] += 1
        ordered.append((turns[case.workload], number, case))
    rows = 0
    for _, _, case in sorted(ordered, key=lambda each: each[:2]):
        if rows < most:
            yield case
        rows += len(case.throughputs)


def _equal(names: Sequence[str]) -> Floats:
    numbers = np.unique(np.array(names), return_inverse=True)[1]
    return np.asarray(numbers[:, None] == numbers[None, :], dtype=np.float64)


def _tuned(rows: _Rows, steps: int) -> list[EffectLevel]:
    start = np.concatenate([np.full(len(LEVELS) * len(EFFECTS), np.log(_USUAL_SD)), np.zeros(4)])
    start[: len(EFFECTS)] = [np.log(np.sqrt(least * most)) for least, most in _PUBLIC_SDS]
    products = effect_products(rows.points)
    found = minimize(
        _loss,
        start,
        args=(rows, products),
        jac=True,
        method="L-BFGS-B",
        bounds=_bounds(),
        options={"maxiter": steps},
    )
    return _levels(found.x)


def _bounds() -> list[tuple[float, float]]:
    public = [(float(np.log(least)), float(np.log(most))) for least, most in _PUBLIC_SDS]
    others = [(-5.0, 0.5)] * ((len(LEVELS) - 1) * len(EFFECTS))
    return [*public, *others, *([(-4.0, 4.0)] * len(LEVELS))]


def _levels(parameters: Floats) -> list[EffectLevel]:
    variances = np.exp(2 * parameters[:-4]).reshape(len(LEVELS), len(EFFECTS))
    shared = 1 / (1 + np.exp(-parameters[-4:]))
    return [EffectLevel(v, float(s)) for v, s in zip(variances, shared, strict=True)]


def _covariance(rows: _Rows, levels: Sequence[EffectLevel], products: Sequence[Floats]) -> Floats:
    count = len(rows.residuals)
    total = NOISE**2 * np.eye(count) + _INTERCEPT_VARIANCE * rows.same[-1]
    for level, same in zip(levels, rows.same, strict=True):
        weighted = sum(v * p for v, p in zip(level.variances, products, strict=True))
        total += weighted * same * class_factor(rows.points, level.shared)
    return np.asarray(total)


def _loss(parameters: Floats, rows: _Rows, products: Sequence[Floats]) -> tuple[float, Floats]:
    """Return the negative log posterior density and its gradient."""
    levels = _levels(parameters)
    factor = cho_factor(_covariance(rows, levels, products), lower=True)
    weights = cho_solve(factor, rows.residuals)
    pull = np.outer(weights, weights) - cho_solve(factor, np.eye(len(weights)))
    gradient = np.concatenate(_gradients(levels, rows, products, pull))
    loss = 0.5 * float(rows.residuals @ weights) + float(np.log(np.diag(factor[0])).sum())
    off = (parameters[:-4] - np.log(_USUAL_SD)) / _SPREAD_OF_LOG_SD
    prior = np.concatenate([off / _SPREAD_OF_LOG_SD, parameters[-4:] / 4])
    return loss + 0.5 * float(off @ off) + float(parameters[-4:] @ parameters[-4:]) / 8, (
        prior - gradient
    )


def _gradients(
    levels: Sequence[EffectLevel], rows: _Rows, products: Sequence[Floats], pull: Floats
) -> tuple[Floats, Floats]:
    """Return the gradients of the log likelihood by log standard deviations and by the logits of
    `shared`.
    """
    different = 1 - class_factor(rows.points, 0.0)
    of_sds, of_shared = [], []
    for level, same in zip(levels, rows.same, strict=True):
        here = pull * same
        inside = [
            np.array([np.vdot(here * class_factor(rows.points, level.shared), p)]) for p in products
        ]
        of_sds.append(np.concatenate(inside) * level.variances)
        across = sum(
            v * float(np.vdot(here * different, p))
            for v, p in zip(level.variances, products, strict=True)
        )
        of_shared.append(0.5 * across * level.shared * (1 - level.shared))
    return np.concatenate(of_sds), np.array(of_shared)


def _effects(rows: _Rows, levels: Sequence[EffectLevel]) -> dict[str, Any]:
    """Precision class -> kind -> name -> (mean, standard deviation), of effects with data."""
    names = _effect_names()
    design = _design(rows.points)
    variances = levels[0].variances[[*range(len(RATES)), *(EFFECTS.index(n[0]) for n in names[3:])]]
    classes = len(PRECISION_CLASSES)
    across = np.full((classes, classes), levels[0].shared) + (1 - levels[0].shared) * np.eye(
        classes
    )
    prior = np.kron(across, np.diag(variances))
    full = np.zeros((len(rows.residuals), classes * len(names)))
    for number in range(classes):
        at = rows.points.classes == number
        full[at, number * len(names) : (number + 1) * len(names)] = design[at]
    joint = full @ prior
    factor = cho_factor(_covariance(rows, levels, effect_products(rows.points)), lower=True)
    means = joint.T @ cho_solve(factor, rows.residuals)
    left = np.diag(prior) - np.einsum("ij,ij->j", joint, cho_solve(factor, joint))
    return _named(names, means, np.sqrt(np.maximum(left, 0.0)))


def _named(names: list[tuple[str, str]], means: Floats, sds: Floats) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, precision in enumerate(PRECISION_CLASSES):
        kinds: dict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
        for n, (kind, name) in enumerate(names, start=number * len(names)):
            kinds[kind][name] = (round(float(means[n]), 4), round(float(sds[n]), 4))
        found[precision] = dict(kinds)
    return found


def _effect_names() -> list[tuple[str, str]]:
    families = dict.fromkeys(sheet.family for sheet in sheets())
    return [
        *(("slope", rate) for rate in RATES),
        *(("family", family) for family in families),
        *(("gpu", sheet.gpu) for sheet in sheets()),
    ]


def _design(points: Points) -> Floats:
    """Return the matrix of (points, effects) in the order of `_effect_names`."""
    families = len(dict.fromkeys(sheet.family for sheet in sheets()))
    return np.hstack(
        [points.rates, np.eye(families)[points.families], np.eye(len(sheets()))[points.gpus]]
    )


def _as_document(level: EffectLevel) -> dict[str, float]:
    sds = {
        name: round(float(v) ** 0.5, 4) for name, v in zip(EFFECTS, level.variances, strict=True)
    }
    return sds | {"shared": round(level.shared, 3)}
