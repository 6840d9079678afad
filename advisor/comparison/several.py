"""Compares three or more runs: each with the first, and all of them figure by figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from advisor.comparison.compare import Comparison, compare
from advisor.comparison.job_metrics import USUAL, JobMetrics
from advisor.comparison.rows import (
    COST,
    COST_PER,
    DATA_WAIT,
    MEASURED,
    NOTHING,
    WITHOUT_START_UP,
    FigureFormat,
    metric_text,
    wait_pct,
)
from advisor.comparison.run_facts import RunFacts
from advisor.comparison.work import WHOLE_RUN, quantity
from advisor.durations import display_seconds
from advisor.money import display_usd, display_usd_per_unit


@dataclass(frozen=True)
class Cell:
    """`is_best`: of all runs, where they may be compared by this figure and one side is better."""

    text: str
    is_best: bool = False


@dataclass(frozen=True)
class FigureRow:
    figure: FigureFormat
    values: tuple[Decimal | float | None, ...]
    """One of each run; None: unknown."""

    @property
    def name(self) -> str:
        return self.figure.name

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return one cell for each run. What is written the same is equally good."""
        texts = [self._written(value) for value in self.values]
        best = self._best(set(texts) - {NOTHING})
        return tuple(Cell(text, text == best) for text in texts)

    def _written(self, value: Decimal | float | None) -> str:
        return NOTHING if value is None else self.figure.write(value)

    def _best(self, texts: Set[str]) -> str | None:
        """Return the best text, or None if no side is better, the runs may not be compared by it,
        or all are equal.
        """
        is_less_better = self.figure.is_less_better
        if is_less_better is None or not self.figure.is_compared or len(texts) < 2:
            return None
        known = [value for value in self.values if value is not None]
        return self.figure.write(min(known) if is_less_better else max(known))


@dataclass(frozen=True)
class Setting:
    """A setting that differs between some of the runs; None: the run doesn't have it."""

    name: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class RunsComparison:
    runs: tuple[RunFacts, ...]
    with_first: tuple[Comparison, ...]
    """Each run but the first, compared with it."""
    rows: tuple[FigureRow, ...]
    settings: tuple[Setting, ...]
    unchanged_count: int

    @property
    def are_comparable(self) -> bool:
        """Return whether the runs can be compared by their cost for the same amount of work."""
        return not any(each.incomparable_because for each in self.with_first)

    @property
    def warnings(self) -> list[str]:
        """Return each warning once, with the runs that it is about."""
        about: dict[str, list[int]] = {}
        for each in self.with_first:
            for words in each.warnings:
                about.setdefault(words, []).append(each.b.number)
        return [
            words if len(numbers) == len(self.with_first) else f"{_named(numbers)}: {words}"
            for words, numbers in about.items()
        ]


def compare_several(runs: Sequence[RunFacts], metrics: JobMetrics = USUAL) -> RunsComparison:
    """Compare two runs or more: each of the others with the first."""
    first, *others = runs
    with_first = tuple(compare(first, other, metrics) for other in others)
    names = dict.fromkeys(name for run in runs for name in run.settings)
    settings = [Setting(name, tuple(run.settings.get(name) for run in runs)) for name in names]
    changed = tuple(each for each in settings if any(v != each.values[0] for v in each.values))
    return RunsComparison(
        runs=tuple(runs),
        with_first=with_first,
        rows=tuple(_rows(runs, with_first, metrics)),
        settings=changed,
        unchanged_count=len(settings) - len(changed),
    )


def _rows(
    runs: Sequence[RunFacts], with_first: Sequence[Comparison], metrics: JobMetrics
) -> Iterator[FigureRow]:
    """Yield the figures that at least one run has."""
    is_compared = not any(each.incomparable_because for each in with_first)
    is_same = is_compared and all(each.is_same_work for each in with_first)
    cost = FigureFormat(COST, display_usd, True, is_compared=is_same)
    yield from _row(cost, [run.cost_usd for run in runs])
    yield from _per_unit(with_first, is_compared, is_same)
    duration = FigureFormat("duration", display_seconds, True, is_compared=is_same)
    yield from _row(duration, [run.duration_seconds for run in runs])
    yield from _row(DATA_WAIT, [wait_pct(run) for run in runs])
    for name, figure in MEASURED:
        yield from _row(figure, [run.figure(name) for run in runs])
    for phase in dict.fromkeys(phase for run in runs for phase in run.phase_seconds):
        figure = FigureFormat(f"phase {phase}", display_seconds, True, is_compared=is_same)
        yield from _row(figure, [run.phase_seconds.get(phase) for run in runs])
    for name in sorted({name for run in runs for name in run.quality or {}}):
        is_less_better = metrics.less_is_better(name) if metrics.is_quality(name) else None
        figure = FigureFormat(name, metric_text, is_less_better, is_training_metric=True)
        yield from _row(figure, [(run.quality or {}).get(name) for run in runs])


def _per_unit(
    with_first: Sequence[Comparison], is_compared: bool, is_same: bool
) -> Iterator[FigureRow]:
    """Yield the rows in the unit that all runs counted; none without such a unit."""
    works = [each.per_work for each in with_first]
    unit = works[0].unit
    if unit == WHOLE_RUN or any(work.unit != unit for work in works):
        return
    name = COST_PER + unit.removesuffix("s")
    whole = FigureFormat(name, display_usd_per_unit, True, is_compared=is_same)
    yield from _row(whole, [works[0].a_usd, *(work.b_usd for work in works)])
    if not is_same:
        growing = FigureFormat(
            name + WITHOUT_START_UP, display_usd_per_unit, True, False, is_compared
        )
        yield from _row(growing, [works[0].a_growing_usd, *(w.b_growing_usd for w in works)])
    yield from _row(FigureFormat(unit, quantity), [works[0].a, *(work.b for work in works)])


def _row(figure: FigureFormat, values: Sequence[Decimal | float | None]) -> Iterator[FigureRow]:
    if any(value is not None for value in values):
        yield FigureRow(figure, tuple(values))


def _named(numbers: Sequence[int]) -> str:
    return ", ".join(f"#{number}" for number in numbers)
