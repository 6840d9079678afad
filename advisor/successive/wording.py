"""The text of a run's comparison with its baseline, and the smallest detectable change."""

from __future__ import annotations

from advisor.successive.baseline import BASELINE, CAVEAT, WORSE
from advisor.successive.history import CLEARED, CONFIRMED, SUSPECTED, JudgedRun


def sentence(run: JudgedRun, unit: str) -> str:
    """One or two sentences; `unit` as in "cost per epoch"."""
    comparison = run.comparison
    if comparison.rung == BASELINE or comparison.change is None:
        return "First run of this workload in this configuration: recorded as the baseline."
    change = f"{_signed(comparison.change)} cost per {unit}"
    before = (
        f"{comparison.baseline_runs} comparable run{'' if comparison.baseline_runs == 1 else 's'}"
    )
    if comparison.rung == CAVEAT:
        return f"{change} compared with {before}: too few runs to tell a change from noise."
    smallest = (
        ""
        if comparison.detects is None
        else f" The smallest detectable change is {_percent(comparison.detects)}."
    )
    return f"{_status(run)}{change} compared with {before}.{smallest}"


def _status(run: JudgedRun) -> str:
    kind = "regression" if run.comparison.direction == WORSE else "improvement"
    since = f" since run #{run.since}" if run.since is not None else ""
    return {
        SUSPECTED: f"Suspected {kind}, to be confirmed by the next run: ",
        CONFIRMED: f"Confirmed {kind}{since}: ",
        CLEARED: "Outlier, not confirmed by the next run: ",
    }.get(run.status, "As expected: ")


def _signed(ratio: float) -> str:
    return f"{'−' if ratio < 0 else '+'}{abs(100 * ratio):.1f} %"


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.0f} %"
