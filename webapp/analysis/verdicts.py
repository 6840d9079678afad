"""Judges each finished run of a job by the comparable ones before it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypedDict

from advisor.run_summary import SuccessiveVerdict
from advisor.successive.beside import beside
from advisor.successive.causes import Measured, causes
from advisor.successive.history import SAME, History, JudgedRun, Observation, judge_runs
from advisor.successive.machine_time import Quantity, quantity
from advisor.successive.noise import Prior
from advisor.successive.wording import effect_words, noise_words, sentence
from advisor.successive.workload_keys import configuration_key, workload_key
from webapp.analysis import circumstances, noise_prior, regressions
from webapp.analysis.models import AcceptedLevel
from webapp.runs.models import Job, Run

SECONDS_PER_HOUR = 3600
LOOKED_AT = 300
"""The number of the job's newest runs that are searched for comparable ones."""
USUAL = 10
"""The newest runs of a baseline, whose figures are the usual ones."""
FIXED_PHASES = ("initialise", "finalise")
"""Told beside the verdict, because they don't grow with the work."""


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
    """Write the verdict on a finished run, on those before it, which it confirms or clears, and on
    any runs after it. Call in a transaction, after its figures are saved."""
    comparable = [each for each in _comparable(run.job) if _keys(each) == _keys(run)]
    if run in comparable:
        _judge_alike(comparable)


def judge_again(job: Job, since: datetime, **_: Any) -> None:
    """Write the verdicts on a job's runs after a change in which runs are compared. A run that is
    no longer compared has none. Call in a transaction."""
    alike: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in _comparable(job):
        alike[_keys(run)].append(run)
    for runs in alike.values():
        _judge_alike(runs)
    regressions.drop_of_others(job, alike)
    excluded = job.present_runs.filter(is_excluded=True, summary__verdict__isnull=False)
    _write(dict.fromkeys(excluded))


def _judge_alike(comparable: Sequence[Run]) -> None:
    """Write verdicts on the runs with the same keys, in order, that tell the newest one's quantity,
    and the regressions among them. Verdicts that stay the same are not written."""
    measure = quantity(circumstances.worked(comparable[-1]))
    if measure is None:
        return
    values = {run.pk: measure.of(circumstances.worked(run)) for run in comparable}
    told = [run for run in comparable if values[run.pk] is not None]
    prior = noise_prior.of(told)
    history = judge_runs(_observations(told, measure), prior)
    alike = {run.number: run for run in told}
    verdicts = [
        replace(
            _stored(judged, measure, run, [alike[number] for number in judged.baseline]),
            prior_spread=prior.spread,
            prior_jobs=prior.jobs,
        )
        for run, judged in zip(told, history.judged_runs, strict=True)
    ]
    verdicts[-1] = _with_noise(verdicts[-1], history, prior)
    _write(dict(zip(told, verdicts, strict=True)))
    regressions.save(told, history.judged_runs)


def _comparable(job: Job) -> list[Run]:
    """The newest finished runs in order, without excluded ones."""
    done = job.present_runs.filter(state=Run.FINISHED, is_excluded=False)
    newest = done.newest_first().defer("command", "git", "metric_progress")
    return list(reversed(newest[:LOOKED_AT]))


def _keys(run: Run) -> tuple[str, str]:
    return run.summary.workload_key, run.summary.configuration_key


def _observations(runs: Sequence[Run], measure: Quantity) -> list[Observation]:
    machines = circumstances.machines(runs)
    accepted = set(AcceptedLevel.objects.filter(run__in=runs).values_list("run_id", flat=True))
    return [
        Observation(
            number=run.number,
            value=measure.of(circumstances.worked(run)) or 0.0,
            at=run.began_at,
            machine=machines.get(run.pk, ""),
            is_pinned=run.is_pinned,
            is_accepted=run.pk in accepted,
        )
        for run in runs
    ]


def _stored(
    judged: JudgedRun, measure: Quantity, run: Run, baseline: Sequence[Run]
) -> SuccessiveVerdict:
    unit, usual = measure.unit, baseline[-USUAL:]
    before = [_measured(each, unit) for each in usual] if judged.direction != SAME else []
    moved = causes(before, _measured(run, unit))
    return SuccessiveVerdict(
        status=judged.status,
        rung=judged.rung,
        direction=judged.direction,
        since=judged.since,
        unit=unit,
        baseline_runs=len(judged.baseline),
        change=judged.change,
        detects=judged.detects,
        sentence=sentence(judged, unit.removesuffix("s")),
        expected_seconds=judged.expected,
        low_seconds=judged.low,
        high_seconds=judged.high,
        expected_usd=_usd(run, judged.expected),
        low_usd=_usd(run, judged.low),
        high_usd=_usd(run, judged.high),
        regression_since=judged.regression.since if judged.regression else None,
        ended_since=judged.ended.since if judged.ended else None,
        causes=[cause.words for cause in moved],
        beside=beside([circumstances.of(each) for each in usual], circumstances.of(run)),
    )


def _usd(run: Run, seconds: float | None) -> float | None:
    price = run.summary.usd_per_hour
    return None if seconds is None or price is None else seconds * float(price) / SECONDS_PER_HOUR


def _with_noise(verdict: SuccessiveVerdict, history: History, prior: Prior) -> SuccessiveVerdict:
    return replace(
        verdict,
        noise=history.noise.spread,
        noise_freedom=history.noise.freedom,
        noise_words=noise_words(history.noise, prior),
        machines=[effect_words(effect) for effect in history.machine_effects],
    )


def _measured(run: Run, unit: str) -> Measured:
    phases = run.summary.phase_seconds.items()
    per_unit = {name: s / run.work[unit] for name, s in phases if name not in FIXED_PHASES}
    return Measured(per_unit, vars(run.summary))


def _write(verdicts: Mapping[Run, SuccessiveVerdict | None]) -> None:
    """Write `Run.summary`, which lists show, of the runs whose verdict changed. Their rows belong
    to other runs than the analysed one, and may have changed since they were read."""
    changed = {run.pk: v for run, v in verdicts.items() if run.summary.verdict != v}
    rows = Run.objects.select_for_update(of=("self",), no_key=True).filter(pk__in=changed)
    held = list(rows.order_by("pk").only("summary"))
    for row in held:
        row.summary = replace(row.summary, verdict=changed[row.pk])
    Run.objects.bulk_update(held, ["summary"], batch_size=100)
