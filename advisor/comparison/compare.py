"""Compares two runs: the changes, the costs, and the result in one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from advisor.comparison import wording
from advisor.comparison.attribution import CostFactors, Term, attribute
from advisor.comparison.markdown import markdown
from advisor.comparison.quality import worse_in_b
from advisor.comparison.rows import MetricRow, metric_rows
from advisor.comparison.run_facts import FINISHED, RunFacts
from advisor.comparison.work import WHOLE_RUN, SharedWork, shared_work
from advisor.money import display_usd

__all__ = ["Change", "Comparison", "MetricRow", "RunFacts", "compare"]

MAY_CHANGE_RESULTS = ("batch", "precision", "dtype", "amp", "fp16", "bf16")
"""A setting with one of these words in its name may change what the model learns."""


@dataclass(frozen=True)
class Change:
    """A setting that differs; None: this run doesn't have it."""

    name: str
    a: Any
    b: Any


@dataclass(frozen=True)
class Comparison:
    """`a` is the earlier run, `b` the run compared with it."""

    a: RunFacts
    b: RunFacts
    sentence: str
    configuration_changes: tuple[Change, ...]
    metrics: tuple[MetricRow, ...]
    per_work: SharedWork
    attribution: tuple[Term, ...] | None
    """Adds up to `b`'s cost minus `a`'s; None if a cost or a factor isn't known."""
    warnings: tuple[str, ...]
    is_same_workload: bool
    is_same_work: bool
    """The same workload and the same amount of work."""
    saving_usd: Decimal | None
    """`a`'s cost minus `b`'s, signed; None if no saving can be claimed."""

    @property
    def why(self) -> str:
        """The causes of the difference in cost, in one sentence; empty: not known."""
        return wording.why(self.attribution)

    @property
    def exactly(self) -> str:
        """The calculation from `a`'s cost to `b`'s, to the nano-dollar; empty: not known."""
        return wording.exactly(self.a.cost_usd, self.b.cost_usd, self.attribution)

    @property
    def cost_change_pct(self) -> Decimal | None:
        """The change of the cost for the same work (a unit of it, or the whole run); None if
        unknown: no price, not finished, different workloads."""
        old, new = self.per_work.a_usd, self.per_work.b_usd
        are_finished = {self.a.state, self.b.state} == {FINISHED}
        if not (are_finished and self.is_same_workload) or not old or new is None:
            return None
        return 100 * (new / old - 1)

    def markdown(self) -> str:
        """Markdown for a pull request or an issue: the sentence, the changes, and collapsed
        figures."""
        return markdown(self)


def compare(a: RunFacts, b: RunFacts) -> Comparison:
    """Compare `b` with the earlier run `a`.

    A saving is claimed only for two finished, priced runs that did the same work, if the later
    results aren't worse.
    """
    changes = _changes(a, b)
    work = shared_work(a, b, batch_differs=any("batch" in change.name for change in changes))
    is_same_workload = not _workload_changes(a, b)
    is_same = is_same_workload and work.is_equal
    worse = worse_in_b(a.quality, b.quality)
    saving = _saving(a, b) if is_same and not worse else None
    return Comparison(
        a=a,
        b=b,
        sentence=wording.sentence(a, b, work, worse, is_same_workload=is_same_workload),
        configuration_changes=changes,
        metrics=tuple(metric_rows(a, b, work)),
        per_work=work,
        attribution=_attribution(a, b),
        warnings=tuple(_warnings(a, b, work, changes)),
        is_same_workload=is_same_workload,
        is_same_work=is_same,
        saving_usd=saving,
    )


def _saving(a: RunFacts, b: RunFacts) -> Decimal | None:
    if a.state != FINISHED or b.state != FINISHED:
        return None
    if a.cost_usd is None or b.cost_usd is None:
        return None
    return a.cost_usd - b.cost_usd


def _changes(a: RunFacts, b: RunFacts) -> tuple[Change, ...]:
    before, after = a.settings, b.settings
    names = dict.fromkeys([*before, *after])
    pairs = ((name, before.get(name), after.get(name)) for name in names)
    return tuple(Change(name, x, y) for name, x, y in pairs if x != y)


def _workload_changes(a: RunFacts, b: RunFacts) -> tuple[Change, ...]:
    """The differences in workload. Settings that only one of the runs states are left out."""
    jobs = (Change("job", a.job, b.job),) if a.job != b.job else ()
    both = [name for name in a.workload if name in b.workload]
    pairs = ((name, a.workload[name], b.workload[name]) for name in both)
    return jobs + tuple(Change(name, x, y) for name, x, y in pairs if x != y)


def _attribution(a: RunFacts, b: RunFacts) -> tuple[Term, ...] | None:
    before, after = _cost_factors(a), _cost_factors(b)
    return attribute(before, after) if before and after else None


def _cost_factors(run: RunFacts) -> CostFactors | None:
    if run.cost_usd is None or run.usd_per_hour is None or run.duration_seconds is None:
        return None
    seconds = Decimal(str(run.duration_seconds))
    phases = {name: Decimal(str(round(s, 6))) for name, s in run.phase_seconds.items()}
    return CostFactors(run.cost_usd, run.usd_per_hour, run.node_count, seconds, phases)


def _warnings(a: RunFacts, b: RunFacts, work: SharedWork, changes: tuple[Change, ...]) -> list[str]:
    warnings = [
        f"Run #{run.number} is {run.state}: its cost is {display_usd(run.cost_usd)} so far, and "
        "no saving is claimed."
        if run.state in ("running", "lost")
        else f"Run #{run.number} {run.state}: no saving is claimed."
        for run in (a, b)
        if run.state != FINISHED
    ]
    warnings += [f"Run #{run.number} has no price." for run in (a, b) if run.cost_usd is None]
    if a.basis != b.basis and a.cost_usd is not None and b.cost_usd is not None:
        bases = f"Run #{a.number} is priced at {_basis(a)} and run #{b.number} at {_basis(b)}"
        warnings.append(f"{bases}, so part of the difference comes from your negotiated rates.")
    warnings += [
        f"The workload differs: {change.name} changed from {change.a} to {change.b}."
        for change in _workload_changes(a, b)
    ]
    if work.unit != WHOLE_RUN and not work.is_equal:
        warnings.append(
            f"The amount of work differs ({wording.quantity(work.a)} and "
            f"{wording.quantity(work.b)} {work.unit}): compare the cost per "
            f"{work.unit.removesuffix('s')}."
        )
    warnings += work.warnings
    warnings += [
        f"{change.name} changed from {wording.plain(change.a)} to {wording.plain(change.b)}, "
        "which may change results: compare the metrics too."
        for change in changes
        if _may_change_results(change.name)
    ]
    if a.quality is not None and b.quality is not None and not set(a.quality) & set(b.quality):
        warnings.append("The runs have no metric in common, so their results are not compared.")
    return [*warnings, "One run each: run-to-run variation is unknown."]


def _basis(run: RunFacts) -> str:
    return "list price" if run.basis == "list" else run.basis


def _may_change_results(name: str) -> bool:
    words = name.lower().replace("-", "_").split("_")
    return any(word in words or name.lower().startswith(word) for word in MAY_CHANGE_RESULTS)
