"""The waste ledger of runs: time and money by label."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal

from django.db.models import Count, Q, QuerySet, Sum
from django.utils import timezone

from advisor.costing.training import LabelCost
from advisor.waste_words import LedgerPart
from rules.ledger import VERSION
from rules.ledger_labels import LABELS, NO_WASTE
from webapp.analysis.models import LedgerEntry
from webapp.runs.models import Job, Node, Run, began

JOB_DAYS = 30
BAR_WIDTH = 1000
EFFECTIVE = "effective"
IDLE = frozenset({"unused_gpu", "idle_tail", "hung", "gpu_idle", "unused_cores"})
"""The labels of time in which a machine was held and nothing ran."""
UNKNOWN = NO_WASTE - {EFFECTIVE}
MOSTLY = 0.95
WASTE_COLOURS = (
    ("unused_gpu", "gpu_idle", "idle_tail", "other_programs"),
    ("initialise", "compile", "restart", "restore"),
    ("data_stall", "communication", "unused_cores", "starved"),
    ("checkpoint", "evaluation", "epoch_gap", "first_steps"),
    ("hung", "lost", "throttled", "low_sm"),
)
"""Labels by colour, each in a shade of its own: a label looks the same wherever it is drawn."""
MEANINGS = {
    "effective": ("Effective", "useful training work", ""),
    "gap": ("No samples", "the agent sent no samples, so the use is unknown", ""),
    "unclassified": ("Unclassified", "paid for, but no sample shows what for", ""),
    "unused_gpu": ("Unused GPU", "paid for and never used", "unused_gpus"),
    "restore": ("Loading checkpoints", "a checkpoint was loaded", "slow_restart"),
    "initialise": ("Start-up", "before the first training step", "startup_breakdown"),
    "idle_tail": ("Idle at the end", "paid for after the last work", "idle_tail"),
    "hung": ("Hung", "no steps and no activity", "hung"),
    "restart": (
        "Restart",
        "from a process that ended to the one that replaced it",
        "slow_restart",
    ),
    "checkpoint": (
        "Checkpoints",
        "training waited while a checkpoint was written",
        "checkpoint_stalls",
    ),
    "evaluation": ("Evaluation", "between training steps", "evaluation_share"),
    "epoch_gap": ("Between epochs", "no steps after an epoch ended", "epoch_gaps"),
    "compile": ("Compilation", "compilation that the framework reported", ""),
    "first_steps": ("First steps", "what slow first steps took above the later level", ""),
    "lost": ("Lost work", "steps that were done again after a restart", "lost_work"),
    "data_stall": ("Waiting for data", "training waited for its next batch", "input_bound"),
    "communication": ("Communication", "between GPUs and nodes", ""),
    "throttled": ("Throttled", "slowed by heat or power", ""),
    "low_sm": ("Low SM activity", "GPU busy, but with few of its cores", "low_gpu_utilization"),
    "gpu_idle": ("Idle GPU", "held, and not busy", "low_gpu_utilization"),
    "starved": (
        "Starved",
        "ready to work, and waiting for a core that other programs or a quota held: run it where "
        "it gets its own",
        "",
    ),
    "other_programs": ("Other programs", "busy with something else than this run", ""),
    "unused_cores": ("Unused cores", "paid for and idle", "cpu_oversized"),
}
"""Label -> its title, its meaning, and the rule that examines it. Only ledgers before version 5
have `other_programs`."""


@dataclass(frozen=True)
class LedgerLine:
    """One label of the ledger. `seconds` are of GPUs, or of nodes without GPUs; `usd` is None
    without a price.
    """

    label: str
    seconds: float
    usd: Decimal | None
    share: float
    """Share of the whole cost, 0..1; of the whole time, if a part has no price."""
    x: float
    width: float
    """Width in a box that is BAR_WIDTH wide."""
    colour: str

    @property
    def name(self) -> str:
        return MEANINGS[self.label][0]

    @property
    def meaning(self) -> str:
        return MEANINGS[self.label][1]

    @property
    def rule(self) -> str:
        return MEANINGS[self.label][2]

    @property
    def is_waste(self) -> bool:
        return self.label not in NO_WASTE


@dataclass(frozen=True)
class LedgerView:
    """Ledger of a run, training or job. `lines` are work first, then waste by size, then unknown
    time.
    """

    lines: list[LedgerLine]
    is_of_gpus: bool
    is_of_earlier_version: bool = False
    """The labels had another meaning when the run was analysed."""

    @property
    def usd(self) -> Decimal | None:
        """Return the whole cost, or None if a part has no price."""
        return _sum(line.usd for line in self.lines)

    @property
    def waste_usd(self) -> Decimal | None:
        return _sum(line.usd for line in self.lines if line.is_waste)

    @property
    def used_usd(self) -> Decimal | None:
        """Return the cost of time in which something ran on the hardware, or may have: without idle
        time.
        """
        return _sum(line.usd for line in self.lines if line.label not in IDLE)

    @property
    def effective_usd(self) -> Decimal | None:
        return _sum(line.usd for line in self.lines if line.label == EFFECTIVE)

    @property
    def largest_waste(self) -> LedgerLine | None:
        """Return the largest waste, or None if nothing was wasted."""
        return next((line for line in self.lines if line.is_waste), None)

    @property
    def parts(self) -> list[LedgerPart]:
        return [LedgerPart(line.label, line.share, line.usd) for line in self.lines]

    @property
    def is_shared_by_cost(self) -> bool:
        """Return whether the lines' shares are of the cost; otherwise they are of the time."""
        return bool(self.usd)

    @property
    def waste_share(self) -> float:
        return sum(line.share for line in self.lines if line.is_waste)

    @property
    def unknown_share(self) -> float:
        """Return the share whose use is unknown: it may be waste."""
        return sum(line.share for line in self.lines if line.label in UNKNOWN)

    @property
    def is_unknown(self) -> bool:
        """Return whether the use of nearly all of it is unknown, so that no waste means nothing."""
        return self.largest_waste is None and self.unknown_share >= MOSTLY


