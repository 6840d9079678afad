"""Keeps the measurement of each analysed run and probe."""

from __future__ import annotations

from typing import Any

from advisor.probing.loop_speed import LoopSpeed
from webapp.analysis.outcome import FollowUp, Outcome
from webapp.measurements.models import Measurement
from webapp.measurements.selectors.evidence import predicted_ratio
from webapp.runs.models import Run


def prepare(outcome: Outcome) -> FollowUp:
    """Of a probe also what was predicted before it was measured."""
    speed = outcome.measured.speed if outcome.measured and outcome.is_final else None
    if speed is None or not _counts(outcome.run):
        return _drop if outcome.is_final else lambda run: None
    columns = _columns(speed)
    if outcome.run.is_probe and (interval := predicted_ratio(outcome.run.job, speed)):
        columns["predicted_low"], columns["predicted_high"] = interval
    return lambda run: _save(run, columns)


def _counts(run: Run) -> bool:
    """A probe that was stopped after its steps measured them. So did a run that was stopped, but
    where and why it was stopped isn't known."""
    return run.state == Run.FINISHED or (run.is_probe and run.state == Run.STOPPED)


def _save(run: Run, columns: dict[str, Any]) -> None:
    """What was predicted first stays: later predictions know the measurement."""
    known = Measurement.objects.filter(run=run).first()
    if known is not None and known.predicted_low is not None:
        columns = {name: v for name, v in columns.items() if not name.startswith("predicted")}
    Measurement.objects.update_or_create(run=run, defaults=columns)


def _drop(run: Run) -> None:
    Measurement.objects.filter(run=run).delete()


def _columns(speed: LoopSpeed) -> dict[str, Any]:
    return {
        "throughput": speed.rate.value,
        "low": speed.rate.low,
        "high": speed.rate.high,
        "rel_sd": speed.rate.rel_sd,
        "unit": speed.unit,
        "steps": speed.steps,
        "warmup_steps": speed.warmup_steps,
        "batch": speed.batch,
        "precision": speed.precision,
        "gpu": speed.gpu,
        "gpus": speed.gpus,
        "util_pct": speed.util_pct,
        "gpu_memory_bytes": speed.gpu_memory_bytes,
        "host_memory_bytes": speed.host_memory_bytes,
        "data_wait_share": speed.data_wait_share,
        "pace": speed.pace,
    }
