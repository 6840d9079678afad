"""The time before the first step is long. The finding shows how it was spent.

## What it checks
The time from the start of the run to the first training step (or the first use of a GPU). Each
second of it is one of: compiling (as told), receiving from the network (10 MB/s and more; not
beside other programs, whose traffic it may be), reading from disks (10 MB/s and more, by the run's
own processes where that is known), starved (half a thread and more waits for a core that others
hold), computing (half a core and more), waiting (the rest). Seconds without samples are unknown.

## Why it costs money
All nodes are paid for while packages are installed, data is copied and code is compiled.

## When it fires
When that time is at least `long_seconds`; or, after the end of the run, at least `share_pct` of the
run and `least_seconds`. Before the end the share isn't known.

## When it is wrong
A short trial run is mostly start-up by nature. Data preparation on this machine counts as start-up,
even if intended, unless it is a command of its own in a shell script (a stage).

## How to fix it
Receiving: keep data and packages on a volume or in the image, or stream the data. Reading: use
fewer and larger files. Compiling: keep the compiler's cache on a volume. Starved: run it without
neighbours. Computing: cache compiled code, import less, prepare the data once. Waiting: look for
locks, slow name resolution, and nodes that wait for the last one.

## Parameters
`long_seconds`, `share_pct` and `least_seconds`.

## Sources
SageMaker's MaxInitializationTime looks at 20 minutes only (see `max_initialization_time`; both may
fire for the same time, which is counted once). 10 minutes, 10 %, one minute and the limits for
receiving, reading and computing are ours, and so is the estimate that 0.5 to 0.9 can be given back.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from rules.activity import own_cores, work_began
from rules.category import TIME
from rules.compilation import compile_spans
from rules.evidence import clamp_seconds
from rules.frame import NodeFrame, RunFrame
from rules.grid import Floats
from rules.intervals import subtract_windows, total_seconds
from rules.processes import has_neighbours
from rules.rule import Claim, Directness, Numbers, Parameter, Rule, Values, Verdict, Window
from rules.stages import start_up
from rules.starvation import waiting_threads
from rules.told_evidence import LEAST_SECONDS
from rules.wording import lasting

BYTES_PER_SECOND = 10e6
COMPUTING_CORES = 0.5
KINDS = ("compiling", "receiving", "reading", "starved", "computing", "waiting")
ADVICE = {
    "compiling": "Keep the compiler's cache on a volume, and start with it.",
    "receiving": "Keep data and packages on a volume or in the image, or stream the data.",
    "reading": "Use fewer and larger files, or stream the data.",
    "starved": "Other programs or a quota held the cores: run it where it gets its own.",
    "computing": "Cache compiled code, import less, prepare the data once and store it.",
    "waiting": "Find out what it waits for: locks, name resolution, or the last node.",
}
RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.5, 0.9

LABELS = ("initialise", "restore", "starved")


def measure(frame: RunFrame, values: Values) -> Numbers:
    began = {n.key: n.warm_up_end_seconds() for n in frame.nodes.values() if work_began(n)}
    numbers: dict[str, float | None] = {
        "run_seconds": frame.duration_seconds,
        "is_final": float(frame.final),
        "startup_seconds": None,
    }
    if not began:
        return Numbers(numbers)
    first = min(began, key=lambda key: began[key])
    spans = start_up(frame.nodes[first], max(began[first], 0.0))
    parts = _parts(frame.nodes[first], spans, frame.resolution_seconds)
    startup = {"startup_seconds": total_seconds(spans)}
    numbers |= startup | {f"{kind}_seconds": s for kind, s in parts.items()}
    windows = [replace(w, entity=first) for w in spans if w.end_seconds > w.start_seconds]
    return Numbers(numbers, tuple(windows))


def judge(numbers: Numbers, values: Values) -> Verdict:
    startup, run = numbers.get("startup_seconds"), numbers.get("run_seconds") or 0.0
    if startup is None:
        return Verdict(
            "insufficient_data", "Missing: training steps, or the utilisation of the GPUs."
        )
    share = 100 * startup / run if run > 0 else 0.0
    known = {kind: numbers.get(f"{kind}_seconds") for kind in KINDS}
    parts = {kind: seconds for kind, seconds in known.items() if seconds is not None}
    into = ", ".join(f"{kind} {lasting(s)}" for kind, s in parts.items() if s >= 1)
    summary = f"Start-up took {lasting(startup)}{f' ({into})' if into else ''}."
    is_long = startup >= values["long_seconds"]
    is_large = share >= values["share_pct"] and startup >= values["least_seconds"]
    if is_large and not is_long and not numbers.get("is_final"):
        soon = "Its share of the run is known at the end only."
        return Verdict("insufficient_data", f"{summary} {soon}")
    if not (is_long or is_large):
        return Verdict("passed", summary)
    lost = clamp_seconds(startup, run)
    return Verdict(
        "fired",
        f"{summary} That is {share:.0f} % of the run.",
        advice=ADVICE[max(parts, key=lambda kind: parts[kind], default="waiting")],
        claims=(Claim(LABELS, lost, RECOVERABLE_LOW, RECOVERABLE_HIGH),),
        severity="high" if share >= 30 else "medium",
        dedupe_key="startup_breakdown",
    )


def _parts(node: NodeFrame, spans: list[Window], resolution_seconds: float) -> dict[str, float]:
    """Return the seconds of each kind in `spans`; a sample counts for the first kind that applies,
    and one at the edge of a span for its part.
    """
    series = _evidence(node, resolution_seconds)
    known = {kind: each for kind, each in series.items() if each is not None}
    if not known:
        return {}
    times = np.unique(np.concatenate([each.index.to_numpy(dtype=float) for each in known.values()]))
    limits = {"receiving": BYTES_PER_SECOND, "reading": BYTES_PER_SECOND}
    flags = np.zeros((len(series), len(times)), dtype=bool)
    for number, (kind, each) in enumerate(series.items()):
        if each is not None:
            places = np.searchsorted(times, each.index.to_numpy(dtype=float))
            flags[number, places] = each.to_numpy() >= limits.get(kind, COMPUTING_CORES)
    rest = subtract_windows(spans, compile_spans(node))
    told = {"compiling": total_seconds(spans) - total_seconds(rest)}
    lengths = _covered_seconds(times, rest, resolution_seconds)
    counts = lengths > 0
    lengths, flags = lengths[counts], flags[:, counts]
    chosen = np.where(flags.any(axis=0), flags.argmax(axis=0), len(series))
    kinds = enumerate([*series, "waiting"])
    return told | {kind: float(lengths[chosen == number].sum()) for number, kind in kinds}


def _evidence(node: NodeFrame, resolution_seconds: float) -> dict[str, pd.Series[float] | None]:
    """Return what tells each kind but compiling and waiting, in their order."""
    received = node.rate("net.received_bytes_total", resolution_seconds)
    reads = ("tree.read_bytes_total", "disk.read_bytes_total")
    read = (node.rate(name, resolution_seconds) for name in reads)
    return {
        "receiving": None if has_neighbours(node, resolution_seconds) else received,
        "reading": next((each for each in read if each is not None), None),
        "starved": waiting_threads(node, resolution_seconds),
        "computing": own_cores(node, resolution_seconds),
    }


def _covered_seconds(begins: Floats, spans: list[Window], resolution_seconds: float) -> Floats:
    """Return the part of each sample that lies in the spans, which don't overlap."""
    covered = np.zeros(len(begins))
    for span in spans:
        ends = np.minimum(begins + resolution_seconds, span.end_seconds)
        covered += np.clip(ends - np.maximum(begins, span.start_seconds), 0.0, None)
    return covered


RULE = Rule(
    id="startup_breakdown",
    title="Long start-up",
    category=TIME,
    version=6,
    needs=(),
    claims_on=LABELS,
    directness=Directness.TOLD_CAUSE,
    parameters=(
        Parameter(
            "long_seconds",
            "s",
            600,
            10,
            86_400,
            "Fires from this time",
            "ours, 10 minutes",
            save=300,
            safe=1200,
        ),
        Parameter(
            "share_pct",
            "%",
            10,
            0,
            100,
            "Or from this share of the run",
            "ours",
            save=5,
            safe=15,
        ),
        LEAST_SECONDS,
    ),
    measure=measure,
    judge=judge,
)
