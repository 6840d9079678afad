"""Chooses the lines that a chart draws of many series: those that stand out, and the band of the
rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from advisor.store.series import SeriesView
from rules.frame import UNUSED_PCT
from webapp.dashboard.selectors.charts import MOST_LINES

MOST_PLAIN, MOST_OUTLIERS = 2, 2
"""Series of a family that are drawn as they are; outliers that have lines of their own."""
OUTLIER_SPREADS, OUTLIER_POINTS, OUTLIER_SHARE = 3.0, 10.0, 0.25
"""An outlier is more robust standard deviations from the median than this, and more percentage
points or, of other units, a larger share of the median."""
MAD_TO_DEVIATION = 1.4826
"""The ratio for a normal distribution."""


@dataclass(frozen=True)
class Member:
    """Series of a chart. `family` is what it is compared with, and `label` its name among its
    node's.
    """

    family: str
    label: str
    view: SeriesView


@dataclass(frozen=True)
class StyledLine:
    """Line to draw. `kind` is `plain`, `outlier`, `idle` (never used) or `rest`.

    Several as one line are their mean, and the band from the least to the most of them.
    """

    label: str
    view: SeriesView
    kind: str = "plain"


def drawn_lines(
    members: Sequence[Member], unit: str, *, names_idle: bool = True
) -> list[StyledLine]:
    """Return the lines of one family: never used, outliers, then the mean and the band of the
    rest.

    Args:
        names_idle: members at 0 % have a line of their own.
    """
    if len(members) <= MOST_PLAIN or not share_buckets(members):
        return [StyledLine(member.label, member.view) for member in members[:MOST_LINES]]
    idle = [m for m in members if names_idle and unit == "pct" and _is_idle(m.view)]
    used = [m for m in members if m not in idle]
    outliers = _outliers(used, unit)
    rest = [m for m in used if m not in outliers]
    lines = []
    if rest:
        lines.append(merge_lines(rest, f"{rest[0].family}, mean of {len(rest)}", "rest"))
    if len(outliers) > MOST_OUTLIERS:
        lines.append(merge_lines(outliers, f"{len(outliers)} that differ", "outlier"))
    else:
        lines += [StyledLine(member.label, member.view, "outlier") for member in outliers]
    if idle:
        plural = "s" if len(idle) > 1 else ""
        lines.append(merge_lines(idle, f"{len(idle)} {idle[0].family}{plural} at 0 %", "idle"))
    return lines


def share_buckets(members: Sequence[Member]) -> bool:
    """Return whether the members have values at the same times."""
    first = members[0].view
    return all(
        len(m.view.mean) == len(first.mean) and m.view.width_seconds == first.width_seconds
        for m in members
    )


def _is_idle(view: SeriesView) -> bool:
    known = view.mean[np.isfinite(view.mean)]
    return bool(len(known)) and bool(known.max() <= UNUSED_PCT)


def _outliers(members: Sequence[Member], unit: str) -> list[Member]:
    if len(members) <= MOST_PLAIN:
        return []
    means = np.array([_mean(member.view) for member in members])
    middle = float(np.nanmedian(means)) if np.isfinite(means).any() else 0.0
    off = np.nan_to_num(np.abs(means - middle))
    spread = MAD_TO_DEVIATION * float(np.median(off))
    least = OUTLIER_POINTS if unit == "pct" else OUTLIER_SHARE * abs(middle)
    is_far = off > max(OUTLIER_SPREADS * spread, least)
    return [member for member, far in zip(members, is_far, strict=True) if far]


def _mean(view: SeriesView) -> float:
    known = view.mean[np.isfinite(view.mean)]
    return float(known.mean()) if len(known) else float("nan")


def merge_lines(members: Sequence[Member], label: str, kind: str) -> StyledLine:
    """Return the mean of their means, from the least to the most of them; NaN where all are."""
    means = np.stack([member.view.mean for member in members])
    known = np.isfinite(means)
    count = known.sum(axis=0)
    mean = np.where(known, means, 0.0).sum(axis=0) / np.maximum(count, 1)
    is_known = count > 0
    view = replace(
        members[0].view,
        node_key="",
        mean=np.where(is_known, mean, np.nan),
        minimum=np.where(is_known, np.where(known, means, np.inf).min(axis=0), np.nan),
        maximum=np.where(is_known, np.where(known, means, -np.inf).max(axis=0), np.nan),
    )
    return StyledLine(label, view, kind)
