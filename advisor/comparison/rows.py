"""The table of a comparison: one figure of both runs per line, as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from advisor.comparison.job_metrics import JobMetrics
from advisor.comparison.run_facts import RunFacts
from advisor.comparison.wording import change_pct, write_signed
from advisor.comparison.work import WHOLE_RUN, SharedWork, quantity
from advisor.costing.metric_cost import MetricsAndCost, metric_costs
from advisor.durations import display_seconds
from advisor.money import display_usd, display_usd_per_unit

NOTABLE_PCT = 5.0
"""A smaller change between single runs is not called better or worse."""
NOTHING = "–"
COST = "cost"
COST_PER = "cost per "
WITHOUT_START_UP = ", without start-up"
_GIB = 1024**3
_MANY = 999.5
"""GiB from which on decimals say nothing."""


@dataclass(frozen=True)
class MetricRow:
    """One line of the table, as text."""

    name: str
    a: str
    b: str
    change: str
    """Begins with `+` or `−` if it went up or down; empty: unknown."""
    tone: str
    """`better`, `worse` or `neutral`."""
    is_training_metric: bool = False
    """The name is the training's, to be shown as it is."""


@dataclass(frozen=True)
class FigureFormat:
    """A figure of a table: its name, how to format it, and whether lower is better."""

    name: str
    write: Callable[[Any], str]
    is_less_better: bool | None = None
    in_points: bool = False
    """Shares change by percentage points, because a percentage of a percentage misleads."""
    is_compared: bool = True
    """True if the change is shown; False if the runs' work or completeness differs."""
    is_training_metric: bool = False
    """The training named and measured it."""

    def row(self, a: Decimal | float | None, b: Decimal | float | None) -> MetricRow | None:
        if a is None and b is None:
            return None
        shown = [NOTHING if value is None else self.write(value) for value in (a, b)]
        is_own = self.is_training_metric
        row = MetricRow(self.name, shown[0], shown[1], "", "neutral", is_own)
        if a is None or b is None or not self.is_compared:
            return row
        change = float(b) - float(a) if self.in_points else change_pct(a, b)
        unit = "points" if self.in_points else "%"
        words = "" if change is None else f"{write_signed(change, 1)} {unit}"
        return replace(row, change=words, tone=self._tone(change))

    def _tone(self, change: float | None) -> str:
        if change is None or self.is_less_better is None or abs(change) < NOTABLE_PCT:
            return "neutral"
        return "better" if (change < 0) == self.is_less_better else "worse"


def _pct(value: float) -> str:
    return f"{value:.1f} %"


def _memory(value: float) -> str:
    size = value / _GIB
    return f"{size:.2f} GiB" if size < _MANY else f"{size:,.0f} GiB"


def metric_text(value: float) -> str:
    return f"{value:.5g}"


DATA_WAIT = FigureFormat("data wait, share of step time", _pct, is_less_better=True, in_points=True)
MEASURED = (
    ("step_seconds_p50", FigureFormat("step time, median", display_seconds, is_less_better=True)),
    ("gpu_busy_p95_pct", FigureFormat("GPU busy, p95", _pct, in_points=True)),
    ("cpu_busy_p95_pct", FigureFormat("CPU busy, p95", _pct, in_points=True)),
    ("memory_p99_bytes", FigureFormat("memory in use, p99", _memory)),
)


def metric_rows(
    a: RunFacts, b: RunFacts, work: SharedWork, metrics: JobMetrics, *, is_compared: bool
) -> Iterator[MetricRow]:
    """Return the rows of figures that at least one run has; a missing one shows a dash, never 0.

    Args:
        is_compared: nothing speaks against comparing the costs of the runs' work.
    """
    rows = _all_rows(a, b, work, metrics, is_compared)
    return (row for row in rows if row is not None)


def _all_rows(
    a: RunFacts, b: RunFacts, work: SharedWork, metrics: JobMetrics, is_compared: bool
) -> Iterator[MetricRow | None]:
    is_same = is_compared and work.is_same
    yield FigureFormat(COST, display_usd, True, is_compared=is_same).row(a.cost_usd, b.cost_usd)
    if work.unit != WHOLE_RUN:
        yield from _per_unit(work, is_compared, is_same)
    seconds = FigureFormat("duration", display_seconds, True, is_compared=is_same)
    yield seconds.row(a.duration_seconds, b.duration_seconds)
    yield DATA_WAIT.row(wait_pct(a), wait_pct(b))
    for name, figure in MEASURED:
        yield figure.row(a.figure(name), b.figure(name))
    for phase in dict.fromkeys([*a.phase_seconds, *b.phase_seconds]):
        figure = FigureFormat(f"phase {phase}", display_seconds, True, is_compared=is_same)
        yield figure.row(a.phase_seconds.get(phase), b.phase_seconds.get(phase))
    for reached in metric_costs(_trained(a), _trained(b), metrics.less_is_better):
        yield FigureFormat(f"cost to reach {reached.goal}", display_usd, True).row(
            reached.a_usd, reached.b_usd
        )
    qualities = a.quality or {}, b.quality or {}
    for name in sorted({*qualities[0], *qualities[1]}):
        figure = FigureFormat(name, metric_text, is_training_metric=True)
        yield figure.row(qualities[0].get(name), qualities[1].get(name))


def _per_unit(work: SharedWork, is_compared: bool, is_same: bool) -> Iterator[MetricRow | None]:
    """Yield the cost per unit and the work. For different amounts of work only the growing
    part is comparable: see `startup`.
    """
    per_unit = COST_PER + work.unit.removesuffix("s")
    whole = FigureFormat(per_unit, display_usd_per_unit, True, is_compared=is_same)
    yield whole.row(work.a_usd, work.b_usd)
    if not work.is_same:
        growing = replace(whole, name=f"{per_unit}{WITHOUT_START_UP}", is_compared=is_compared)
        yield growing.row(work.a_growing_usd, work.b_growing_usd)
    yield FigureFormat(work.unit, quantity).row(work.a, work.b)


def _trained(run: RunFacts) -> MetricsAndCost:
    progress = getattr(run.figures, "metric_progress", None) or {}
    return MetricsAndCost(progress, run.cost_usd, run.duration_seconds)


def wait_pct(run: RunFacts) -> float | None:
    share = run.figure("data_wait_share")
    return None if share is None else 100 * share
