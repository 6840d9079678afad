"""Much of the work was done twice, because it wasn't saved before a restart.

## What it checks
The steps whose numbers came again after a restart: in a later process, attempt or run of the same
training. Their time, over the time for which the machines were held.

## Why it costs money
The steps are paid for twice, and counted once.

## When it fires
When lost work takes at least `share_pct` of the held time, and `least_seconds` of it.

## When it is wrong
When an earlier checkpoint was chosen on purpose, as after a learning rate that was too high. The
numbers of steps must be known (a callback, `trimtab.step(number=...)`, or the step in the
checkpoint); else the rule says that it lacks data.

## How to fix it
Save more often: a training's page names the interval that costs least at its own rate of failures
(`save_steps` in Hugging Face, `every_n_train_steps` in Lightning). Save on SIGTERM too, which spot
machines and schedulers send before they end.

## Parameters
`share_pct` and `least_seconds`.

## Sources
Young (1974) and Daly (2006): at the best interval, about sqrt(C / 2M) of the time is lost, 3 % for
checkpoints of a minute and a failure every 10 hours. So 5 % is more than saving costs; 5 % and a
minute are ours, and so is the estimate that half to all of it can be avoided.
"""

from __future__ import annotations

from rules.category import TIME
from rules.evidence import clamp_seconds
from rules.frame import RunFrame
from rules.lost_steps import run_steps
from rules.machine_time import seconds_of_run
from rules.rule import Claim, Directness, Numbers, Parameter, Rule, Values, Verdict, Window
from rules.step_ranges import lost_count
from rules.wording import write_count

RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.5, 1.0
MOST_WINDOWS = 500

LABELS = ("lost",)


def measure(frame: RunFrame, values: Values) -> Numbers:
    steps = run_steps(frame)
    windows = steps.lost_seconds()
    by_node = {key: steps.nodes[key].seconds_in(spans) for key, spans in windows.items()}
    numbers = {
        "run_seconds": frame.duration_seconds,
        "steps_are_known": float(not steps.is_lost_unknown),
        "lost_seconds": seconds_of_run(frame, by_node),
        "lost_steps_count": float(lost_count(steps.ranges, steps.kept_steps())),
    }
    found = [
        Window(span.start_seconds, span.end_seconds, key)
        for key, spans in windows.items()
        for span in spans
    ]
    return Numbers(numbers, tuple(found[:MOST_WINDOWS]))


def judge(numbers: Numbers, values: Values) -> Verdict:
    lost, run = numbers.get("lost_seconds"), numbers.get("run_seconds") or 0.0
    if lost is None:
        return Verdict("insufficient_data", "Missing: the time of the steps that were done again.")
    steps = numbers.get("lost_steps_count") or 0.0
    share = round(100 * lost / run, 6) if run > 0 else 0.0
    summary = f"{write_count(steps, 'step')} done again later: {share:.1f} % of the held time."
    if share < values["share_pct"] or lost < values["least_seconds"]:
        if not numbers.get("steps_are_known"):
            return Verdict("insufficient_data", "Missing: the step at which an attempt resumed.")
        return Verdict("passed", summary if steps else "No step was done again.")
    lost = clamp_seconds(lost, run)
    return Verdict(
        "fired",
        summary,
        advice="Save checkpoints more often (save_steps, every_n_train_steps), and on SIGTERM.",
        claims=(Claim(LABELS, lost, RECOVERABLE_LOW, RECOVERABLE_HIGH),),
        severity="high" if share >= 20 else "medium",
        dedupe_key="lost_work",
    )


RULE = Rule(
    id="lost_work",
    title="Lost work",
    category=TIME,
    version=1,
    needs=("steps",),
    claims_on=LABELS,
    directness=Directness.SYMPTOM,
    parameters=(
        Parameter(
            "share_pct",
            "%",
            5,
            0,
            100,
            "Fires from this share of the held time",
            "ours",
            save=3,
            safe=10,
        ),
        Parameter("least_seconds", "s", 60, 0, 864_000, "And from this much time", "ours"),
    ),
    measure=measure,
    judge=judge,
)
