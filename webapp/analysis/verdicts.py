"""Holds each finished run of a job against the comparable ones before it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from advisor.successive.causes import Measured, causes
from advisor.successive.history import Judged, Observation, judged
from advisor.successive.keys import configuration_key, workload_key
from advisor.successive.wording import sentence
from advisor.work import UNITS
from webapp.runs.models import Run

LOOKED_AT = 300
"""So many of the job's newest runs are searched for comparable ones."""


def keys(run: Run) -> dict[str, str]:
    """What a run must share with another to be held against it; kept in its summary."""
    return {
        "workload_key": workload_key(run.workload, run.parameters),
        "configuration_key": configuration_key(run.configuration),
    }


def judge(run: Run) -> None:
    """Write the verdict on a finished run, on the one before it, which it confirms or clears, and
    on those after it, if it came late. Call in a transaction, once its figures are saved."""
    comparable = _comparable(run)
    unit = next((u for u in UNITS if comparable and all(r.work.get(u) for r in comparable)), None)
    if unit is None or run not in comparable:
        return
    price = _price(comparable[-1])
    found = judged(_observation(each, unit, price) for each in comparable)
    first = max(comparable.index(run) - 1, 0)
    judgements = {held.number: held for held in found}
    for at in range(first, len(comparable)):
        each = comparable[at]
        if each.number in judgements:
            held = judgements[each.number]
            _write(each, _document(held, unit, each, comparable[:at]))


def _comparable(run: Run) -> list[Run]:
    """Finished, priced runs of the same keys up to the newest, in order; not the excluded ones."""
    own = {name: run.summary.get(name) for name in ("workload_key", "configuration_key")}
    done = run.job.present_runs.filter(state=Run.FINISHED, cost_usd__gt=0, is_excluded=False)
    return [
        each
        for each in reversed(done.newest_first().defer("command", "git")[:LOOKED_AT])
        if all(each.summary.get(name) == key for name, key in own.items())
    ]


def _price(run: Run) -> Decimal | None:
    rate = run.summary.get("usd_per_hour")
    return Decimal(rate) if rate else None


def _observation(run: Run, unit: str, price: Decimal | None) -> Observation:
    """Cost per unit at the newest run's price, so that a price cut is no improvement of the job."""
    own, cost_usd = _price(run), run.cost_usd or Decimal(0)
    at_one_price = cost_usd * price / own if price and own else cost_usd
    value = float(at_one_price) / run.work[unit]
    return Observation(run.number, value, run.is_pinned)


def _document(held: Judged, unit: str, run: Run, before: Sequence[Run]) -> dict[str, Any]:
    verdict = held.verdict
    told = causes([_measured(b, unit) for b in before[-10:]], _measured(run, unit))
    return {
        "status": held.status,
        "rung": verdict.rung,
        "direction": verdict.direction,
        "since": held.since,
        "unit": unit,
        "baseline_runs": verdict.baseline_runs,
        "change": verdict.change,
        "expected_usd": verdict.expected,
        "low_usd": verdict.low,
        "high_usd": verdict.high,
        "detects": verdict.detects,
        "sentence": sentence(held, unit.removesuffix("s")),
        "causes": [cause.words for cause in told] if verdict.is_significant and before else [],
    }


def _measured(run: Run, unit: str) -> Measured:
    phases = run.summary.get("phase_seconds") or {}
    return Measured({name: s / run.work[unit] for name, s in phases.items()}, run.summary)


def _write(run: Run, document: dict[str, Any]) -> None:
    """`Run.summary` is what lists show; the row may be another than the one just analysed."""
    row = Run.objects.select_for_update(of=("self",)).get(pk=run.pk)
    if row.summary.get("verdict") != document:
        row.summary["verdict"] = document
        row.save(update_fields=["summary"])
