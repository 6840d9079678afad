"""Reads a job's measurements, and decides which of them are evidence for it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import median
from uuid import UUID

from django.db.models import QuerySet

from advisor.pricing.providers import machine_name
from advisor.probing.bootstrap import Rate
from advisor.probing.evidence import Ran, arguments, contradiction, varying_arguments, why_not
from advisor.probing.loop_speed import DEVICE_BUSY
from advisor.sizing.cpu import RatioInterval
from advisor.speed.knowledge import Knowledge
from advisor.speed.measurement import Measurement as Speed
from advisor.speed.measurement import Target
from advisor.speed.prediction import predict
from webapp.accounts.models import Workspace
from webapp.measurements import scope
from webapp.measurements.models import Measurement
from webapp.runs.models import Job, Run

LOOKED_AT = 50
"""The newest measurements of a job; of a workspace, ten times as many."""
KEPT_ALIKE = 3
"""The newest measurements of one configuration that are evidence."""
TENTH = 1.2816
"""Standard deviations of a normal distribution beyond which a tenth lies."""
RUN_TO_RUN = 0.02
"""Relative standard deviation between runs of the same work (the usual one of `successive.noise`),
which the steps of a single run don't show."""
UNREAD = ("metric_progress", "metrics", "git", "parameters", "configuration", "tags")


@dataclass(frozen=True)
class MeasurementEvidence:
    """A run's or probe's measurement beside the job's newest measured run."""

    row: Measurement
    rate: Rate
    ratio: Rate | None
    """The speed as a ratio to that run's; None if it isn't comparable."""
    refused_because: str
    """The reason why it isn't evidence for the job; empty if it is."""
    contradicts: str
    """The contradiction to what was predicted; empty if there is none."""
    is_reference: bool = False
    """True if it is that run's own measurement."""


def evidence_of(job: Job) -> list[MeasurementEvidence]:
    """Return the job's newest measurements, newest first."""
    return list(_judged(_rows(job)))


def evidence_with(job: Job, new: Measurement | None) -> list[MeasurementEvidence]:
    """Return the same as `evidence_of` once `new` is saved, in place of an earlier one of its
    run.
    """
    rows = _rows(job)
    if new is not None:
        rows = [row for row in rows if row.run_id != new.run_id]
        rows = sorted([*rows, new], key=_order, reverse=True)
    return list(_judged(rows))


def measurements_of(known: Iterable[MeasurementEvidence]) -> list[Speed]:
    """Return what the speed model may take as measured of a job: its newest measured run first,
    then comparable probes and its other runs. Empty if no run with a known GPU was measured.
    """
    return _speeds(known)


def machine_speeds(known: Iterable[MeasurementEvidence], present: str) -> dict[str, RatioInterval]:
    """Return, by instance type, the job's speed on as many machines of it, relative to those it
    runs on now.

    Args:
        present: their instance type. Without a measurement on it nothing can be compared.
    """
    rates: dict[tuple[str, int], list[Rate]] = defaultdict(list)
    for each in known:
        if each.row.machine and not each.refused_because:
            rates[each.row.machine, each.row.node_count].append(each.rate)
    own = machine_name(present)
    nodes = next((count for machine, count in rates if machine == own), None)
    if nodes is None:
        return {}
    return {
        machine: _relative(alike[:KEPT_ALIKE], rates[own, nodes][0])
        for (machine, count), alike in rates.items()
        if count == nodes and machine != own
    }


def _relative(rates: Sequence[Rate], now: Rate) -> RatioInterval:
    """Return the ratio with an 80 % interval, the difference between runs included; of several
    measurements, from the lowest to the highest end.
    """
    ratios = [rate.value / now.value for rate in rates]
    spread = math.exp(
        TENTH * max(math.hypot(r.rel_sd, now.rel_sd, RUN_TO_RUN, RUN_TO_RUN) for r in rates)
    )
    return RatioInterval(min(ratios) / spread, median(ratios), max(ratios) * spread)


def history_of(workspace: Workspace, without: Job) -> list[Speed]:
    """Return what is measured of the workspace's other jobs."""
    rows = _read(scope.measurements_of_workspace(workspace)).exclude(run__job=without)
    by_job: dict[int, list[Measurement]] = defaultdict(list)
    for row in rows.exclude(gpu="")[: 10 * LOOKED_AT]:
        by_job[row.run.job_id].append(row)
    return [speed for own in by_job.values() for speed in _speeds(list(_judged(own)))]


