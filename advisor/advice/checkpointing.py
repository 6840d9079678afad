"""Save checkpoints as often as costs least at the measured rate of interruptions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal

from advisor.advice.causes import RootCause
from advisor.advice.kinds import CHECKPOINTS
from advisor.advice.recommendation import (
    MEASURED,
    Recommendation,
    RuleJudgement,
    SavingRange,
    Spending,
)
from advisor.money import display_usd
from advisor.probing.loop_speed import SAMPLES, LoopSpeed
from advisor.sizing.interruptions import InterruptionRate
from advisor.sizing.spot import Interruptions, best_interval_seconds, expected_seconds

SAVE_INTERVAL = "set_checkpoint_interval"
RULES = ("checkpoint_interval", "lost_work")
"""The rules whose findings this advice answers."""
LEAST_SHARE = 0.01
"""The least share of the run's cost; below it, the interval doesn't matter (ours)."""
FEWEST = 3
"""Checkpoints, without which the interval and the time of one aren't known."""
ASSUMED_HOURS = {"spot": 24.0}
"""The hours between two interruptions of a node, by purchase option, before anything is seen."""
OTHERWISE_HOURS = 720.0
"""The hours for other purchase options, as the rule `checkpoint_interval` assumes."""


def saves(judgements: Sequence[RuleJudgement]) -> bool:
    """Return whether the run was seen to save checkpoints: else `save_interval` needs no rate."""
    return _checkpoints(judgements) is not None


def save_interval(
    judgements: Sequence[RuleJudgement],
    found: Mapping[str, RootCause],
    spending: Spending,
    node_count: int,
    speed: LoopSpeed | None,
    rate: InterruptionRate | None,
) -> Recommendation | None:
    """Return the advice to save at the best interval, or None if the rate or the checkpoints aren't
    known, or another interval saves too little.

    Args:
        rate: of one node like the run's.
    """
    measured = _checkpoints(judgements)
    if measured is None or rate is None or not spending.cost_usd:
        return None
    interval, cost, work, loop_share = measured
    best = min(best_interval_seconds(_of(rate.hours, node_count, cost)), work)
    hours = rate.worst_hours, rate.hours, rate.best_hours
    shares = [
        loop_share * _saved_share(interval, best, work, _of(each, node_count, cost))
        for each in hours
    ]
    if shares[1] < LEAST_SHARE or not all(math.isfinite(share) for share in shares):
        return None
    usd = [spending.cost_usd * Decimal(str(round(share, 9))) for share in shares]
    saving = SavingRange.clamp(spending.cost_usd, min(usd), usd[1], max(usd))
    steps = _steps(best, speed)
    every = f"{best / 60:.3g} min"
    title = f"Save checkpoints every {every}"
    return Recommendation(
        kind=SAVE_INTERVAL,
        title=title if steps is None else f"{title} (save_steps={steps})",
        change={"checkpoint_interval": f"{best:.0f} s"} if steps is None else {"save_steps": steps},
        saving_low_usd=saving.low,
        saving_usd=saving.mid,
        saving_high_usd=saving.high,
        monthly_saving_usd=spending.monthly_usd(saving, MEASURED),
        risk=0.4,
        risk_dimension="lost work",
        risk_reason="After an interruption, the work since the last checkpoint is repeated.",
        effort="very_low",
        evidence=[
            rate.words,
            f"A checkpoint takes {cost:.3g} s and was saved every {interval / 60:.3g} min.",
            f"Every {every} costs {display_usd(saving.mid)} of {display_usd(spending.cost_usd)} "
            f"less ({display_usd(saving.low)} to {display_usd(saving.high)}), interruptions "
            "included.",
        ],
        assumptions=[
            "Interruptions come independently, at a constant rate (Daly 2006, higher order).",
            "The run resumes from its last checkpoint by itself.",
        ],
        candidates=[],
        dedupe_key=SAVE_INTERVAL,
        rung=MEASURED,
        how_to_apply=_how(best, steps),
        conflicts_with=[CHECKPOINTS],
        rules=[rule for rule in RULES if rule in found],
    )


def assumed_hours(purchase_option: str) -> float:
    """Return the hours between two interruptions of a node of which nothing is known."""
    return ASSUMED_HOURS.get(purchase_option, OTHERWISE_HOURS)


def _checkpoints(judgements: Sequence[RuleJudgement]) -> tuple[float, float, float, float] | None:
    """Return the median work between two checkpoints, the seconds of one, the work of the loop, and
    the share of the run that the loop and its checkpoints took; None if too few are known.
    """
    numbers = next((j.numbers for j in judgements if j.rule_id == "checkpoint_interval"), None)
    if numbers is None or (numbers.get("checkpoints_count") or 0) < FEWEST:
        return None
    between, cost = numbers.get("interval_seconds"), numbers.get("checkpoint_seconds")
    loop, saving = numbers.get("loop_seconds"), numbers.get("saving_seconds")
    run = numbers.get("run_seconds")
    if not between or not cost or not loop or saving is None or not run or loop <= saving:
        return None
    return between, cost, loop - saving, min(loop / run, 1.0)


def _of(hours: float, node_count: int, checkpoint_seconds: float) -> Interruptions:
    return Interruptions.of_nodes(3600 * hours, node_count, checkpoint_seconds)


def _saved_share(now: float, best: float, work: float, of: Interruptions) -> float:
    """Return the share that is saved of the expected time of a training of so much work."""
    then, today = (expected_seconds(work, each, of) for each in (best, now))
    return 1 - then / today if math.isfinite(today) else math.nan


def _steps(seconds: float, speed: LoopSpeed | None) -> int | None:
    """Return how many steps take that long, or None if their pace isn't known."""
    if speed is None or (speed.unit == SAMPLES and not speed.batch):
        return None
    per_second = speed.rate.value / (speed.batch or 1 if speed.unit == SAMPLES else 1)
    return max(round(seconds * per_second), 1)


def _how(seconds: float, steps: int | None) -> list[str]:
    timed = f"if time.monotonic() - saved_at >= {seconds:.0f}: save(); saved_at = time.monotonic()"
    if steps is None:
        return [timed]
    return [
        f'Hugging Face: TrainingArguments(save_strategy="steps", save_steps={steps})',
        f"Lightning: ModelCheckpoint(every_n_train_steps={steps})",
        f"Own loop: {timed}",
    ]
