"""Speeds of targets as ratios to the present run, each with an interval and its evidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from advisor.speed import slices
from advisor.speed.counts import Scaling, scaling
from advisor.speed.data_sheets import DataSheet, data_sheet, plain_log_ratio
from advisor.speed.kernel import Floats
from advisor.speed.knowledge import Knowledge, pairs, point, row_of
from advisor.speed.measurement import Measurement, Target, is_comparable

MEASURED, SAME, HISTORY, PRIOR = "measured", "same", "history", "prior"
Z80 = 1.2816
"""An 80 % interval reaches so many standard deviations to each side."""
LOW_BUSY_SHARE = 0.5
_SAME_SPREAD = 0.02
"""The same GPU model in other machines: 1.4 % between 39 of them."""


@dataclass(frozen=True)
class Speed:
    """The throughput of a target over that of the present run."""

    target: Target
    rung: str = ""
    """The basis on which it is known: MEASURED, SAME, HISTORY or PRIOR; empty if unknown."""
    log_median: float = 0.0
    log_sd: float = 0.0
    missing: str = ""
    """The reason why the speed is not known."""

    @property
    def median(self) -> float:
        return math.exp(self.log_median)

    def low(self, z: float = Z80) -> float:
        return math.exp(self.log_median - z * self.log_sd)

    def high(self, z: float = Z80) -> float:
        return math.exp(self.log_median + z * self.log_sd)


@dataclass(frozen=True)
class Prediction:
    """Speeds in the order of the targets."""

    speeds: tuple[Speed, ...]
    covariance: Floats
    """The covariance of the log speeds, (targets, targets); 0 where a speed is not known."""


def predict(
    measured: Sequence[Measurement], targets: Sequence[Target], knowledge: Knowledge
) -> Prediction:
    """Predict how fast the first measurement's run would be on each target.

    Args:
        measured: the present run first, then what else was measured of the same job: probes, other
            batches, other counts.
        knowledge: what the workspace's other jobs tell; `Knowledge()` if nothing.
    """
    question = _Question(measured, targets, knowledge)
    speeds = tuple(question.speed(n) for n in range(len(targets)))
    return Prediction(speeds, _rescaled(question.covariance, speeds))


def _rescaled(covariance: Floats, speeds: Sequence[Speed]) -> Floats:
    """Return the covariance with the speeds' own variances, keeping the correlations."""
    sds = np.array([speed.log_sd for speed in speeds])
    raw = np.sqrt(np.maximum(np.diag(covariance), 1e-12))
    correlation = covariance / np.outer(raw, raw)
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(correlation * np.outer(sds, sds))


