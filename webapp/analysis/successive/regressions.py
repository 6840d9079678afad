"""Stores regressions: since when they exist, what they cost, and what ended them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import groupby
from uuid import UUID

from django.db.models import Exists, OuterRef
from django.utils import timezone

from advisor.money import rounded_usd
from advisor.successive.history import MOST_BASELINE
from advisor.successive.judged_run import JudgedRun
from advisor.successive.machine_time import Quantity
from webapp.analysis.models import AcceptedLevel, Regression
from webapp.analysis.successive.circumstances import machine_work_of
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


def save(
    runs: Sequence[Run], judged_runs: Sequence[JudgedRun], measure: Quantity, *, is_whole: bool
) -> None:
    """Write the regressions of comparable runs; rows that no longer hold go.

    Args:
        is_whole: there are no earlier runs of the job. If there are, the first of these runs don't
            tell whether one of them began a regression: its row stays.
    """
    judged = list(zip(runs, judged_runs, strict=True))
    kept = [_save(episode, measure) for episode in _episodes(judged, _accepted(runs))]
    told = runs if is_whole else runs[MOST_BASELINE:]
    Regression.objects.filter(since__in=told).exclude(pk__in=kept).delete()


def drop_others(job: Job, looked_at: Sequence[Run]) -> None:
    """Delete the regressions since runs that are no longer compared. One that began before the
    first run that is looked at stays until it is accepted."""
    others = Regression.objects.filter(job=job).exclude(since__in=looked_at)
    earlier = others.filter(since__state=Run.FINISHED, since__is_excluded=False)
    if not looked_at:
        others.delete()
        return
    first = looked_at[0].began_at
    others.exclude(pk__in=earlier.filter(since__started_at__lt=first)).delete()
    _settle_untold(job)


def _settle_untold(job: Job) -> None:
    """Settle the regressions about which these runs no longer tell anything: a person can accept
    them or open them again, too.
    """
    accepted = Exists(AcceptedLevel.objects.filter(run=OuterRef("last")))
    Regression.objects.filter(job=job, ended_by=None).update(is_accepted=accepted)


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


def _save(episode: _Episode, measure: Quantity) -> int:
    since, is_over = episode.since, episode.ended is not None or episode.is_accepted
    facts = {
        "job": since.job,
        "confirmed_by": episode.confirmed_by,
        "last": episode.last,
        "ended_by": episode.ended,
        "is_accepted": episode.is_accepted,
        "change": episode.change,
        "run_count": len(episode.runs),
        "extra_usd": _extra_usd(episode.runs, measure),
    }
    row, _ = Regression.objects.update_or_create(since=since, defaults=facts)
    if is_over != (row.ended_at is not None):
        row.ended_at = timezone.now() if is_over else None
        row.save(update_fields=["ended_at"])
    return row.pk


def _extra_usd(runs: Sequence[tuple[Run, JudgedRun]], measure: Quantity) -> Decimal | None:
    """Return what the runs cost more than at the level before. Runs without a price are left out;
    None if all are.
    """
    extra = [
        _more_usd(run.cost_usd, _judged_share(run, measure), judged.change)
        for run, judged in runs
        if run.cost_usd is not None and judged.change is not None
    ]
    return sum(extra, Decimal(0)) if extra else None


def _judged_share(run: Run, measure: Quantity) -> float:
    """Return the part of the run's time, and so of its cost, that was judged."""
    return (machine_work_of(run).loop_share or 1.0) if measure.is_loop else 1.0


def _more_usd(cost_usd: Decimal, share: float, change: float) -> Decimal:
    """Return the part of a judged cost that wouldn't exist without the change."""
    judged_usd, longer = Fraction(cost_usd) * Fraction(share), Fraction(change)
    return rounded_usd(judged_usd * longer / (1 + longer))
