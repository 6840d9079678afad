"""The comparison page: the advisor's text, and the data for the charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

from django.urls import reverse

from advisor.comparison.compare import Comparison, MetricRow
from advisor.comparison.rows import COST, COST_PER, NOTHING, WITHOUT_START_UP
from advisor.store.step_series import DATA_WAIT, STEP
from webapp.analysis.selectors.comparison import ComparedRuns, compare_runs
from webapp.analysis.selectors.work import common_unit
from webapp.dashboard.selectors.charts import Chart, ChartLine
from webapp.dashboard.selectors.waterfall import Bar, waterfall
from webapp.runs.models import Node, Run

MOST_GPUS = 16
ARROWS = {"−": "▼", "+": "▲"}
CHARTS = (
    Chart("cpu", "CPU busy", "pct", (ChartLine("host.cpu_busy_pct", ""),), 100),
    Chart("step", "Step time", "seconds", (ChartLine(STEP, ""),)),
    Chart("wait", "Data wait of a step", "seconds", (ChartLine(DATA_WAIT, ""),)),
    Chart("memory", "Memory in use", "bytes", (ChartLine("host.memory_used_bytes", ""),)),
    Chart("disk", "Disk read", "bytes/s", (ChartLine("disk.read_bytes_total", ""),)),
)


@dataclass(frozen=True)
class Figure:
    """One line of the table. The arrow shows the direction, `tone` whether it is good."""

    name: str
    a: str
    b: str
    change: str
    tone: str
    arrow: str
    is_training_metric: bool = False

    @property
    def is_cost(self) -> bool:
        return self.name == COST


@dataclass(frozen=True)
class ComparePage:
    """Page of a comparison. `gpu_count` is that of the node with the most GPUs."""

    compared: ComparedRuns
    gpu_count: int

    @property
    def result(self) -> Comparison:
        return self.compared.result

    @property
    def runs(self) -> tuple[Run, Run]:
        return self.compared.a, self.compared.b

    @cached_property
    def bars(self) -> list[Bar]:
        """Return the bars; empty if the difference can't be split by cause."""
        a, b = self.runs
        if self.result.attribution is None or a.cost_usd is None or b.cost_usd is None:
            return []
        return waterfall(
            (self._name(a), a.cost_usd),
            [(term.name, term.usd) for term in self.result.attribution],
            (self._name(b), b.cost_usd),
        )

    @cached_property
    def unchanged(self) -> list[tuple[str, object]]:
        """Settings that are equal in both runs."""
        changed = {change.name for change in self.result.configuration_changes}
        return [(name, v) for name, v in self.result.a.settings.items() if name not in changed]

    @property
    def basis(self) -> str:
        """The price bases of both costs."""
        bases = dict.fromkeys([self.result.a.basis, self.result.b.basis])
        return " and ".join("list price" if basis == "list" else basis for basis in bases)

    @property
    def rows(self) -> list[Figure]:
        return [self._figure(row) for row in self.result.metrics]

    def chart_document(self) -> dict[str, Any]:
        return chart_document([(run, self._name(run)) for run in self.runs], self.gpu_count)

    @property
    def is_partial(self) -> bool:
        return not all(each.is_complete for each in self.compared.completeness)

    @cached_property
    def _per_unit(self) -> dict[str, tuple[Decimal | None, Decimal | None]]:
        """Return the rows with a cost per unit of work, and the costs of both runs."""
        work = self.result.per_work
        name = COST_PER + work.unit.removesuffix("s")
        growing = work.a_growing_usd, work.b_growing_usd
        return {name: (work.a_usd, work.b_usd), name + WITHOUT_START_UP: growing}

    def _figure(self, row: MetricRow) -> Figure:
        """Return the figure of a row. A cost per unit is written for a readable amount of it."""
        arrow = ARROWS.get(row.change[:1], "")
        unit = common_unit(self.runs)
        costs = self._per_unit.get(row.name)
        if unit is None or unit.unit != self.result.per_work.unit or costs is None:
            is_metric = row.is_training_metric
            return Figure(row.name, row.a, row.b, row.change, row.tone, arrow, is_metric)
        a, b = (NOTHING if usd is None else unit.display_usd(usd) for usd in costs)
        name = row.name.replace(unit.singular, str(unit), 1)
        return Figure(name, a, b, row.change, row.tone, arrow)

    def _name(self, run: Run) -> str:
        is_plain = self.compared.are_of_one_job
        return f"#{run.number}" if is_plain else f"{run.job.name} #{run.number}"


def compare_page(a: Run, b: Run) -> ComparePage:
    return ComparePage(compare_runs(a, b), gpu_count([a, b]))


def gpu_count(runs: Sequence[Run]) -> int:
    """Return the number of GPUs of the node with the most."""
    nodes = Node.objects.filter(attempt__run__in=runs)
    return max((len(node.gpus) for node in nodes), default=0)


def chart_document(named: Sequence[tuple[Run, str]], gpus: int) -> dict[str, Any]:
    """Return the runs, and the series to request for each."""
    drawn = [*_gpu_charts(gpus), *CHARTS]
    return {
        "runs": [_drawn(run, name) for run, name in named],
        "charts": [chart.document() for chart in drawn],
    }


def _gpu_charts(count: int) -> list[Chart]:
    """Return the charts of all GPUs as one line: the browser draws the mean of a chart's series."""
    if not count:
        return []
    lines = tuple(ChartLine(f"gpu{i}.busy_pct", "") for i in range(min(count, MOST_GPUS)))
    return [Chart("gpu", "GPU busy", "pct", lines, 100)]


def _drawn(run: Run, name: str) -> dict[str, Any]:
    return {
        "label": name,
        "address": reverse("runs:series_json", args=[run.pk]),
        "length_seconds": run.duration.total_seconds() if run.duration else 0.0,
    }
