"""The machines stay on after the work is done.

## What it checks
How long at the end of the run all GPUs of all nodes were idle (at most `idle_gpu_pct`), by the
running median over 10 s. Without GPUs: how long the run's own processes used at most `idle_cores`.

## Why it costs money
All nodes are paid for until the run ends, busy or idle.

## When it fires
When that time is at least `idle_seconds`, or at least `share_pct` of the run and `least_seconds`.
The run is judged after its end; before, more work may follow.

## When it is wrong
While the GPUs are idle, the cores may still do useful work: an evaluation, an export, an upload. It
needs no GPU all the same. Gaps of over 10 s in the samples don't count as idle.

## How to fix it
Upload in the background or from another machine; end the process when training ends; let the
machine stop itself.

## Parameters
`idle_seconds`, `share_pct` and `least_seconds` limit the idle time; `idle_gpu_pct` and `idle_cores`
define idle.

## Sources
Princeton's Job Defense Shield warns of GPUs at 0 % after 60 minutes, which is long for a tail; 5
minutes, 3 % and 30 s are ours. SageMaker shows the same time as finalisation and has no rule for
it. That 0.9 to all of the time can be given back is our estimate.
"""

from __future__ import annotations

from rules.category import TIME
from rules.evidence import within
from rules.frame import RunFrame
from rules.idle import BY_MACHINE, has_gpus, idle, is_by_machine, tail_seconds
from rules.rule import Numbers, Parameter, Rule, Values, Verdict, Window
from rules.wording import lasting

RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.9, 1.0


def measure(frame: RunFrame, values: Values) -> Numbers:
    limits = values["idle_gpu_pct"], values["idle_cores"]
    tail = tail_seconds(frame, *limits)
    resting = idle(frame, *limits)
    numbers = {
        "run_seconds": frame.duration_seconds,
        "tail_seconds": tail[1] if tail else None,
        "is_by_machine": float(not has_gpus(frame) and is_by_machine(frame)),
        "is_known": float(resting is not None and len(resting) > 0),
        "never_worked": float(resting is not None and len(resting) > 0 and bool(resting.all())),
    }
    has_tail = tail is not None and tail[1] > 0
    windows = (Window(tail[0], frame.duration_seconds),) if tail and has_tail else ()
    return Numbers(numbers, windows)


def judge(numbers: Numbers, values: Values) -> Verdict:
    if not numbers.known("is_known"):
        return Verdict(
            "insufficient_data", "Missing: the utilisation of all GPUs, or of the run's cores."
        )
    if numbers.known("never_worked"):
        return Verdict(
            "not_applicable", "The run never used its GPUs or cores, so it has no idle tail."
        )
    tail, run = numbers.known("tail_seconds"), numbers.known("run_seconds") or 0.0
    if tail is None:
        return Verdict("insufficient_data", "Missing: most samples after the last work.")
    judged_by = BY_MACHINE if numbers.known("is_by_machine") else ""
    summary = f"The machines were idle for the last {lasting(tail)} of the run{judged_by}."
    enough = max(values["share_pct"] / 100 * run, values["least_seconds"])
    if tail < min(values["idle_seconds"], enough):
        return Verdict("passed", summary)
    lost = within(tail, run)
    return Verdict(
        "fired",
        summary,
        advice="Upload in the background, end the process with the training, and stop the machine.",
        waste_seconds_low=RECOVERABLE_LOW * lost,
        waste_seconds_high=RECOVERABLE_HIGH * lost,
        severity="high" if lost > 0.1 * run else "medium",
        dedupe_key="idle_tail",
    )


RULE = Rule(
    id="idle_tail",
    title="Idle machines after the work",
    category=TIME,
    version=2,
    needs=(),
    explains=("idle_tail", "unused_gpu"),
    parameters=(
        Parameter(
            "idle_seconds",
            "s",
            300,
            10,
            86_400,
            "Idle for at least this long",
            "ours, 5 minutes",
            save=120,
            safe=600,
        ),
        Parameter(
            "share_pct", "%", 3, 0, 100, "Or for this share of the run", "ours", save=2, safe=5
        ),
        Parameter("least_seconds", "s", 30, 1, 86_400, "And at least this long", "ours"),
        Parameter(
            "idle_gpu_pct",
            "%",
            1,
            0,
            50,
            "GPUs count as idle up to",
            "JDS, 0 %; 1 for noise",
            measured=True,
        ),
        Parameter(
            "idle_cores",
            "cores",
            0.2,
            0,
            1000,
            "Without GPUs: cores count as idle up to",
            "ours",
            measured=True,
        ),
    ),
    measure=measure,
    judge=judge,
    explained_by=("hung", "idle_notebook"),
    awaits_end=True,
)
