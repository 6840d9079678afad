"""A long training that saves nothing.

## What it checks
Whether a run that trains (tells steps) has told a checkpoint, or written in bursts (five times the
median and 20 MB/s) as one does that saves, and how long it has been at work.

## Why it costs money
When the machine fails, or the spot instance is taken back, all of it is computed again.

## When it fires
After `without_seconds` of work in which no checkpoint was told and none seen by its writing. While
the run goes on, as soon as that is so.

## When it is wrong
A small model is saved too fast to be seen, or to a place that isn't watched. Tell it:
`with trimtab.phase("checkpoint"):`.

## How to fix it
Save every half an hour or so; `checkpoint_interval` says what pays.

## Parameters
`without_seconds`, and `mtbf_hours` and `spot_mtbf_hours`: how often a node fails.

## Sources
Two hours: ours. What is at stake is the chance of a failure times half of the work: by one failure
in 30 days and node (ours; Meta's Llama 3 report counts one in about nine months for eight GPUs, and
smaller sites more), and for the upper end by one a day, as on spot.
"""

from __future__ import annotations

from rules.activity import work_began
from rules.category import TIME
from rules.checkpoints import checkpoint_spans, write_bursts
from rules.evidence import within
from rules.frame import RunFrame
from rules.rule import Numbers, Parameter, Rule, Values, Verdict


def measure(frame: RunFrame, values: Values) -> Numbers:
    nodes = list(frame.nodes.values())
    began = [node.warm_up_end_seconds() for node in nodes if work_began(node)]
    written = [write_bursts(node, frame.resolution_seconds) for node in nodes]
    numbers = {
        "run_seconds": frame.duration_seconds,
        "steps_count": float(len(frame.steps)),
        "work_seconds": frame.duration_seconds - min(began) if began else 0.0,
        "nodes_count": float(len(nodes)),
        "told_count": float(sum(len(checkpoint_spans(n, frame.duration_seconds)) for n in nodes)),
        "bursts_count": float(sum(len(bursts) for bursts in written if bursts is not None)),
    }
    return Numbers(numbers)


def judge(numbers: Numbers, values: Values) -> Verdict:
    work, run = numbers.known("work_seconds") or 0.0, numbers.known("run_seconds") or 0.0
    told = numbers.known("told_count") or 0.0
    if told:
        return Verdict("passed", f"{told:.0f} checkpoints were told.")
    if not numbers.known("steps_count"):
        return Verdict("insufficient_data", "No training step was seen: call trimtab.step().")
    if work < values["without_seconds"]:
        return Verdict("passed", f"{work:.0f} s of work: little would be lost.")
    if seen := numbers.known("bursts_count"):
        ask = 'If they are checkpoints, tell them: trimtab.phase("checkpoint").'
        return Verdict("insufficient_data", f"{seen:.0f} bursts of writing were seen. {ask}")
    nodes = max(numbers.known("nodes_count") or 1.0, 1.0)
    low, high = (
        within(work * min(nodes * work / (2 * 3600 * values[name]), 1.0), run)
        for name in ("mtbf_hours", "spot_mtbf_hours")
    )
    return Verdict(
        "fired",
        f"In {work / 3600:.1f} h of work no checkpoint was told or seen.",
        advice="Save every half an hour or so, to a place that outlives the machine.",
        waste_seconds_low=min(low, high),
        waste_seconds_high=max(low, high),
        severity="high" if work > 4 * values["without_seconds"] else "medium",
        dedupe_key="checkpoint_missing",
    )


RULE = Rule(
    id="checkpoint_missing",
    title="Nothing is saved",
    category=TIME,
    version=1,
    needs=(),
    parameters=(
        Parameter(
            "without_seconds",
            "s",
            7200,
            60,
            864_000,
            "Work without a checkpoint",
            "ours",
            save=3600,
            safe=14_400,
        ),
        Parameter("mtbf_hours", "h", 720, 1, 1e6, "A node fails once in", "30 days: ours"),
        Parameter("spot_mtbf_hours", "h", 24, 0.1, 1e6, "As on spot: once in", "ours"),
    ),
    measure=measure,
    judge=judge,
)
