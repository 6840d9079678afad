"""The charts of a report as the shapes of inline SVG, from what the run's page draws."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from webapp.dashboard.selectors.charts import Chart
from webapp.templatetags import shown

WIDTH, HEIGHT, MOST_COLOURS = 600, 120, 6
LEAST_WIDTH = 0.8
"""The least width of a part of a box plot, in percent."""
HEADROOM = 1.08
"""The room of a chart without a fixed scale, above its highest value."""
HEAT_LEVELS = ((0, 0), (20, 1), (40, 2), (60, 3), (80, 4), (100, 5))
"""The colours' numbers, each up to a percentage."""
FEW_ROWS = 6
"""The most rows of a heat map that are all named."""
Values = Sequence[float | None]


@dataclass(frozen=True)
class DrawnLine:
    """Line of a chart. `path` and `band` are those of an SVG; `colour` is 1 to MOST_COLOURS."""

    label: str
    path: str
    band: str
    colour: int
    mean: str
    most: str


@dataclass(frozen=True)
class DrawnChart:
    """Chart of a report. `hidden` counts the nodes that it leaves out; `marks` are where something
    happened, from the left.
    """

    title: str
    top: str
    """The value at the top of its scale, in words."""
    lines: list[DrawnLine]
    ends: str
    hidden: int = 0
    marks: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Outline:
    """Histogram as a line; `path` is in a box of WIDTH x HEIGHT."""

    label: str
    path: str
    colour: int


@dataclass(frozen=True)
class HeatMap:
    """Heat map. `paths` are (level, path) in a box of `columns` x `rows`."""

    title: str
    rows: int
    columns: int
    order: str
    """The rows that there are, from the top, in words."""
    paths: list[tuple[int, str]]
    note: str = ""


@dataclass(frozen=True)
class Histogram:
    """Histogram. `bars` are x, y, width, height and words in a box of WIDTH x HEIGHT."""

    bars: list[tuple[float, float, float, float, str]]
    least: str
    most: str
    highest: int


def drawn_chart(
    chart: Chart, document: dict[str, Any], names: dict[str, str], end: float, hidden: int = 0
) -> DrawnChart:
    """Return the chart. `names` are those of nodes by their keys, `hidden` counts those that aren't
    drawn. Without lines, nothing was measured.
    """
    lines = document["lines"]
    known = [v for line in lines for v in (*line["max"], *line["mean"]) if v is not None]
    top = chart.highest or max(known, default=0.0) * HEADROOM or 1.0
    drawn = [_line(line, number, names, top, end, chart.unit) for number, line in enumerate(lines)]
    words = write_value(top, chart.unit)
    return DrawnChart(chart.title, words, drawn, shown.seconds(end), hidden)


def progress_chart(
    progress: list[list[float]], end: float, marks: Iterable[float]
) -> DrawnChart | None:
    """Return the training steps that were done by each moment, or None without steps.

    Args:
        marks: when something happened, in seconds.
    """
    if not progress:
        return None
    top = progress[-1][1] or 1
    points = [(at / (end or 1) * WIDTH, HEIGHT * (1 - done / top)) for at, done in progress]
    words = f"{progress[-1][1]:,.0f}"
    line = DrawnLine("training steps done", _path(points), "", 1, "", words)
    places = [round(at / (end or 1) * WIDTH, 1) for at in marks]
    return DrawnChart("Training progress", words, [line], shown.seconds(end), marks=places)


def heat_map(
    title: str,
    heat: dict[str, Any] | None,
    names: dict[str, str],
    prefix: str = "",
    note: str = "",
) -> HeatMap | None:
    """Return the heat map, or None if there is nothing to compare. `prefix` comes before the label
    of each row.
    """
    if heat is None:
        return None
    rows = heat["rows"]
    paths: dict[int, list[str]] = {}
    for y, row in enumerate(rows):
        for level, start, end in _stretches([_level(value) for value in row["values"]]):
            if level is not None:
                paths.setdefault(level, []).append(f"M{start} {y}H{end}V{y + 1}H{start}z")
    titles = [_title(row["node"], prefix + row["label"], names) for row in rows]
    columns = max((len(row["values"]) for row in rows), default=1)
    merged = [(level, "".join(found)) for level, found in sorted(paths.items())]
    return HeatMap(title, len(rows), columns, _order(titles), merged, note)


def _order(titles: Sequence[str]) -> str:
    if len(titles) <= FEW_ROWS:
        return f"From the top: {'; '.join(titles)}."
    return f"{titles[0]} at the top, {titles[-1]} at the bottom."


