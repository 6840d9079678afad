"""Judges each finished run of a job by the comparable ones before it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import Q

from advisor.phases import END, START
from advisor.run_summary import SuccessiveVerdict
from advisor.successive.beside import describe_changes
from advisor.successive.causes import RunFigures, causes
from advisor.successive.comparability import Role
from advisor.successive.history import MOST_BASELINE, JudgedHistory, judge_runs
from advisor.successive.judged_run import SAME, JudgedRun, Observation
from advisor.successive.machine_time import Quantity, quantity
from advisor.successive.noise import Prior
from advisor.successive.wording import effect_words, noise_words, period_words, sentence
from webapp.analysis.models import AcceptedLevel, Analysis
from webapp.analysis.scope import open_regressions_of
from webapp.analysis.signals import runs_judged
from webapp.analysis.successive import circumstances, comparability, noise_prior, regressions
from webapp.analysis.successive.comparability import Keys
from webapp.runs.models import Job, Run, RunQuerySet

SECONDS_PER_HOUR = 3600
LOOKED_AT, MOST_LOOKED_AT = 300, 1500
"""The number of the job's newest runs that are searched for comparable ones; more while a
regression is open, to hold the runs before it."""
USUAL = 10
"""The newest runs of a baseline, whose figures are the usual ones."""
FIXED_PHASES = (START, END)
"""The phases whose times are shown beside the verdict, because they don't grow with the work."""


def judge_run(run: Run) -> None:
    """Write the verdicts on a job's runs after this one was analysed. Call in a transaction, after
    its figures are saved."""
    rejudge_job(run.job, run)


def rejudge_job(job: Job, analysed: Run | None = None, **_: Any) -> None:
    """Write the verdicts on a job's runs, as far as they changed. A run that is no longer compared
    has none. Call in a transaction.

    Args:
        analysed: a run whose analysis is about to be final.
    """
    count = _looked_at(job)
    newest = _finished(job)[:count]
    is_whole = len(newest) < count
    runs = [run for run in reversed(newest) if run == analysed or not _is_awaited(run)]
    known = comparability.roles(runs, comparability.chosen_roles(job))
    alike: dict[Keys, list[Run]] = defaultdict(list)
    for run in runs:
        alike[comparability.keys(run, known)].append(run)
    results: dict[Run, tuple[Keys, SuccessiveVerdict | None]] = {}
    for key, own in alike.items():
        verdicts = _judged(own, is_whole=is_whole)
        if own[0] in verdicts and (why := _why_first(own[0], runs, known)):
            verdicts[own[0]] = replace(verdicts[own[0]], beside=[why])
        results |= {run: (key, verdicts.get(run)) for run in own}
    _write(results | _of_excluded(job))
    regressions.drop_others(job, runs)
    if analysed is None:
        runs_judged.send(sender=Job, job=job)


def _of_excluded(job: Job) -> dict[Run, tuple[Keys, SuccessiveVerdict | None]]:
    is_left_out = Q(is_excluded=True) | Q(probe__isnull=False)
    excluded = job.present_runs.filter(is_left_out, summary__verdict__isnull=False)
    return {run: (_stored_of(run)[0], None) for run in excluded}


def _judged(comparable: Sequence[Run], *, is_whole: bool) -> dict[Run, SuccessiveVerdict]:
    """Return the verdicts on runs that do the same work in the same way, in order, as far as they
    tell the newest one's quantity. Writes the regressions among them.

    Args:
        is_whole: there are no earlier runs of the job.
    """
    measure = quantity(circumstances.machine_work_of(comparable[-1]))
    if measure is None:
        return {}
    told = [
        run
        for run in comparable
        if measure.seconds_per_unit(circumstances.machine_work_of(run)) is not None
    ]
    prior = noise_prior.prior_of(told)
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
    regressions.save(told, history.judged_runs, measure, is_whole=is_whole)
    return dict(zip(told, verdicts, strict=True))


def _finished(job: Job) -> RunQuerySet:
    """Return the finished runs without probes and excluded ones, the newest first."""
    done = job.compared_runs.filter(state=Run.FINISHED, is_excluded=False).newest_first()
    return done.defer("command", "git", "metric_progress").select_related("analysis")


def _looked_at(job: Job) -> int:
    oldest = open_regressions_of(job).last()
    if oldest is None:
        return LOOKED_AT
    since_then = _finished(job).began_after(oldest.since).count() + 1
    return min(max(LOOKED_AT, since_then + MOST_BASELINE), MOST_LOOKED_AT)


def _is_awaited(run: Run) -> bool:
    """Return whether the run's figures are those of a look at a part of it. One that was judged
    before and is analysed again keeps its place.
    """
    analysis: Analysis | None = getattr(run, "analysis", None)
    return analysis is not None and not analysis.is_final and run.summary.verdict is None


def _why_first(first: Run, runs: Sequence[Run], known: Mapping[str, Role]) -> str:
    """Return what keeps the first run of its kind from being compared with the run before it."""
    at = runs.index(first)
    return comparability.why_not_compared(first, runs[at - 1], known) if at else ""


def _observations(runs: Sequence[Run], measure: Quantity) -> list[Observation]:
    machines = circumstances.machines(runs)
    zone = ZoneInfo(runs[0].job.workspace.time_zone)
    accepted = set(AcceptedLevel.objects.filter(run__in=runs).values_list("run_id", flat=True))
    return [
        Observation(
            number=run.number,
            value=measure.seconds_per_unit(circumstances.machine_work_of(run)) or 0.0,
            at=run.began_at.astimezone(zone),
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
        beside=describe_changes(
            [circumstances.circumstances_of(each) for each in usual],
            circumstances.circumstances_of(run),
        ),
    )


def _usd(run: Run, seconds: float | None) -> float | None:
    price = run.summary.usd_per_hour
    return None if seconds is None or price is None else seconds * float(price) / SECONDS_PER_HOUR


def _with_noise(
    verdict: SuccessiveVerdict, history: JudgedHistory, prior: Prior
) -> SuccessiveVerdict:
    return replace(
        verdict,
        noise=history.noise.spread,
        noise_freedom=history.noise.freedom,
        noise_words=noise_words(history.noise, prior),
        machines=[
            *map(effect_words, history.machine_effects),
            *map(period_words, history.period_effects),
        ],
    )


def _measured(run: Run, unit: str) -> RunFigures:
    phases = run.summary.phase_seconds.items()
    per_unit = {name: s / run.work[unit] for name, s in phases if name not in FIXED_PHASES}
    return RunFigures(per_unit, vars(run.summary))


def _write(results: Mapping[Run, tuple[Keys, SuccessiveVerdict | None]]) -> None:
    """Write `Run.summary`, which lists show, of the runs whose verdict changed. Their rows belong
    to other runs than the analysed one, and may have changed since they were read."""
    changed = {run.pk: result for run, result in results.items() if _stored_of(run) != result}
    rows = Run.objects.select_for_update(of=("self",), no_key=True).filter(pk__in=changed)
    held = list(rows.order_by("pk").only("summary"))
    for row in held:
        (work, configuration), verdict = changed[row.pk]
        row.summary = replace(
            row.summary, workload_key=work, configuration_key=configuration, verdict=verdict
        )
    Run.objects.bulk_update(held, ["summary"], batch_size=100)


def _stored_of(run: Run) -> tuple[Keys, SuccessiveVerdict | None]:
    summary = run.summary
    return (summary.workload_key, summary.configuration_key), summary.verdict
