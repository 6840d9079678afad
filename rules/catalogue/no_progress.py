"""The model stopped improving long before the end of the run.

## What it checks
The logged metric that best measures the model's quality: validation metrics before training
metrics, then metrics whose lower values are better (loss, error, perplexity) before those whose
higher values are better (accuracy, score). The best value is the first one that reaches the best
ever, less `least_improvement_pct` of the whole improvement.

## Why it costs money
Training beyond the best model costs as much as training up to it.

## When it fires
When the time since the best value is at least `share_pct` of the run, with at least `fewest` values
since. Runs shorter than `minimum_seconds` are not judged.

## When it is wrong
Some models improve again after a long plateau (a change of the learning rate, "grokking"). Metrics
without a known better direction are ignored.

## How to fix it
Use early stopping, and keep the best checkpoint.

## Parameters
`share_pct`, `fewest`, `least_improvement_pct` and `minimum_seconds`.

## Sources
Early stopping as in Keras and Lightning (patience in evaluations). 20 %, five values and 1 % are
ours, and so is the estimate that half to 0.9 of the time since the best value can be given back.
SageMaker's LossNotDecreasing needs the tensors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from rules.category import TIME
from rules.evidence import within
from rules.frame import RunFrame
from rules.metric_direction import is_validation, less_is_better
from rules.rule import Numbers, Parameter, Rule, Values, Verdict, Window
from rules.training_loop import events_of

RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.5, 0.9
Points = list[tuple[float, float]]
"""Seconds and value, in order."""


def measure(frame: RunFrame, values: Values) -> Numbers:
    numbers: dict[str, float | None] = {"run_seconds": frame.duration_seconds}
    logged = _logged(frame)
    name = chosen_metric(logged)
    if name is None:
        return Numbers(numbers)
    points = logged[name]
    best_at = _best_at(points, bool(less_is_better(name)), values["least_improvement_pct"] / 100)
    since = [value for at, value in points if at > best_at]
    numbers |= {
        "values_count": float(len(points)),
        "values_since_best_count": float(len(since)),
        "best_at_seconds": best_at,
        "since_best_seconds": within(frame.duration_seconds - best_at, frame.duration_seconds),
    }
    window = (Window(best_at, frame.duration_seconds),) if since else ()
    return Numbers(numbers, window)


def judge(numbers: Numbers, values: Values) -> Verdict:
    since, run = numbers.known("since_best_seconds"), numbers.known("run_seconds") or 0.0
    if since is None:
        return Verdict(
            "insufficient_data",
            "No metric such as a loss or accuracy was logged: call trimtab.log().",
        )
    if run <= 0 or run < values["minimum_seconds"]:
        return Verdict("insufficient_data", f"Not enough data: a run of {run:.0f} s.")
    count, share = numbers.known("values_since_best_count") or 0.0, 100 * since / run
    summary = f"The best value was {since:.0f} s before the end, {count:.0f} values earlier."
    if share < values["share_pct"] or count < values["fewest"]:
        return Verdict("passed", summary)
    lost = within(since, run)
    return Verdict(
        "fired",
        summary,
        advice="Use early stopping: end the training when the metric has stopped improving.",
        waste_seconds_low=RECOVERABLE_LOW * lost,
        waste_seconds_high=RECOVERABLE_HIGH * lost,
        severity="medium" if share >= 40 else "low",
        dedupe_key="no_progress",
    )


def _logged(frame: RunFrame) -> dict[str, Points]:
    """The finite values of each metric of the first rank that logs it."""
    by_rank: dict[str, dict[object, Points]] = {}
    for node in frame.nodes.values():
        for at, data in events_of(node, "metric"):
            name, value = data.get("name"), data.get("value")
            if isinstance(name, str) and isinstance(value, int | float) and math.isfinite(value):
                ranks = by_rank.setdefault(name, {})
                ranks.setdefault(data.get("rank"), []).append((at, float(value)))
    return {name: sorted(next(iter(ranks.values()))) for name, ranks in by_rank.items()}


def chosen_metric(names: Iterable[str]) -> str | None:
    """Validation before training, then losses before the others, then by name."""
    known = [name for name in names if less_is_better(name) is not None]
    ranked = sorted(
        known, key=lambda name: (not is_validation(name), not less_is_better(name), name)
    )
    return ranked[0] if ranked else None


def _best_at(points: Points, less_is_better: bool, least_share: float) -> float:
    """When it first reached the best value, less that share of the whole improvement."""
    signed = [(at, -value if less_is_better else value) for at, value in points]
    first, best = signed[0][1], max(value for _, value in signed)
    enough = best - least_share * (best - first)
    return next(at for at, value in signed if value >= enough)


RULE = Rule(
    id="no_progress",
    title="Model stopped improving",
    category=TIME,
    version=2,
    needs=(),
    parameters=(
        Parameter(
            "share_pct",
            "%",
            20,
            0,
            100,
            "No improvement for this share of the run",
            "ours",
            save=15,
            safe=30,
        ),
        Parameter("fewest", "values", 5, 1, 1e6, "And for this many values", "ours", whole=True),
        Parameter(
            "least_improvement_pct",
            "%",
            1,
            0,
            100,
            "Ignore improvements below",
            "ours",
            measured=True,
        ),
        Parameter("minimum_seconds", "s", 600, 10, 86_400, "Shortest run that is judged", "ours"),
    ),
    measure=measure,
    judge=judge,
)
