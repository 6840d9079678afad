"""The complete runs of a job, as the proof of its recommendations reads them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import Any
from uuid import UUID

from django.db.models import Q

from advisor.advice.precision import MEASURED_PRECISION
from advisor.pricing.book import PriceBook
from advisor.proof.runs import CompleteRun
from advisor.successive.history import MOST_BASELINE
from webapp.analysis.models import Judgement
from webapp.analysis.pricing import machine_uses
from webapp.analysis.successive import circumstances
from webapp.measurements.selectors.evidence import measured_precisions
from webapp.prices.book import price_book
from webapp.runs.models import Job, Node, Run, RunQuerySet, began

MOST_RUNS = 1500
"""The most runs that are looked at, the newest first."""


def complete_runs(job: Job) -> RunQuerySet:
    """Return the finished runs whose analysis is final, without excluded ones and probes. A part of
    a run proves nothing.
    """
    done = Q(analysis=None) | Q(analysis__is_final=True)
    found = job.compared_runs.filter(done, state=Run.FINISHED, is_excluded=False)
    return found.defer("command", "git", "metric_progress", "note")


def runs_since(job: Job, since: datetime) -> list[Run]:
    """Return the job's complete runs since then and a baseline before, in order of time."""
    later = complete_runs(job).alias(began=began()).filter(began__gte=since)
    runs = list(later.newest_first()[:MOST_RUNS])[::-1]
    if not runs or len(runs) == MOST_RUNS:
        return runs
    before = complete_runs(job).began_before(runs[0]).newest_first()[:MOST_BASELINE]
    return [*list(before)[::-1], *runs]


def evidence_runs(
    runs: Sequence[Run], rules: Collection[str], knows_place: bool = False
) -> list[CompleteRun]:
    """Return the runs with the states of the named rules, and the precision that was measured as a
    setting. `knows_place`: see `configurations`.
    """
    states: dict[UUID, dict[str, str]] = defaultdict(dict)
    judged = Judgement.objects.filter(run__in=runs, rule__in=rules) if rules else ()
    for row in judged:
        states[row.run_id][row.rule] = row.state
    precisions = {
        pk: {MEASURED_PRECISION: precision} for pk, precision in measured_precisions(runs).items()
    }
    known = configurations(runs) if knows_place else {}
    return [
        CompleteRun(
            number=run.number,
            at=run.began_at,
            workload_key=run.summary.workload_key,
            configuration_key=run.summary.configuration_key,
            configuration=known.get(run.pk, run.configuration) | precisions.get(run.pk, {}),
            worked=circumstances.machine_work_of(run),
            cost_usd=run.cost_usd,
            usd_per_hour=run.summary.usd_per_hour,
            rules=states[run.pk],
            results=run.metrics,
        )
        for run in runs
        if not run.summary.too_large
    ]


def configurations(runs: Sequence[Run]) -> dict[UUID, dict[str, Any]]:
    """Return the configurations with the region and service of the machines, which stored ones
    don't have: by them alone runs stay comparable.
    """
    first = Node.objects.filter(attempt__run__in=runs, number=1).select_related("attempt")
    keys = {node.attempt.run_id: machine_uses.price_key(node) for node in first}
    return {
        run.pk: run.configuration | {"region": keys[run.pk].region, "service": keys[run.pk].service}
        for run in runs
        if run.pk in keys
    }


class Prices:
    """Prices of the machines of a job's runs at other times. Rows are read only if needed."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._nodes: dict[int, Node | None] = {}

    def __call__(self, run: CompleteRun, at: datetime) -> Decimal | None:
        """Return the USD per hour of a node, or None without a price."""
        node = self._node(run.number)
        if node is None:
            return None
        priced = self._book.price_at(machine_uses.price_key(node), at)
        return priced.row.usd_per_hour if priced else None

    def _node(self, number: int) -> Node | None:
        if number not in self._nodes:
            own = Node.objects.filter(attempt__run__job=self._job, attempt__run__number=number)
            self._nodes[number] = own.order_by("number").first()
        return self._nodes[number]

    @cached_property
    def _book(self) -> PriceBook:
        nodes = Node.objects.filter(attempt__run__job=self._job)
        regions = nodes.order_by().values_list("region", flat=True).distinct()
        return price_book(self._job.workspace, set(regions))
