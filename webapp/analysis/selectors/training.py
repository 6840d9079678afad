"""A training: its attempts on one axis, its ledger, and the two figures that summarise it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from django.db.models import Count, Max, Q, Sum

from advisor.costing.training import Attempt as Counted
from advisor.costing.training import LabelCost, TrainingLedger, training_ledger
from advisor.costing.training_metrics import MetricCurve
from rules.slowdown import StepStretch, slowdown_share
from rules.step_ranges import count_distinct_steps, lost_count, select_counted_steps
from webapp.analysis.models import Analysis, LedgerEntry, NumberedSteps
from webapp.analysis.selectors.failures import FailureTable, failures_of_runs
from webapp.analysis.selectors.ledger import EFFECTIVE, LedgerView, view_of
from webapp.analysis.selectors.training_metrics import curves_of
from webapp.analysis.trainings import numbered_steps
from webapp.analysis.trainings.times import moment, unix_us
from webapp.runs import trainings
from webapp.runs.models import Attempt, Run, Session, Training

WIDTH = 1000
"""The width of the axis on which attempts are drawn."""
KINDS = {
    "start": ("initialise", "compile", "first_steps", "restart"),
    "restore": ("restore",),
    "lost": ("lost",),
}
"""The parts that are drawn of an attempt, in this order, with the work in between; the rest is
work."""
LARGE = ("metrics", "workload", "parameters")
"""Columns of runs that aren't shown."""


@dataclass(frozen=True)
class AttemptStretch:
    """A stretch of an attempt's bar."""

    kind: str
    x: float
    width: float


@dataclass(frozen=True)
class AttemptLine:
    run: Run
    number: int
    """The attempt's number within the training, from 1."""
    began: datetime
    ended: datetime
    usd: Decimal | None
    lost_seconds: float
    """The lost seconds of GPUs, or of nodes without GPUs."""
    waited: timedelta | None
    """The time since the end of the attempts before, without a machine; None for the first
    attempt."""
    pieces: tuple[AttemptStretch, ...]

    @property
    def length(self) -> timedelta:
        return self.ended - self.began


@dataclass(frozen=True)
class TrainingView:
    training: Training | None
    """The training's row; None for a run that is a training of its own."""
    runs: list[Run]
    """The runs in the order of their starts; never empty."""
    attempts: list[AttemptLine]
    figures: TrainingLedger
    ledger: LedgerView | None
    """The ledger; None if nothing is measured yet."""
    slowdown: float | None
    """Share of the effective time above the best pace; None for too few steps."""
    steps: int | None
    """The number of different steps that count; None if none are known of some run."""
    lost_steps: int | None
    """The number of lost steps; None if none are known of some run."""
    is_unknown: bool
    """Some attempt resumed at an unknown step, so lost work may be missing."""
    curves: list[MetricCurve]
    """The curves of each metric whose better direction is known."""
    failures: FailureTable
    is_provisional: bool
    """True while the training isn't over, or some run of it is still to be counted again."""

    @property
    def name(self) -> str:
        if self.training is not None and self.training.key:
            return self.training.key
        return str(self.runs[0])

    @property
    def usd(self) -> Decimal | None:
        return self.figures.usd

    @property
    def waiting(self) -> timedelta:
        """The time between attempts in which no machine was held."""
        return timedelta(microseconds=sum(wait.microseconds for wait in self.figures.waits))

    @property
    def slowdown_seconds(self) -> float | None:
        return None if self.slowdown is None else self.slowdown * self.seconds(EFFECTIVE)

    @property
    def usd_per_step(self) -> Decimal | None:
        """Return the cost of a step that counts. Lost steps are paid for, but aren't counted as
        work.
        """
        return self.usd / self.steps if self.usd is not None and self.steps else None

    @property
    def goodput(self) -> float | None:
        return _float(self.figures.goodput)

    @property
    def effective_share(self) -> float | None:
        return _float(self.figures.effective_share)

    def seconds(self, label: str) -> float:
        return sum(p.microseconds for p in self.figures.parts if p.label == label) / 1e6