class _Question:
    def __init__(
        self, measured: Sequence[Measurement], targets: Sequence[Target], knowledge: Knowledge
    ) -> None:
        self.present = measured[0]
        self.measured = [m for m in measured if m.workload == self.present.workload]
        self.targets = targets
        self.knowledge = knowledge
        self.here = data_sheet(self.present.gpu)
        self.sheets = [data_sheet(target.gpu) for target in targets]
        self.known_pairs = pairs(self.measured)
        self.medians, self.covariance = self._whole_gpus()

    def speed(self, n: int) -> Speed:
        target, sheet, here = self.targets[n], self.sheets[n], self.here
        own_place = (_place(self.present.gpu), self.present.gpus)
        if (_place(target.gpu), target.gpus) == own_place:
            return Speed(target, SAME, 0.0, _SAME_SPREAD)
        direct = self._direct(target)
        if direct and not self._is_in_belief(n):
            return self._measured(target, direct)
        if sheet is None or here is None:
            unknown = self.present.gpu if here is None else target.gpu
            return Speed(target, missing=f"no data sheet of {unknown!r}, and not measured there")
        if direct:
            sd = math.sqrt(self.covariance[n, n])
            return Speed(target, MEASURED, float(self.medians[n]), sd)
        return self._predicted(n, sheet, here)

    def _predicted(self, n: int, sheet: DataSheet, here: DataSheet) -> Speed:
        target = self.targets[n]
        count = scaling(self.present, self.measured, target.gpus)
        if not isinstance(count, Scaling):
            return Speed(target, missing=count)
        rung = self._rung(sheet, here)
        median, sd = self._of_gpu(n)
        sd *= self.knowledge.table.calibration.get(rung, 1.0)
        kept, spread = self._of_slice(sheet, here)
        sd = math.hypot(sd, spread, count.spread, _SAME_SPREAD)
        return Speed(target, rung, median + kept + count.log_ratio, sd)

    def _rung(self, sheet: DataSheet, here: DataSheet) -> str:
        if sheet.gpu == here.gpu:
            return SAME if sheet.share == here.share else PRIOR
        if sheet.share < 1 or here.share < 1:
            return PRIOR
        known = frozenset((sheet.gpu, here.gpu)) in self.known_pairs
        return HISTORY if known or self.knowledge.knows_pair(sheet.gpu, here.gpu) else PRIOR

    def _of_gpu(self, n: int) -> tuple[float, float]:
        """Log ratio and standard deviation; of a GPU that mostly waits, its busy share scales."""
        median, sd = float(self.medians[n]), math.sqrt(max(self.covariance[n, n], 0.0))
        busy = self.present.busy_share
        if busy is None or busy >= LOW_BUSY_SHARE or self._was_measured_elsewhere():
            return median, sd
        scaled = busy * math.exp(-median)
        return -math.log(1 - busy + scaled), sd * scaled / (1 - busy + scaled)

    def _of_slice(self, sheet: DataSheet, here: DataSheet) -> tuple[float, float]:
        if sheet.share == here.share:
            return 0.0, 0.0
        busy = self.present.busy_share
        demanded = slices.demand(here.share, busy)
        kept = slices.log_kept(sheet.share, demanded) - slices.log_kept(here.share, demanded)
        return kept, slices.spread(busy)

    def _direct(self, target: Target) -> list[Measurement]:
        return [
            m
            for m in self.measured
            if (_place(m.gpu), m.gpus) == (_place(target.gpu), target.gpus)
            and is_comparable(self.present, m)
        ]

    def _is_in_belief(self, n: int) -> bool:
        sheet = self.sheets[n]
        return (
            self.here is not None
            and sheet is not None
            and sheet.share == self.here.share == 1
            and self.targets[n].gpus == self.present.gpus
        )

    def _measured(self, target: Target, direct: Sequence[Measurement]) -> Speed:
        here = [m for m in self.measured if m.gpu == self.present.gpu]
        here = [m for m in here if m.configuration == self.present.configuration]
        (there_mean, there_variance), (mean, variance) = _average(direct), _average(here)
        sd = math.sqrt(there_variance + variance)
        return Speed(target, MEASURED, there_mean - mean, sd)

    def _was_measured_elsewhere(self) -> bool:
        return any(_place(m.gpu) != _place(self.present.gpu) for m in self.measured)

    def _whole_gpus(self) -> tuple[Floats, Floats]:
        """Log ratios of whole GPUs at the present count, NaN if not placed; their covariance."""
        count = len(self.targets)
        medians, covariance = np.full(count, np.nan), np.zeros((count, count))
        placed = [n for n, sheet in enumerate(self.sheets) if sheet]
        if self.here is None or not placed:
            return medians, covariance
        rows = [row for row in map(row_of, self.measured) if row is not None]
        rows += self.knowledge.rows_of(self.present.workload)
        belief = self.knowledge.belief_of_others(self.present.workload)
        asked = [sheet for sheet in self.sheets if sheet] + [self.here]
        precision = self.present.precision
        mean, joint = belief.of_workload(rows, np.array([point(s, precision) for s in asked]))
        contrast = np.hstack([np.eye(len(placed)), -np.ones((len(placed), 1))])
        medians[placed] = contrast @ mean
        covariance[np.ix_(placed, placed)] = contrast @ joint @ contrast.T
        if self.knowledge.is_empty and not self._was_measured_elsewhere():
            plain = np.array([plain_log_ratio(self.here, s, precision) for s in asked[:-1]])
            medians[placed] = (medians[placed] + plain) / 2
        return medians, covariance


def _place(gpu: str) -> str:
    """Return one name for what several spellings name."""
    sheet = data_sheet(gpu)
    if sheet is None:
        return gpu
    return sheet.gpu if sheet.share == 1 else f"{sheet.gpu} {sheet.share:.3f}"


def _average(measured: Sequence[Measurement]) -> tuple[float, float]:
    """Return the mean log throughput, weighted by variance, and its variance."""
    weights = [m.noise**-2 for m in measured]
    logs = [math.log(m.throughput) for m in measured]
    mean = sum(w * log for w, log in zip(weights, logs, strict=True)) / sum(weights)
    return mean, 1 / sum(weights)