def measured_precisions(runs: Sequence[Run]) -> dict[UUID, str]:
    """Return the precision of each run of which it is known."""
    rows = scope.measurements_of_runs(runs).exclude(precision="")
    return dict(rows.values_list("run_id", "precision"))


def predicted_ratio(new: Measurement) -> tuple[float, float] | None:
    """Return the 80 % interval of the speed on its GPUs as a ratio to the job's run, from what was
    known without it; None if nothing was predicted.
    """
    job = new.run.job
    known = measurements_of(evidence_of(job))
    if not known or not new.gpu or not new.gpus:
        return None
    others = Knowledge(history_of(job.workspace, without=job))
    predicted = predict(known, [Target(new.gpu, new.gpus)], others).speeds[0]
    return (predicted.low(), predicted.high()) if predicted.rung else None


def _order(row: Measurement) -> tuple[datetime, int]:
    return row.run.began_at, row.run.number


def _rows(job: Job) -> list[Measurement]:
    return list(_read(scope.measurements_of_job(job))[:LOOKED_AT])


def _read(rows: QuerySet[Measurement]) -> QuerySet[Measurement]:
    return rows.defer(*(f"run__{name}" for name in UNREAD))


def _judged(rows: Sequence[Measurement]) -> Iterator[MeasurementEvidence]:
    """Yield the evidence of one job, newest first."""
    ran = {row.pk: _ran(row) for row in rows}
    runs = [row for row in rows if not row.run.is_probe]
    free = varying_arguments([ran[row.pk].arguments for row in runs])
    reference = runs[0] if runs else None
    for row in rows:
        refused = "" if reference else "not comparable: no finished run of the job was measured"
        if reference and row.run.is_probe:
            asked = (row.run.probe or {}).get("gpus")
            refused = why_not(ran[row.pk], ran[reference.pk], asked, free)
        elif reference:
            refused = why_not(ran[row.pk], ran[reference.pk], free={*ran[row.pk].arguments, *free})
        yield _evidence(row, reference, refused)


def _evidence(row: Measurement, reference: Measurement | None, refused: str) -> MeasurementEvidence:
    rate = Rate(row.low, row.throughput, row.high, row.rel_sd)
    if reference is None or refused:
        return MeasurementEvidence(row, rate, None, refused, "")
    ratio = rate.times(1 / reference.throughput)
    contradicts = ""
    if row.predicted_low is not None and row.predicted_high is not None:
        contradicts = contradiction(ratio, row.predicted_low, row.predicted_high)
    return MeasurementEvidence(row, rate, ratio, "", contradicts, is_reference=row is reference)


def _ran(row: Measurement) -> Ran:
    entry_point = str(row.run.workload.get("entry_point", ""))
    return Ran(
        entry_point=entry_point,
        arguments=arguments(row.run.command, entry_point),
        unit=row.unit,
        batch=row.batch,
        precision=row.precision,
        gpus=row.gpus,
    )


def _speeds(found: Iterable[MeasurementEvidence]) -> list[Speed]:
    """Return the speeds, the reference first; probes have its batch and precision if these are
    equal but for rounding, or not known.
    """
    accepted = [each for each in found if not each.refused_because and each.row.gpu]
    runs = [each for each in accepted if not each.row.run.is_probe]
    if not runs:
        return []
    first = runs[0].row
    counts: dict[tuple[str, int, bool], int] = defaultdict(int)
    speeds = []
    for each in [runs[0], *(other for other in accepted if other is not runs[0])]:
        row = each.row
        alike = row.gpu, row.gpus, row.run.is_probe
        counts[alike] += 1
        if counts[alike] <= KEPT_ALIKE:
            speeds.append(_like(_speed(row), first))
    return speeds


def _speed(row: Measurement) -> Speed:
    return Speed(
        workload=str(row.run.job.uuid),
        gpu=row.gpu,
        throughput=row.throughput,
        precision=row.precision,
        batch=row.batch,
        gpus=max(1, row.gpus),
        util_pct=row.util_pct,
        util_kind=DEVICE_BUSY if row.util_pct is not None else "",
        probe_steps=row.steps if row.run.is_probe else None,
        rel_sd=math.hypot(row.rel_sd, RUN_TO_RUN),
    )


def _like(speed: Speed, reference: Measurement) -> Speed:
    batch = reference.batch if speed.gpus == max(1, reference.gpus) else speed.batch
    return replace(speed, batch=batch, precision=speed.precision or reference.precision)
