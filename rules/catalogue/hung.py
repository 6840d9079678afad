"""The run stopped making progress, and goes on being paid for.

## What it checks
Stretches after work began in which nothing works: all GPUs at most 1 % busy (by the running
median over 10 s), and the run's processes use at most one and a half cores; or every GPU in use
shows 95 % and more while it draws hardly more power than idle (15 % of the way from its lowest to
its highest), as one does that waits inside a collective operation. No step ends in them, and no
start, checkpoint or end was told for that time (nor an evaluation, where the cores are unknown).
In a run without GPUs: at most a tenth of a core, and no step.

## Why it costs money
A job that hangs over a weekend costs what it would have cost working.

## When it fires
When a stretch of doing nothing lasts `idle_seconds` and at least ten median steps, or one of
spinning `spin_seconds`. While the run goes on, as soon as that is so. What lasts to the end of a
run that ended well is its idle tail, not a hang.

## When it is wrong
A program that waits for something on purpose (a queue, a person, a long download on one core)
between its steps looks the same, as long as it doesn't tell a phase. Gaps in the samples end a
stretch, unless they are shorter than two minutes.

## How to fix it
Take the stacks of the processes (`py-spy dump`), switch on NCCL's flight recorder, lower the
timeout of the process group; allow Trimtab to stop hung runs.

## Parameters
`idle_seconds` and `spin_seconds`.

## Sources
Full utilisation at low power when one GPU stopped answering: the ml-engineering handbook on
debugging. 10 and 5 minutes and ten steps are ours; Princeton's Job Defense Shield looks at four
hours. SageMaker's StalledTrainingRule waits 30 minutes for a saved tensor. Nearly all of the time
can be given back (0.9 to 1): our estimate.
"""

from __future__ import annotations

from rules.category import TIME
from rules.evidence import within
from rules.frame import RunFrame
from rules.hangs import hangs
from rules.intervals import total_seconds
from rules.rule import Numbers, Parameter, Rule, Values, Verdict

RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.9, 1.0


def measure(frame: RunFrame, values: Values) -> Numbers:
    found = hangs(frame, values["idle_seconds"], values["spin_seconds"])
    lengths = [w.end_seconds - w.start_seconds for w in found or ()]
    numbers = {
        "run_seconds": frame.duration_seconds,
        "hung_seconds": None if found is None else total_seconds(found),
        "longest_seconds": max(lengths, default=0.0),
        "hangs_count": float(len(lengths)),
    }
    return Numbers(numbers, tuple(found or ()))


def judge(numbers: Numbers, values: Values) -> Verdict:
    hung, run = numbers.known("hung_seconds"), numbers.known("run_seconds") or 0.0
    if hung is None:
        return Verdict(
            "insufficient_data", "No work was seen, or the use of the GPUs or cores is unknown."
        )
    if hung <= 0:
        return Verdict("passed", "The run was never without progress for long.")
    count, longest = numbers.known("hangs_count") or 1.0, numbers.known("longest_seconds") or hung
    lost = within(hung, run)
    return Verdict(
        "fired",
        f"For {lost:.0f} s the run made no progress ({count:.0f} times, up to {longest:.0f} s).",
        advice="Take the stacks of its processes (py-spy dump); lower the timeout of the process "
        "group; let hung runs be stopped.",
        waste_seconds_low=RECOVERABLE_LOW * lost,
        waste_seconds_high=RECOVERABLE_HIGH * lost,
        severity="high",
        dedupe_key="hung",
    )


RULE = Rule(
    id="hung",
    title="The run hangs",
    category=TIME,
    version=1,
    needs=(),
    parameters=(
        Parameter(
            "idle_seconds",
            "s",
            600,
            30,
            86_400,
            "Nothing works for this long",
            "ours",
            measured=True,
            save=300,
            safe=1200,
        ),
        Parameter(
            "spin_seconds",
            "s",
            300,
            30,
            86_400,
            "GPUs spin for this long",
            "ours",
            measured=True,
            save=180,
            safe=600,
        ),
    ),
    measure=measure,
    judge=judge,
    may_stop=True,
)
