"""The knowledge of the log speeds of a workspace's trainings, and exact conditioning on more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from advisor.speed.kernel import EffectLevel, Floats, Integers, Points

_INTERCEPT_VARIANCE = 100.0
"""The variance of a configuration's own level: throughputs come in any unit, so nothing is known of
it."""


@dataclass(frozen=True)
class MeasuredPoint:
    """One measured log throughput at a point."""

    point: int
    configuration: object
    log_throughput: float
    noise: float


@dataclass(frozen=True)
class Belief:
    """A Gaussian over all points: log speeds that the trainings of a workspace share.

    Each workload deviates from them by the workload level, each configuration by the configuration
    level and by an unknown factor of its own.
    """

    points: Points
    mean: Floats
    covariance: Floats
    workload: EffectLevel
    configuration: EffectLevel

    def condition_on(self, workloads: Iterable[Sequence[MeasuredPoint]]) -> Belief:
        """Return the belief conditioned on measurements, each group of rows being one workload's.

        Workloads are independent given what the workspace shares, so that taking one after another
        is exact.
        """
        mean, covariance = self.mean, self.covariance
        for rows in workloads:
            index, noise = self._own_part(rows)
            gain = np.linalg.solve(covariance[np.ix_(index, index)] + noise, covariance[index]).T
            mean = mean + gain @ _deviations(rows, mean[index])
            covariance = covariance - gain @ covariance[index]
            covariance = (covariance + covariance.T) / 2
        return Belief(self.points, mean, covariance, self.workload, self.configuration)

    def of_workload(self, rows: Sequence[MeasuredPoint], asked: Integers) -> tuple[Floats, Floats]:
        """Return mean and covariance of the first row's configuration at the points `asked`.

        Args:
            rows: everything measured of this workload; the first names the configuration.
            asked: (n,) points.

        Returns:
            (n,) log throughputs but for the configuration's own level, so that only differences
            count, and their (n, n) covariance.
        """
        known = np.array([row.point for row in rows])
        places = np.concatenate([known, asked])
        configurations = [row.configuration for row in rows]
        configurations += [configurations[0]] * len(asked)
        joint = self.covariance[np.ix_(places, places)] + self._deviation(places, configurations)
        count = len(rows)
        with_noise = joint[:count, :count] + np.diag([row.noise**2 for row in rows])
        gain = np.linalg.solve(with_noise, joint[:count]).T
        mean = self.mean[places] + gain @ _deviations(rows, self.mean[known])
        covariance = joint - gain @ joint[:count]
        return mean[count:], covariance[count:, count:]

    def _own_part(self, rows: Sequence[MeasuredPoint]) -> tuple[Integers, Floats]:
        index = np.array([row.point for row in rows])
        own = self._deviation(index, [row.configuration for row in rows])
        return index, own + np.diag([row.noise**2 for row in rows])

    def _deviation(self, index: Integers, configurations: Sequence[object]) -> Floats:
        """Return the covariance of what one workload's rows deviate by, without noise."""
        points = self.points[index]
        numbers = {c: n for n, c in enumerate(dict.fromkeys(configurations))}
        which = np.array([numbers[c] for c in configurations])
        same = which[:, None] == which[None, :]
        within = self.configuration.covariance(points) + _INTERCEPT_VARIANCE
        return self.workload.covariance(points) + np.where(same, within, 0.0)


def _deviations(rows: Sequence[MeasuredPoint], mean: Floats) -> Floats:
    """Return the deviations from the mean, around each configuration's own level: the unit of
    throughput is gone.
    """
    found = np.array([row.log_throughput for row in rows]) - mean
    configurations = [row.configuration for row in rows]
    for configuration in set(configurations):
        own = np.array([each == configuration for each in configurations])
        found[own] -= found[own].mean()
    return found
