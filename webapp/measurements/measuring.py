"""Keeps the measurement of each analysed run and probe."""

from __future__ import annotations

from django.forms import model_to_dict

from webapp.analysis.outcome import FollowUp, Outcome
from webapp.measurements.models import Measurement
from webapp.measurements.selectors.evidence import predicted_ratio
from webapp.runs.models import Run


def prepare(outcome: Outcome) -> FollowUp:
    """Return the follow-up that saves the measurement, of a probe also what was predicted before it
    was measured.
    """
    row = measurement_of(outcome)
    if row is None:
        return _drop if outcome.is_final else lambda run: None
    if outcome.run.is_probe and (interval := predicted_ratio(row)):
        row.predicted_low, row.predicted_high = interval
    return lambda run: _save(run, row)


def measurement_of(outcome: Outcome) -> Measurement | None:
    """Return the measurement that an outcome gives, not saved. None if too little of the run, or of
    its loop, is known.
    """
    speed = outcome.measured.speed if outcome.measured and outcome.is_final else None
    if speed is None or not _counts(outcome.run):
        return None
    return Measurement.from_run(outcome.run, outcome.nodes, speed)


def _counts(run: Run) -> bool:
    """Return whether the run counts. A probe that was stopped after its steps measured them. So did
    a run that was stopped, but where and why it was stopped isn't known.
    """
    return run.state == Run.FINISHED or (run.is_probe and run.state == Run.STOPPED)


def _save(run: Run, row: Measurement) -> None:
    """Save the measurement. What was predicted first stays: later predictions know the
    measurement.
    """
    columns = model_to_dict(row, exclude=("id", "run"))
    known = Measurement.objects.filter(run=run).first()
    if known is not None and known.predicted_low is not None:
        columns = {name: v for name, v in columns.items() if not name.startswith("predicted")}
    Measurement.objects.update_or_create(run=run, defaults=columns)


def _drop(run: Run) -> None:
    Measurement.objects.filter(run=run).delete()
