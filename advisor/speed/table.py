"""The fitted figures of the speed model, from the bundled table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from advisor.pricing.gpus import gpu_models
from advisor.speed.belief import Belief
from advisor.speed.data_sheets import PRECISION_CLASSES, DataSheet, data_sheet
from advisor.speed.kernel import EFFECTS, RATES, EffectLevel, Floats, Points, all_points

PATH = Path(__file__).with_name("fitted.json")
LEVELS = ("public", "workspace", "workload", "configuration")
_HALF_BOARDS = ("MI250/2", "MI250X/2")


@dataclass(frozen=True)
class SpeedTable:
    """Hyperparameters, effects that all trainings share, and calibration."""

    levels: Mapping[str, EffectLevel]
    effects: Mapping[str, Mapping[str, Mapping[str, tuple[float, float]]]]
    """Precision class -> kind of EFFECTS -> name -> mean and standard deviation. An effect that
    no data set shows is missing: mean 0, the variance of the public level."""
    calibration: Mapping[str, float]
    """Rung -> factor of the standard deviation, from left-out sets."""

    @cached_property
    def belief(self) -> Belief:
        """Return the belief of a workspace of which nothing is known."""
        points = all_points(sheets())
        mean, covariance = self._public(points)
        return Belief(
            points=points,
            mean=mean,
            covariance=covariance + self.levels["workspace"].covariance(points),
            workload=self.levels["workload"],
            configuration=self.levels["configuration"],
        )

    def _public(self, points: Points) -> tuple[Floats, Floats]:
        """Return half the log of FP32 x bandwidth, plus the effects that the public sets show."""
        plain = np.array([sheet.log_ratio for sheet in sheets()])
        mean = np.tile(plain, len(PRECISION_CLASSES))
        covariance = np.zeros((len(points), len(points)))
        for number, precision in enumerate(PRECISION_CLASSES):
            at = np.flatnonzero(points.classes == number)
            for design, means, variances in self._effects_of(precision, points[at]):
                mean[at] += design @ means
                covariance[np.ix_(at, at)] += (design * variances) @ design.T
        return mean, covariance

    def _effects_of(self, precision: str, points: Points) -> list[tuple[Floats, Floats, Floats]]:
        """Return for each kind: design (points, effects), means and variances."""
        families = list(dict.fromkeys(sheet.family for sheet in sheets()))
        names = [sheet.gpu for sheet in sheets()]
        return [
            (points.rates, *self._figures(precision, "slope", RATES)),
            (np.eye(len(families))[points.families], *self._figures(precision, "family", families)),
            (np.eye(len(names))[points.gpus], *self._figures(precision, "gpu", names)),
        ]

    def _figures(self, precision: str, kind: str, names: Any) -> tuple[Floats, Floats]:
        fitted = self.effects[precision].get(kind, {})
        prior = dict(zip(EFFECTS, self.levels["public"].variances, strict=True))
        pairs = [
            fitted.get(name, (0.0, float(prior[name if kind == "slope" else kind]) ** 0.5))
            for name in names
        ]
        return np.array([mean for mean, _ in pairs]), np.array([sd**2 for _, sd in pairs])


@cache
def sheets() -> tuple[DataSheet, ...]:
    """Return every GPU that the model can place."""
    named = (data_sheet(name) for name in (*gpu_models(), *_HALF_BOARDS))
    return tuple(sheet for sheet in named if sheet is not None)


@cache
def bundled_table() -> SpeedTable:
    return from_document(json.loads(PATH.read_text(encoding="utf-8")))


def from_document(document: Mapping[str, Any]) -> SpeedTable:
    levels = {
        name: EffectLevel(
            np.array([level[effect] ** 2 for effect in EFFECTS], dtype=np.float64), level["shared"]
        )
        for name, level in document["levels"].items()
    }
    return SpeedTable(levels, document["effects"], document["calibration"])
