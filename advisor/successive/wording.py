"""The text of a run's verdict: how it compares with the job's level, and what it means."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.successive.judged_run import (
    BASELINE,
    CAVEAT,
    CLEARED,
    CONFIRMED,
    OPEN,
    SUSPECTED,
    WORSE,
    JudgedRun,
)
from advisor.successive.machines import MachineEffect
from advisor.successive.noise import Noise, Prior

MOST_RANGES = 3


def sentence(run: JudgedRun, unit: str) -> str:
    """Return one to three sentences; `unit` as in "machine time per epoch"."""
    if run.rung == BASELINE or run.change is None:
        return "First run of this workload in this configuration: recorded as the baseline."
    change = f"{_signed(run.change)} machine time per {unit}"
    before = f"compared with {runs_called(run.baseline)}"
    if run.rung == CAVEAT:
        return f"{change} {before}: too few runs to tell a change from noise."
    parts = [f"{_status(run)}{change} {before}.", *_more(run)]
    if run.detects is not None:
        parts.append(f"The smallest detectable change is {_percent(run.detects)}.")
    return " ".join(parts)


def runs_called(numbers: Sequence[int]) -> str:
    """`run #3`, `9 runs (#1 to #9)`, `5 runs (#1 to #4, #8)`."""
    if len(numbers) == 1:
        return f"run #{numbers[0]}"
    ranges = _ranges(sorted(numbers))
    shown = [f"#{a}" if a == b else f"#{a} to #{b}" for a, b in ranges]
    if len(shown) > MOST_RANGES:
        shown = [f"#{ranges[0][0]} to #{ranges[-1][1]}"]
    return f"{len(numbers)} runs ({', '.join(shown)})"


def noise_words(noise: Noise, prior: Prior) -> str:
    """Say where the stated run-to-run variation comes from."""
    own = f"{noise.freedom + 1} runs of this job" if noise.freedom else ""
    if noise.freedom >= prior.freedom:
        return f"Run-to-run variation: {_points(noise.spread)}, from {own}."
    others = (
        f"{prior.jobs} other jobs of this workspace"
        if prior.jobs
        else f"the usual {_points(prior.spread)}"
    )
    sources = " and ".join(filter(None, (own, others)))
    return f"Run-to-run variation: {_points(noise.spread)}, from {sources}."


def effect_words(effect: MachineEffect) -> str:
    """Describe a finding about a machine."""
    return _effect(f"Runs on {effect.machine}", effect, "on other machines")


def period_words(effect: MachineEffect) -> str:
    """Describe a finding about a time of the week."""
    return _effect(f"Runs on {effect.machine}", effect, "at other times")


def _effect(subject: str, effect: MachineEffect, others: str) -> str:
    more = "longer" if effect.change > 0 else "less"
    low, high = sorted((abs(effect.low), abs(effect.high)))
    return (
        f"{subject} take {_percent(abs(effect.change))} {more} "
        f"({_percent(low)} to {_percent(high)}): {effect.runs} runs against {effect.other_runs} "
        f"{others}. This is not counted as a change of the job."
    )


def _status(run: JudgedRun) -> str:
    kind = "regression" if run.direction == WORSE else "improvement"
    if run.is_back:
        kind = "end of the regression"
    since = f" since run #{run.since}" if run.since is not None else ""
    gradual = ", gradually" if run.is_gradual else ""
    if run.status == OPEN and run.regression is not None:
        return f"Regression open since run #{run.regression.since}: "
    return {
        SUSPECTED: f"Suspected {kind}, to be confirmed by the next run: ",
        CONFIRMED: f"Confirmed {kind}{since}{gradual}: ",
        CLEARED: "Outlier, not confirmed by the next run: ",
    }.get(run.status, "As expected: ")


def _more(run: JudgedRun) -> list[str]:
    more = []
    if run.new_machine:
        more.append(f"No run before was on {run.new_machine}, which may explain the difference.")
    if run.ended is not None:
        more.append(f"The regression since run #{run.ended.since} is over.")
    return more


def _ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges


def _signed(ratio: float) -> str:
    return f"{'−' if ratio < 0 else '+'}{abs(100 * ratio):.1f} %"


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.0f} %"


def _points(spread: float) -> str:
    return f"{100 * spread:.1f} %"