def training_of(run: Run) -> TrainingView:
    """Return the training that the run is a part of."""
    runs = list(trainings.runs_with(run).select_related("job", "training").defer(*LARGE))
    steps = list(NumberedSteps.objects.filter(run__in=runs))
    ranges = [each for row in steps for each in row.step_ranges]
    counted = select_counted_steps(ranges)
    attempts, is_of_gpus = _attempts(runs)
    figures = training_ledger([each for _, each in attempts])
    blocks = [StepStretch(*each) for row in steps for each in row.blocks]
    is_counted = len(steps) == len(runs)
    return TrainingView(
        training=runs[0].training,
        runs=runs,
        attempts=_lines(attempts),
        figures=figures,
        ledger=view_of(figures.parts, is_of_gpus=is_of_gpus),
        slowdown=slowdown_share(blocks),
        steps=count_distinct_steps(ranges, counted) if is_counted else None,
        lost_steps=lost_count(ranges, counted) if is_counted else None,
        is_unknown=any(row.is_unknown for row in steps) or not all(k.is_known for k in counted),
        curves=curves_of(runs, [each for _, each in attempts]),
        failures=failures_of_runs(runs),
        is_provisional=_is_provisional(runs, steps),
    )


def _is_provisional(runs: list[Run], steps: list[NumberedSteps]) -> bool:
    """Return whether the training isn't over: its last run hasn't finished, or some run is to be
    counted again.
    """
    analysed = Analysis.objects.filter(run__in=runs, is_final=True).count()
    is_over = runs[-1].state == Run.FINISHED and analysed == len(runs)
    return not is_over or numbered_steps.differs(steps)


def _attempts(runs: list[Run]) -> tuple[list[tuple[Attempt, Counted]], bool]:
    """Return the attempts that held a machine, in the order of their starts, and whether time is of
    GPUs.
    """
    held: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for session in Session.objects.filter(node__attempt__run__in=runs).select_related("node"):
        start, end = session.interval
        held[session.node.attempt_id].append((unix_us(start), unix_us(end)))
    parts: dict[int, list[LabelCost]] = defaultdict(list)
    sums = (
        LedgerEntry.objects.filter(run__in=runs)
        .order_by()
        .values_list("node__attempt", "label")
        .annotate(
            Sum("microseconds"), Sum("usd"), unpriced=Count("pk", filter=Q(usd=None)), g=Max("gpu")
        )
    )
    is_of_gpus = False
    for attempt, label, microseconds, usd, unpriced, gpu in sums:
        parts[attempt].append(LabelCost(label, microseconds, None if unpriced else usd))
        is_of_gpus = is_of_gpus or gpu is not None
    known = {run.pk: run for run in runs}
    found = []
    for attempt in Attempt.objects.filter(run__in=runs, pk__in=held):
        attempt.run = known[attempt.run_id]
        found.append((attempt, Counted(tuple(sorted(held[attempt.pk])), tuple(parts[attempt.pk]))))
    return sorted(found, key=lambda pair: pair[1].held_us), is_of_gpus


def _lines(attempts: list[tuple[Attempt, Counted]]) -> list[AttemptLine]:
    spans = [_span(counted) for _, counted in attempts]
    low, high = min((s for s, _ in spans), default=0), max((e for _, e in spans), default=0)
    scale = WIDTH / max(high - low, 1)
    lines, reached = [], None
    for number, ((attempt, counted), (start, end)) in enumerate(
        zip(attempts, spans, strict=True), 1
    ):
        whole = training_ledger([counted])
        lines.append(
            AttemptLine(
                run=attempt.run,
                number=number,
                began=moment(start),
                ended=moment(end),
                usd=whole.usd,
                lost_seconds=sum(p.microseconds for p in whole.parts if p.label == "lost") / 1e6,
                waited=None if reached is None else timedelta(microseconds=max(start - reached, 0)),
                pieces=_pieces(whole, (start - low) * scale, (end - start) * scale),
            )
        )
        reached = end if reached is None else max(reached, end)
    return lines


def _pieces(whole: TrainingLedger, x: float, width: float) -> tuple[AttemptStretch, ...]:
    """Return the bar of one attempt: it starts, loads its checkpoint, works, and what it did last
    is what may be lost.
    """
    times = {part.label: part.microseconds for part in whole.parts}
    total = sum(times.values())
    if not total:
        return (AttemptStretch("work", round(x, 1), round(max(width, 1.0), 1)),)
    shares = {kind: sum(times.get(n, 0) for n in labels) for kind, labels in KINDS.items()}
    shares["work"] = total - sum(shares.values())
    found = []
    for kind in ("start", "restore", "work", "lost"):
        length = width * float(Fraction(shares[kind], total))
        if length > 0:
            found.append(AttemptStretch(kind, round(x, 1), round(length, 1)))
        x += length
    return tuple(found)


def _span(counted: Counted) -> tuple[int, int]:
    return min(s for s, _ in counted.held_us), max(e for _, e in counted.held_us)


def _float(share: Fraction | None) -> float | None:
    return None if share is None else float(share)