def histogram(bins: list[list[float]]) -> Histogram | None:
    if not bins:
        return None
    highest = max(count for _, _, count in bins) or 1
    width = WIDTH / len(bins)
    bars = []
    for place, (start, end, count) in enumerate(bins):
        height = HEIGHT * count / highest
        words = f"{shown.seconds(start)} to {shown.seconds(end)}: {count:,.0f}"
        bars.append(
            (
                round(place * width, 1),
                round(HEIGHT - height, 1),
                round(width, 1),
                round(height, 1),
                words,
            )
        )
    return Histogram(bars, shown.seconds(bins[0][0]), shown.seconds(bins[-1][1]), int(highest))


def span(low: float, high: float) -> tuple[float, float]:
    """Return start and width of a part of 0 to 100, wide enough to be seen and not outside."""
    width = max(high - low, LEAST_WIDTH)
    return min(low, 100 - width), width


def outlines(counts: Mapping[str, np.ndarray]) -> list[Outline]:
    """Return histograms over the same bins, each as high as its share in the fullest bin of all."""
    shares = {label: own / max(own.sum(), 1e-9) for label, own in counts.items()}
    top = max((float(own.max()) for own in shares.values()), default=0.0) or 1.0
    return [
        Outline(label, _stairs(own / top), number % MOST_COLOURS + 1)
        for number, (label, own) in enumerate(shares.items())
    ]


def _stairs(heights: np.ndarray) -> str:
    width, levels = WIDTH / len(heights), HEIGHT * (1 - heights)
    steps = (f"V{y:.1f}H{(n + 1) * width:.1f}" for n, y in enumerate(levels.tolist()))
    return f"M0 {HEIGHT}{''.join(steps)}V{HEIGHT}"


def write_value(value: float, unit: str) -> str:
    if unit == "pct":
        return f"{shown.number(float(f'{value:.3g}'))} %"
    if unit == "seconds":
        return shown.seconds(value)
    rate = "/s" if unit.endswith("/s") else ""
    return f"{shown.binary_bytes(value)}{rate}"


def _line(
    line: dict[str, Any], number: int, names: dict[str, str], top: float, end: float, unit: str
) -> DrawnLine:
    scale = WIDTH / (end or 1.0)
    xs = [(line["start"] + (n + 0.5) * line["step"]) * scale for n in range(len(line["mean"]))]
    known = [value for value in line["mean"] if value is not None]
    most = max((value for value in line["max"] if value is not None), default=None)
    return DrawnLine(
        label=_title(line["node"], line["label"], names),
        path="".join(_path(piece) for piece in _pieces(xs, line["mean"], top)),
        band=_band(xs, line["min"], line["max"], top),
        colour=number % MOST_COLOURS + 1,
        mean=write_value(sum(known) / len(known), unit) if known else shown.NOTHING,
        most=write_value(most, unit) if most is not None else shown.NOTHING,
    )


def _title(node: str, label: str, names: dict[str, str]) -> str:
    """Return a title, with the node only if there are several."""
    return f"{names[node]}, {label}" if len(names) > 1 and node in names else label


def _pieces(xs: list[float], values: Values, top: float) -> list[list[tuple[float, float]]]:
    """Return the stretches of known values: nothing is drawn over a gap."""
    pieces: list[list[tuple[float, float]]] = [[]]
    for x, value in zip(xs, values, strict=True):
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append((x, HEIGHT * (1 - min(value / top, 1.0))))
    return [piece for piece in pieces if piece]


def _band(xs: list[float], least: Values, most: Values, top: float) -> str:
    low = [None if a is None or b is None else a for a, b in zip(least, most, strict=True)]
    high = [None if a is None or b is None else b for a, b in zip(least, most, strict=True)]
    pairs = zip(_pieces(xs, low, top), _pieces(xs, high, top), strict=True)
    return "".join(f"{_path([*above, *reversed(below)])}z" for below, above in pairs)


def _path(points: Iterable[tuple[float, float]]) -> str:
    """Return an SVG path. A single point is a dot."""
    listed = [f"{x:.1f} {y:.1f}" for x, y in points]
    return "M" + "L".join(listed if len(listed) > 1 else listed * 2)


def _level(value: int | None) -> int | None:
    if value is None:
        return None
    return next((level for most, level in HEAT_LEVELS if value <= most), HEAT_LEVELS[-1][1])


def _stretches(levels: list[int | None]) -> list[tuple[int | None, int, int]]:
    found: list[tuple[int | None, int, int]] = []
    for place, level in enumerate(levels):
        if found and found[-1][0] == level:
            found[-1] = level, found[-1][1], place + 1
        else:
            found.append((level, place, place + 1))
    return found
