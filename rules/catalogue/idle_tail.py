"""The machines stay on after the work is done.

## What it checks
How long at the end of the run the training told nothing (no step, phase or metric) and all GPUs of
all nodes were idle (at most `idle_gpu_pct`), by the running median over 10 s. Without GPUs: the
run's own processes wanted at most `idle_cores_pct` of the cores that they want at the 95th
percentile of the run, and a tenth of a core for each rank. They want cores that they use or wait
for, so neighbours on the machine make no run look idle.

## Why it costs money
All nodes are paid for until the run ends, busy or idle.

## When it fires
When that time is at least `idle_seconds`, or at least `share_pct` of the run and `least_seconds`;
in a short run, at least `alone_share_pct` of it and `alone_seconds`.
The run is judged after its end; before, more work may follow.

## When it is wrong
While the GPUs are idle, the cores may still do useful work: an evaluation, an export, an upload. It
needs no GPU all the same, and a run that tells it as a phase has no idle tail. Gaps of over 10 s in
the samples don't count as idle.

## How to fix it
Upload in the background or from another machine; end the process when training ends; let the
machine stop itself.

## Parameters
`idle_seconds`, `share_pct` with `least_seconds`, and `alone_share_pct` with `alone_seconds` limit
the idle time; `idle_gpu_pct` and `idle_cores_pct` define idle.

## Sources
Princeton's Job Defense Shield warns of GPUs at 0 % after 60 minutes, which is long for a tail; 5
minutes, 3 %, 30 s and 10 % are ours. SageMaker shows the same time as finalisation and has no rule
for it. That 0.9 to all of the time can be given back is our estimate.
"""

from __future__ import annotations

from dataclasses import replace

from rules.category import TIME
from rules.evidence import clamp_seconds
from rules.frame import RunFrame
from rules.idle import BY_MACHINE, has_gpus, is_by_machine, is_idle, tail_seconds
from rules.rule import Claim, Numbers, Parameter, Rule, Values, Verdict, Window
from rules.told import A_PHASE, A_STEP, AN_EVENT, last_told_seconds
from rules.told_evidence import ALONE, LEAST_SECONDS
from rules.wording import lasting

RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.9, 1.0

LABELS = ("idle_tail",)


def measure(frame: RunFrame, values: Values) -> Numbers:
    limits = values["idle_gpu_pct"], values["idle_cores_pct"]
    tail = tail_seconds(frame, *limits)
    resting = is_idle(frame, *limits)
    is_known = resting is not None and len(resting) > 0
    never_worked = resting is not None and is_known and bool(resting.all())
    numbers = {
        "run_seconds": frame.duration_seconds,
        "tail_seconds": tail[1] if tail else None,
        "is_by_machine": float(not has_gpus(frame) and is_by_machine(frame)),
        "is_known": float(is_known),
        "never_worked": float(never_worked and last_told_seconds(frame) is None),
    }
    has_tail = tail is not None and tail[1] > 0
    windows = (Window(tail[0], frame.duration_seconds),) if tail and has_tail else ()
    return Numbers(numbers, windows)


def judge(numbers: Numbers, values: Values) -> Verdict:
    if not numbers.get("is_known"):
        return Verdict(
            "insufficient_data", "Missing: the utilisation of all GPUs, or of the run's cores."
        )
    if numbers.get("never_worked"):
        return Verdict(
            "not_applicable", "The run never used its GPUs or cores, so it has no idle tail."
        )
    tail, run = numbers.get("tail_seconds"), numbers.get("run_seconds") or 0.0
    if tail is None:
        return Verdict("insufficient_data", "Missing: most samples after the last work.")
    if not tail:
        return Verdict("passed", "The machines were not idle at the end of the run.")
    judged_by = BY_MACHINE if numbers.get("is_by_machine") else ""
    summary = f"The machines were idle for the last {lasting(tail)} of the run{judged_by}."
    enough = max(values["share_pct"] / 100 * run, values["least_seconds"])
    is_long = tail >= min(values["idle_seconds"], enough)
    share = 100 * tail / run if run > 0 else 0.0
    is_alone = tail >= values["alone_seconds"] and share >= values["alone_share_pct"]
    if not is_long and not is_alone:
        return Verdict("passed", summary)
    lost = clamp_seconds(tail, run)
    return Verdict(
        "fired",
        summary,
        advice="Upload in the background, end the process with the training, and stop the machine.",
        claims=(Claim(LABELS, lost, RECOVERABLE_LOW, RECOVERABLE_HIGH),),
        severity="high" if lost > 0.1 * run else "medium",
        dedupe_key="idle_tail",
    )


RULE = Rule(
    id="idle_tail",
    title="Idle machines after the work",
    category=TIME,
    version=4,
    needs=(),
    claims_on=LABELS,
    ruled_out_by=(A_STEP, A_PHASE, AN_EVENT),
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
        ALONE,
        replace(LEAST_SECONDS, name="alone_seconds"),
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
            "idle_cores_pct",
            "%",
            10,
            0,
            50,
            "Without GPUs: idle up to this share of the cores at work",
            "ours",
            measured=True,
        ),
    ),
    measure=measure,
    judge=judge,
    awaits_end=True,
)
