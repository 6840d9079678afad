"""Regressions as rows: since when, what they cost, and what ended them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import groupby
from uuid import UUID

from django.utils import timezone

from advisor.money import rounded_usd
from advisor.successive.judged_run import JudgedRun
from webapp.analysis.circumstances import worked
from webapp.analysis.models import AcceptedLevel, Regression
from webapp.runs.models import Job, Run


@dataclass(frozen=True)
class _Episode:
    """The judged runs of one regression, from its first run; `ended` is the run that ended it."""

    runs: Sequence[tuple[Run, JudgedRun]]
    confirmed_by: Run
    change: float
    ended: Run | None
    is_accepted: bool

    @property
    def since(self) -> Run:
        return self.runs[0][0]

    @property
    def last(self) -> Run:
        return self.runs[-1][0]


def save(runs: Sequence[Run], judged_runs: Sequence[JudgedRun]) -> None:
    """Write the regressions of comparable runs; rows that no longer hold go."""
    judged = list(zip(runs, judged_runs, strict=True))
    kept = [_save(episode) for episode in _episodes(judged, _accepted(runs))]
    Regression.objects.filter(since__in=runs).exclude(pk__in=kept).delete()


def drop_others(job: Job, looked_at: Sequence[Run]) -> None:
    """Delete the regressions since runs that are no longer compared. One that began before the
    first run that is looked at stays until a later run of it is accepted."""
    others = Regression.objects.filter(job=job).exclude(since__in=looked_at)
    earlier = others.filter(since__state=Run.FINISHED, since__is_excluded=False)
    if not looked_at:
        others.delete()
        return
    first = looked_at[0].began_at
    others.exclude(pk__in=earlier.filter(since__started_at__lt=first)).delete()
    if _accepted(looked_at):
        others.update(is_accepted=True)


def _accepted(runs: Sequence[Run]) -> set[UUID]:
    rows = AcceptedLevel.objects.filter(run__in=runs)
    return set(rows.values_list("run_id", flat=True))


def _episodes(
    judged: Sequence[tuple[Run, JudgedRun]], accepted: Collection[UUID]
) -> Iterator[_Episode]:
    places = {run.number: at for at, (run, _) in enumerate(judged)}
    for since, group in groupby(range(len(judged)), key=lambda at: _since(judged[at][1])):
        if since is None:
            continue
        at, *more = group
        last = more[-1] if more else at
        regression = judged[last][1].regression
        following = judged[last + 1] if last + 1 < len(judged) else None
        if regression is not None:
            yield _Episode(
                runs=judged[places[since] : last + 1],
                confirmed_by=judged[at][0],
                change=regression.change,
                ended=following[0] if following and following[1].ended else None,
                is_accepted=judged[last][0].pk in accepted,
            )


def _since(judged: JudgedRun) -> int | None:
    return None if judged.regression is None else judged.regression.since


def _save(episode: _Episode) -> int:
    since, is_over = episode.since, episode.ended is not None or episode.is_accepted
    facts = {
        "job": since.job,
        "confirmed_by": episode.confirmed_by,
        "last": episode.last,
        "ended_by": episode.ended,
        "is_accepted": episode.is_accepted,
        "change": episode.change,
        "run_count": len(episode.runs),
        "extra_usd": _extra_usd(episode.runs),
    }
    row, _ = Regression.objects.update_or_create(
        since=since,
        defaults=facts,
    )
    if is_over != (row.ended_at is not None):
        row.ended_at = timezone.now() if is_over else None
        row.save(update_fields=["ended_at"])
    return row.pk


def _extra_usd(runs: Sequence[tuple[Run, JudgedRun]]) -> Decimal | None:
    """What the runs cost more than at the level before. Runs without a price are left out; None:
    all are."""
    priced = [(run, judged.change) for run, judged in runs if judged.change is not None]
    extra = [_more_usd(run.cost_usd, run, change) for run, change in priced if run.cost_usd]
    return sum(extra, Decimal(0)) if extra else None


def _more_usd(cost_usd: Decimal, run: Run, change: float) -> Decimal:
    """Of the part of its cost that grows with the work, what wouldn't have been without the
    change."""
    growing = Fraction(cost_usd) * Fraction(worked(run).loop_share or 1.0)
    return rounded_usd(growing * Fraction(change) / (1 + Fraction(change)))
