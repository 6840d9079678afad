"""Compares each finished run of a job with the comparable ones before it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any, TypedDict

from advisor.comparison.work import UNITS
from advisor.run_summary import SuccessiveVerdict
from advisor.successive.causes import Measured, causes
from advisor.successive.history import JudgedRun, Observation, judge_runs
from advisor.successive.wording import sentence
from advisor.successive.workload_keys import configuration_key, workload_key
from webapp.runs.models import Job, Run

LOOKED_AT = 300
"""The number of the job's newest runs that are searched for comparable ones."""


class ComparisonKeys(TypedDict):
    """Runs with the same keys are compared; as `RunSummary` has them."""

    workload_key: str
    configuration_key: str


def keys(run: Run) -> ComparisonKeys:
    return {
        "workload_key": workload_key(run.workload, run.parameters),
        "configuration_key": configuration_key(run.configuration),
    }


def judge(run: Run) -> None:
    """Write the verdict on a finished run, on the run before it, which it confirms or clears, and
    on any runs after it. Call in a transaction, after its figures are saved."""
    comparable = [each for each in _comparable(run.job) if _keys(each) == _keys(run)]
    if run in comparable:
        _judge_from(comparable, comparable.index(run))


def judge_again(job: Job, since: datetime, **_: Any) -> None:
    """Write the verdicts on a job's runs from `since` on, after a change in which runs are
    compared. A run that is no longer compared has none. Call in a transaction."""
    alike: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in _comparable(job):
        alike[_keys(run)].append(run)
    for runs in alike.values():
        _judge_from(runs, sum(run.began_at < since for run in runs))
    for run in job.present_runs.filter(is_excluded=True, summary__verdict__isnull=False):
        _write(run, None)


def _judge_from(comparable: Sequence[Run], first: int) -> None:
    """Write verdicts on runs with the same keys, in order: from `first` on, and on the run before
    it, which they confirm or clear."""
    unit = next((u for u in UNITS if all(run.work.get(u) for run in comparable)), None)
    if unit is None:
        return
    price = comparable[-1].summary.usd_per_hour
    judged_runs = judge_runs(_observation(each, unit, price) for each in comparable)
    judgements = {held.number: held for held in judged_runs}
    for at in range(max(first - 1, 0), len(comparable)):
        each = comparable[at]
        if each.number in judgements:
            held = judgements[each.number]
            _write(each, _stored(held, unit, each, comparable[:at]))


def _comparable(job: Job) -> list[Run]:
    """The newest finished, priced runs in order, without excluded ones."""
    done = job.present_runs.filter(state=Run.FINISHED, cost_usd__gt=0, is_excluded=False)
    newest = done.newest_first().defer("command", "git", "metric_progress")
    return list(reversed(newest[:LOOKED_AT]))


def _keys(run: Run) -> tuple[str, str]:
    return run.summary.workload_key, run.summary.configuration_key


def _observation(run: Run, unit: str, price: Decimal | None) -> Observation:
    """Cost per unit at the newest run's price, so that a price cut doesn't count as an
    improvement."""
    own, cost_usd = run.summary.usd_per_hour, run.cost_usd or Decimal(0)
    at_one_price = cost_usd * price / own if price and own else cost_usd
    value = float(at_one_price) / run.work[unit]
    return Observation(run.number, value, run.is_pinned)


def _stored(held: JudgedRun, unit: str, run: Run, before: Sequence[Run]) -> SuccessiveVerdict:
    comparison = held.comparison
    moved = causes([_measured(b, unit) for b in before[-10:]], _measured(run, unit))
    return SuccessiveVerdict(
        status=held.status,
        rung=comparison.rung,
        direction=comparison.direction,
        since=held.since,
        unit=unit,
        baseline_runs=comparison.baseline_runs,
        change=comparison.change,
        expected_usd=comparison.expected,
        low_usd=comparison.low,
        high_usd=comparison.high,
        detects=comparison.detects,
        sentence=sentence(held, unit.removesuffix("s")),
        causes=[cause.words for cause in moved] if comparison.is_significant and before else [],
    )


def _measured(run: Run, unit: str) -> Measured:
    per_unit = {name: s / run.work[unit] for name, s in run.summary.phase_seconds.items()}
    return Measured(per_unit, vars(run.summary))


def _write(run: Run, verdict: SuccessiveVerdict | None) -> None:
    """Writes `Run.summary`, which lists show. The row may belong to another run than the analysed
    one."""
    if run.summary.verdict == verdict:
        return
    row = Run.objects.select_for_update(of=("self",), no_key=True).get(pk=run.pk)
    row.summary = replace(row.summary, verdict=verdict)
    row.save(update_fields=["summary"])