def run_ledger(run: Run) -> LedgerView | None:
    """Return the run's ledger, or None if it isn't measured yet."""
    view = _view(LedgerEntry.objects.filter(run=run))
    is_earlier = run.summary.ledger_version < VERSION
    return replace(view, is_of_earlier_version=is_earlier) if view else None


def node_ledger(run: Run, node: Node) -> LedgerView | None:
    """Return the ledger of one node of the run, or None if it isn't measured yet."""
    view = _view(LedgerEntry.objects.filter(run=run, node=node))
    is_earlier = run.summary.ledger_version < VERSION
    return replace(view, is_of_earlier_version=is_earlier) if view else None


def view_of(parts: Iterable[LabelCost], *, is_of_gpus: bool) -> LedgerView | None:
    """Return the ledger of parts that were added up, one a label; None if there are none."""
    rows = [_Summed(part.label, part.microseconds, part.usd, is_of_gpus) for part in parts]
    return LedgerView(_lines(rows), is_of_gpus) if rows else None


def job_ledger(job: Job) -> LedgerView | None:
    """Return the ledger of the runs, without probes, that began in the last JOB_DAYS days; None:
    there are none.
    """
    since = timezone.now() - timedelta(days=JOB_DAYS)
    recent = job.compared_runs.alias(began=began()).filter(began__gte=since)
    return runs_ledger(recent)


def runs_ledger(runs: QuerySet[Run]) -> LedgerView | None:
    """Return the ledger of these runs together, or None if nothing was measured."""
    return _view(LedgerEntry.objects.filter(run__in=runs.order_by()))


@dataclass(frozen=True)
class _Summed:
    label: str
    microseconds: int
    usd: Decimal | None
    has_gpu: bool


def _view(entries: QuerySet[LedgerEntry]) -> LedgerView | None:
    rows = list(_summed(entries))
    return LedgerView(_lines(rows), any(row.has_gpu for row in rows)) if rows else None


def _summed(entries: QuerySet[LedgerEntry]) -> Iterator[_Summed]:
    sums = (
        entries.order_by()
        .values_list("label")
        .annotate(
            Sum("microseconds"),
            Sum("usd"),
            unpriced=Count("pk", filter=Q(usd=None)),
            gpus=Count("gpu"),
        )
    )
    for label, microseconds, usd, unpriced, gpus in sums:
        yield _Summed(label, microseconds, None if unpriced else usd, gpus > 0)


def _lines(rows: list[_Summed]) -> list[LedgerLine]:
    weights = _weights(rows)
    whole = sum(weights.values())
    passed, lines = Decimal(0), []
    for row in sorted(rows, key=lambda row: _place(row, weights)):
        weight = weights[row.label]
        share = float(weight / whole)
        line = LedgerLine(
            label=row.label,
            seconds=row.microseconds / 1e6,
            usd=row.usd,
            share=share,
            x=round(float(passed / whole) * BAR_WIDTH, 1),
            width=round(share * BAR_WIDTH, 1),
            colour=_COLOURS[row.label],
        )
        lines.append(line)
        passed += weight
    return lines


def _weights(rows: list[_Summed]) -> dict[str, Decimal]:
    """Return each label's cost, since an hour of one machine costs more than one of another; its
    time, if the cost isn't known.
    """
    costs = {row.label: row.usd for row in rows if row.usd is not None}
    times = {row.label: Decimal(row.microseconds) for row in rows}
    return costs if len(costs) == len(times) and any(costs.values()) else times


def _place(row: _Summed, weights: Mapping[str, Decimal]) -> tuple[int, Decimal]:
    """Return the line's place: work first, then waste by size, then what isn't known."""
    if row.label == EFFECTIVE:
        return 0, Decimal(0)
    if row.label in NO_WASTE:
        return 2, Decimal(LABELS.index(row.label))
    return 1, -weights[row.label]


def _colours() -> Iterator[tuple[str, str]]:
    for label in NO_WASTE:
        yield label, label
    for colour, labels in enumerate(WASTE_COLOURS, start=1):
        for shade, label in enumerate(labels, start=1):
            yield label, f"waste-{colour} shade-{shade}"


_COLOURS = dict(_colours())
"""Label -> the names of its colour and shade in style sheets."""


def _sum(amounts: Iterable[Decimal | None]) -> Decimal | None:
    known = list(amounts)
    return None if None in known else sum((usd for usd in known if usd is not None), Decimal(0))
