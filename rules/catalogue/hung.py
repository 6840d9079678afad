"""The run no longer makes progress but still costs money.

## What it checks
Time after the work began in which nothing works: all GPUs are at most 1 % busy for most of each
10 s, and the run's processes use at most 1.5 cores. Or every used GPU shows 95 % and more but draws
little more than idle power (up to 15 % of the way from its lowest to its highest), as it does while
it waits inside a collective operation. No step ends in that time, and no start, checkpoint or
finish was recorded for it (nor an evaluation, if the cores are unknown). Without GPUs: at most a
tenth of a core, and no step.

## Why it costs money
A run that hangs for a weekend costs as much as one that works.

## When it fires
When idle time lasts `idle_seconds` and at least ten median steps, or spinning lasts `spin_seconds`.
It fires as soon as that is true, also during the run. Idle time up to the end of a run that ended
well is its idle tail, not a hang.

## When it is wrong
A program that waits on purpose between steps (for a queue, a person, a long download on one core)
looks the same unless it records a phase. A gap in the samples ends the hang, unless it is shorter
than two minutes.

## How to fix it
Dump the stacks of the processes (`py-spy dump`), turn on NCCL's flight recorder, and lower the
timeout of the process group. Allow Trimtab to stop hung runs.

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
    hung = hangs(frame, values["idle_seconds"], values["spin_seconds"])
    lengths = [w.end_seconds - w.start_seconds for w in hung or ()]
    numbers = {
        "run_seconds": frame.duration_seconds,
        "hung_seconds": None if hung is None else total_seconds(hung),
        "longest_seconds": max(lengths, default=0.0),
        "hangs_count": float(len(lengths)),
    }
    return Numbers(numbers, tuple(hung or ()))


def judge(numbers: Numbers, values: Values) -> Verdict:
    hung, run = numbers.known("hung_seconds"), numbers.known("run_seconds") or 0.0
    if hung is None:
        return Verdict(
            "insufficient_data", "Missing: training steps, or the utilisation of GPUs or cores."
        )
    if hung <= 0:
        return Verdict("passed", "The run was never without progress for long.")
    count, longest = numbers.known("hangs_count") or 1.0, numbers.known("longest_seconds") or hung
    lost = within(hung, run)
    return Verdict(
        "fired",
        f"The run made no progress for {lost:.0f} s ({count:.0f} times, up to {longest:.0f} s).",
        advice="Dump the stacks of its processes (py-spy dump), lower the timeout of the process "
        "group, and let Trimtab stop hung runs.",
        waste_seconds_low=RECOVERABLE_LOW * lost,
        waste_seconds_high=RECOVERABLE_HIGH * lost,
        severity="high",
        dedupe_key="hung",
    )


RULE = Rule(
    id="hung",
    title="Hung run",
    category=TIME,
    version=2,
    needs=(),
    parameters=(
        Parameter(
            "idle_seconds",
            "s",
            600,
            30,
            86_400,
            "Idle for at least this long",
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
            "GPUs spin for at least this long",
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
