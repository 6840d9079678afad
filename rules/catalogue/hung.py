"""The run no longer makes progress but still costs money.

## What it checks
Time after the end of a training step in which no other step ends and no metric or phase is told, on
any node, and in which nothing works:
- each GPU idles (at most 2 %), or it spins: 95 % and more at little more than idle power, without
  reading its memory, as it does while it waits inside a collective operation;
- the run's processes rest and don't wait for a core that others hold, or each rank polls: about one
  core a rank at a constant level, with memory that doesn't move. Without GPUs, only if that is at
  most half of the cores used at work;
- its processes read and write next to nothing, and the network carries next to nothing if the run
  has its machine alone;
- none of its processes was suspended (SIGSTOP, a debugger);
- no start, checkpoint or finish was recorded, nor an evaluation that uses a core.

Where the run's own processes weren't seen, the machine's cores and disks stand in for them.
A busy GPU whose power, SM activity and memory traffic are unknown may work or spin: utilisation
alone shows no progress. If no step ended meanwhile for as long as a hang takes, the rule says that
the power of the GPUs is missing.

Without reported steps only GPUs that spin and cores that poll count: a run that rests may be a
notebook whose owner reads.

## Why it costs money
A run that hangs for a weekend costs as much as one that works.

## When it fires
When that lasts `idle_seconds`, or `spin_seconds` while a GPU spins, and at least ten median steps
of the run. Each rank's first step is left out of the median, because it includes compilation. It
fires as soon as that is true, also during the run. Time after the last step of a run that ended
well is its idle tail, not a hang. Pauses from which the run came back three times are its habit, up
to twice their median length; see `epoch_gaps`.

Automatic stops need more: reported steps, and known CPU time, reads and writes and suspended
processes of the run itself, on every node.

## When it is wrong
A program that waits on purpose between steps (for a queue, a person, a machine that isn't part of
the run) looks the same unless it records a phase. So does a computation on one core that reads and
allocates nothing for ten minutes. A gap in the samples ends the hang, unless it is shorter than two
minutes.

## How to fix it
Dump the stacks of the processes (`py-spy dump`), turn on NCCL's flight recorder, and lower the
timeout of the process group. Allow Trimtab to stop hung runs.

## Parameters
`idle_seconds` and `spin_seconds` are the least durations.

## Sources
Full utilisation at low power when one GPU stopped answering: the ml-engineering handbook on
debugging. A multiple of the run's own step time without its warm-up: ml-goodput-measurement. 10 and
5 minutes and ten steps are ours; Princeton's Job Defense Shield looks at four hours. SageMaker's
StalledTrainingRule waits 30 minutes for a saved tensor. The limits of power, cores, memory and
traffic are ours (`rules/stillness.py`). Nearly all of the time can be given back (0.9 to 1): our
estimate.
"""

from __future__ import annotations

from rules.category import TIME
from rules.evidence import clamp_seconds
from rules.frame import RunFrame
from rules.hangs import earliest_end_seconds, find_hangs
from rules.intervals import total_seconds
from rules.rule import Claim, Directness, Numbers, Parameter, Rule, Values, Verdict
from rules.told import A_STEP, AN_EVENT
from rules.wording import lasting

RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.9, 1.0

LABELS = ("hung", "idle_tail", "restart")


def measure(frame: RunFrame, values: Values) -> Numbers:
    found = find_hangs(frame, values["idle_seconds"], values["spin_seconds"])
    windows = found.windows if found else []
    lengths = [w.end_seconds - w.start_seconds for w in windows]
    numbers = {
        "run_seconds": frame.duration_seconds,
        "hung_seconds": total_seconds(windows) if found else None,
        "longest_seconds": max(lengths, default=0.0),
        "hangs_count": float(len(lengths)),
        "has_steps": float(found is not None and found.has_steps),
        "is_certain": float(found is not None and found.is_certain),
    }
    return Numbers(numbers, tuple(windows), found.missing if found else ())


def judge(numbers: Numbers, values: Values) -> Verdict:
    hung, run = numbers.get("hung_seconds"), numbers.get("run_seconds") or 0.0
    if hung is None:
        return Verdict(
            "insufficient_data", "Missing: training steps, or the utilisation of GPUs or cores."
        )
    if hung <= 0:
        return Verdict("passed", "The run was never without progress for long.")
    lost = clamp_seconds(hung, run)
    return Verdict(
        "fired",
        _summary(numbers, lost),
        advice="Dump the stacks of its processes (py-spy dump), lower the timeout of the process "
        "group, and let Trimtab stop hung runs.",
        claims=(Claim(LABELS, lost, RECOVERABLE_LOW, RECOVERABLE_HIGH),),
        severity="high",
        dedupe_key="hung",
        may_stop=bool(numbers.get("is_certain")),
    )


def _summary(numbers: Numbers, lost: float) -> str:
    count, longest = numbers.get("hangs_count") or 1.0, numbers.get("longest_seconds") or lost
    summary = f"The run made no progress for {lasting(lost)}"
    if count > 1:
        summary += f", in {count:.0f} stretches of up to {lasting(longest)}"
    if numbers.get("is_certain"):
        return f"{summary}: no step ended, and neither GPUs nor processes worked."
    if numbers.get("has_steps"):
        return (
            f"{summary}: no step ended, and nothing is known to have worked. Not all of its own "
            "CPU time, reads and writes, memory and suspended processes were seen."
        )
    return f"{summary}: it spun or polled without doing anything. It reported no steps."


def window_seconds(values: Values) -> float:
    """Return the length of the hang, and of as much of the work before it."""
    return 2 * max(values["idle_seconds"], values["spin_seconds"])


def soonest_seconds(frame: RunFrame, values: Values) -> float:
    """Return the earliest second: steps that end now rule a hang out for the least time that one
    takes.
    """
    return earliest_end_seconds(frame, values["idle_seconds"], values["spin_seconds"])


RULE = Rule(
    id="hung",
    title="Hung run",
    category=TIME,
    version=5,
    needs=(),
    claims_on=LABELS,
    directness=Directness.TOLD_CAUSE,
    ruled_out_by=(A_STEP, AN_EVENT),
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
    window_seconds=window_seconds,
    soonest_seconds=soonest_seconds,
    reports_risk=True,
    may_stop=True,
)
