"""A verdict in words: what is likely, how far off, and what this history can see."""

from __future__ import annotations

from advisor.successive.baseline import BASELINE, CAVEAT, WORSE
from advisor.successive.history import CLEARED, CONFIRMED, SUSPECTED, JudgedRun

NOTABLE = 0.1
"""With one or two runs before, a smaller difference is not even worth a colour."""


def sentence(held: JudgedRun, unit: str) -> str:
    """One or two sentences; `unit` as in "cost per epoch"."""
    comparison = held.comparison
    if comparison.rung == BASELINE or comparison.change is None:
        return "The first run of this workload in this configuration: its baseline is recorded."
    change = f"{_signed(comparison.change)} cost per {unit}"
    before = (
        f"{comparison.baseline_runs} comparable run{'' if comparison.baseline_runs == 1 else 's'}"
    )
    if comparison.rung == CAVEAT:
        return f"{change} against {before} before: too few to tell a change from noise."
    sees = (
        ""
        if comparison.detects is None
        else f" This history sees {_percent(comparison.detects)} %."
    )
    return f"{_found(held)}{change} against {before}.{sees}"


def _found(held: JudgedRun) -> str:
    kind = "regression" if held.comparison.direction == WORSE else "improvement"
    since = f" since run #{held.since}" if held.since is not None else ""
    return {
        SUSPECTED: f"Suspected {kind}, until the next run confirms it: ",
        CONFIRMED: f"Confirmed {kind}{since}: ",
        CLEARED: "An odd run, not confirmed by the next: ",
    }.get(held.status, "As expected: ")


def _signed(ratio: float) -> str:
    return f"{'−' if ratio < 0 else '+'}{abs(100 * ratio):.1f} %"


def _percent(ratio: float) -> str:
    return f"changes of {100 * ratio:.0f}"
