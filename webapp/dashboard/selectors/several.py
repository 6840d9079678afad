"""The page that compares three to six runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from advisor.comparison.compare import Comparison
from advisor.comparison.rows import COST, COST_PER
from advisor.comparison.several import Cell, FigureRow, RunsComparison
from webapp.analysis.selectors.comparison import SEVERAL_JOBS, compared_several
from webapp.analysis.selectors.work import WorkUnit, common_unit
from webapp.dashboard.selectors.comparison import chart_document, gpu_count
from webapp.runs.models import Run

MOST_RUNS = 6
"""The most runs: as many lines as a chart can tell apart."""


@dataclass(frozen=True)
class RunColumn:
    """Column of a run. `without` is the address of the comparison without this run."""

    run: Run
    name: str
    without: str
    with_first: Comparison | None
    """The comparison with the first run; None for the first."""
    pair: str
    """The address of the comparison with the first run; empty for the first."""


@dataclass(frozen=True)
class SeveralPage:
    columns: list[RunColumn]
    result: RunsComparison
    gpu_count: int

    @property
    def are_of_one_job(self) -> bool:
        return len({column.run.job_id for column in self.columns}) == 1

    @property
    def warnings(self) -> list[str]:
        return [*([] if self.are_of_one_job else [SEVERAL_JOBS]), *self.result.warnings]

    @property
    def rows(self) -> list[tuple[FigureRow, list[tuple[Cell, Run | None]]]]:
        """Return the rows, each with its cells. Beside the cost of a run without a price stands the
        run.
        """
        runs = [column.run for column in self.columns]
        unit = common_unit(runs)
        return [
            (
                row,
                [
                    (cell, run if _lacks(row, run) else None)
                    for cell, run in zip(row.cells, runs, strict=True)
                ],
            )
            for row in (_readable(row, unit) for row in self.result.rows)
        ]

    def chart_document(self) -> dict[str, Any]:
        return chart_document([(each.run, each.name) for each in self.columns], self.gpu_count)


def several_page(runs: Sequence[Run]) -> SeveralPage:
    """Return the page with the runs in this order; the others are compared with the first."""
    result = compared_several(runs)
    is_plain = len({run.job_id for run in runs}) == 1
    columns = [
        RunColumn(
            run=run,
            name=f"#{run.number}" if is_plain else str(run),
            without=_address([other for other in runs if other is not run]),
            with_first=result.with_first[place - 1] if place else None,
            pair=f"{reverse('dashboard:compare')}?a={runs[0].pk}&b={run.pk}" if place else "",
        )
        for place, run in enumerate(runs)
    ]
    return SeveralPage(columns, result, gpu_count(runs))


def _readable(row: FigureRow, unit: WorkUnit | None) -> FigureRow:
    """Return the row with a cost per unit of work for a readable amount of it, as in a comparison
    of two.
    """
    if unit is None or not row.name.startswith(f"{COST_PER}{unit.singular}"):
        return row
    name = row.name.replace(unit.singular, str(unit), 1)
    return replace(row, figure=replace(row.figure, name=name, write=unit.display_usd))


def _lacks(row: FigureRow, run: Run) -> bool:
    return row.name == COST and run.cost_usd is None


def _address(runs: Sequence[Run]) -> str:
    query = urlencode([("run", str(run.pk)) for run in runs])
    return f"{reverse('dashboard:compare')}?{query}"
