"""One rank of a training without GPUs is slower than the others, which wait for it.

## What it checks
The training steps of each rank without its first: the time that the rank itself needs for a step,
and its wait for data. Time in communication counts as waiting for others, if every rank reports it
(`trimtab.phase("communication")`). A rank is late by the larger of two differences from the median
of all ranks: of its own time, and of its wait for data.

## Why it costs money
Ranks that train together run at the pace of the slowest one, and all others are paid for waiting.

## When it fires
When the slowest rank is late by at least `late_share_pct` of the median step, in at least three of
the run's four quarters, with `minimum_steps` steps of every rank.

## When it is wrong
If ranks synchronise inside of their steps and don't report communication, all of their steps take
equally long, and a rank that computes slowly stays hidden; a rank that waits for its data doesn't.
The same holds if an agent had too many events to keep all of them (`events_lost`).
Ranks that don't wait for each other, such as those of a parameter search, cost nothing by being
unequal.

## How to fix it
Look at what else runs on the slow rank's node, and at its cores, memory and disk. Give every rank
as many cores, workers and samples. Replace the machine if it is slow in every run.

## Parameters
`late_share_pct` and `minimum_steps`, as above.

## Sources
10 %: TraceML's skew. Three quarters of the run, so that a pause isn't a straggler: ours. The waste
is the time by which the rank is late, half of it at the lower end. GPUs are judged by
`load_balancing`.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rules.category import STEPS
from rules.evidence import within
from rules.frame import NodeFrame, RunFrame
from rules.idle import has_gpus
from rules.rule import Numbers, Parameter, Rule, Values, Verdict
from rules.training_loop import events_of

QUARTERS, LATE_QUARTERS = 4, 3
Floats = NDArray[np.float64]


def measure(frame: RunFrame, values: Values) -> Numbers:
    numbers: dict[str, float | None] = {
        "run_seconds": frame.duration_seconds,
        "has_gpus": float(has_gpus(frame)),
    }
    if numbers["has_gpus"]:
        return Numbers(numbers)
    ranks_count = sum(node.training_ranks for node in frame.nodes.values())
    if ranks_count < 2:
        return Numbers(numbers | {"ranks_count": float(ranks_count)})
    table = _steps(frame)
    if not len(table):
        return Numbers(numbers)
    whole, quarters = _late(table), [_late(part) for _, part in table.groupby("quarter")]
    worst = str(whole["late"].idxmax())
    step = float(whole["time"].median())
    shares = [_share(part, worst) for part in quarters]
    numbers |= {
        "ranks_count": float(len(whole)),
        "steps_count": float(whole["count"].min()),
        f"late_share_pct@{worst}": _share(whole, worst),
        f"late_seconds@{worst}": float(whole["late"][worst] * whole["count"][worst]),
        f"is_data@{worst}": float(whole["late_data"][worst] >= whole["late_own"][worst]),
        "step_seconds": step,
        # The lowest of the best three.
        f"steady_share_pct@{worst}": sorted(shares, reverse=True)[:LATE_QUARTERS][-1]
        if len(shares) >= LATE_QUARTERS
        else None,
    }
    return Numbers(numbers)


def judge(numbers: Numbers, values: Values) -> Verdict:
    if numbers.known("has_gpus"):
        return Verdict("not_applicable", "The run has GPUs: see load_balancing.")
    ranks, steps = numbers.known("ranks_count"), numbers.known("steps_count") or 0.0
    late = numbers.by_entity("late_share_pct")
    if not ranks:
        return Verdict("insufficient_data", "Missing: training steps.")
    if ranks < 2:
        return Verdict("not_applicable", "The run has one rank.")
    if steps < values["minimum_steps"]:
        needed = f"{steps:.0f} steps of a rank, but {values['minimum_steps']:.0f} are needed"
        return Verdict("insufficient_data", f"Not enough data: {needed}.")
    rank, share = max(late.items(), key=lambda each: each[1])
    steady = numbers.by_entity("steady_share_pct").get(rank, 0.0)
    summary = f"The slowest of {ranks:.0f} ranks, {rank}, is late by {share:.1f} % of a step."
    if min(share, steady) < values["late_share_pct"]:
        return Verdict("passed", summary)
    run = numbers.known("run_seconds") or 0.0
    lost = within(numbers.by_entity("late_seconds").get(rank, 0.0), run)
    is_data = numbers.by_entity("is_data").get(rank)
    return Verdict(
        "fired",
        f"{summary} It {'waits longer for its data' if is_data else 'needs longer for itself'}.",
        advice=f"Compare {rank} with the others: what else runs on its node, and its share of "
        "cores, workers and samples.",
        waste_seconds_low=0.5 * lost,
        waste_seconds_high=lost,
        severity="high" if share >= 3 * values["late_share_pct"] else "medium",
        dedupe_key="stragglers",
    )


def _share(ranks: pd.DataFrame, rank: str) -> float:
    """By how much of the median step the rank is late."""
    step = float(ranks["time"].median())
    return 100 * float(ranks["late"].get(rank, 0.0)) / step if step > 0 else 0.0


def _late(table: pd.DataFrame) -> pd.DataFrame:
    """By rank: the mean time of a step, and by how much it is later than the median rank."""
    sums = table.groupby("rank")[["count", "seconds", "own", "wait"]].sum()
    ranks = pd.DataFrame({"count": sums["count"], "time": sums["seconds"] / sums["count"]})
    for name, column in (("late_own", "own"), ("late_data", "wait")):
        mean = sums[column] / sums["count"]
        ranks[name] = (mean - mean.median()).clip(lower=0.0)
    ranks["late"] = ranks[["late_own", "late_data"]].max(axis=1)
    return ranks


def _steps(frame: RunFrame) -> pd.DataFrame:
    """Each rank's training steps but its first: `count`, and seconds in all, its `own` and `wait`
    for data, with the quarter of the loop in which they began."""
    table = pd.concat([_of_node(node) for node in frame.nodes.values()], ignore_index=True)
    if not len(table):
        return table
    table = table.sort_values(["rank", "start"], ignore_index=True)
    begin, end = table["start"].min(), table["start"].max()
    place = (table["start"] - begin) / max(float(end - begin), 1e-6) * QUARTERS
    table["quarter"] = np.minimum(place.astype(int), QUARTERS - 1)
    is_lost = any(events_of(node, "events_lost") for node in frame.nodes.values())
    if is_lost or not table["communication"].groupby(table["rank"]).any().all():
        table["communication"] = 0.0
    table["own"] = (table["seconds"] - table["communication"]).clip(lower=0.0)
    return table


def _of_node(node: NodeFrame) -> pd.DataFrame:
    steps = node.steps[(node.steps["phase"] == "train") & (node.steps["duration_seconds"] > 0)]
    first = steps.groupby("rank")["start_seconds"].transform("min")
    steps = steps[steps["start_seconds"] > first]
    count = steps["count"].fillna(1.0).to_numpy(dtype=float)
    start = steps["start_seconds"].to_numpy(dtype=float)
    seconds = steps["duration_seconds"].to_numpy(dtype=float) * count
    reported = _communication(node)
    ranks = steps["rank"].to_numpy()
    spent = np.zeros(len(steps))
    for rank, spans in reported.items():
        mine = ranks == rank
        spent[mine] = _covered(spans, start[mine], start[mine] + seconds[mine])
    return pd.DataFrame(
        {
            "rank": [f"{node.key}/rank{int(rank)}" for rank in ranks],
            "start": start,
            "count": count,
            "seconds": seconds,
            "wait": steps["data_wait_seconds"].fillna(0.0).to_numpy(dtype=float) * count,
            "communication": spent,
        }
    )


def _communication(node: NodeFrame) -> dict[int, list[tuple[float, float]]]:
    """When each rank reported communication."""
    begun: dict[int, float] = {}
    spans: dict[int, list[tuple[float, float]]] = defaultdict(list)
    edges = [(at, data, "begin") for at, data in events_of(node, "phase_begin")]
    edges += [(at, data, "end") for at, data in events_of(node, "phase_end")]
    for at, data, edge in sorted(edges, key=lambda each: each[0]):
        rank = data.get("rank")
        if data.get("phase") != "communication" or not isinstance(rank, int):
            continue
        if edge == "begin":
            begun[rank] = at
        elif rank in begun:
            spans[rank].append((begun.pop(rank), at))
    return spans


def _covered(spans: list[tuple[float, float]], start: Floats, end: Floats) -> Floats:
    """The seconds from each start to its end that lie in spans, which don't overlap."""
    edges = np.array(spans).ravel()
    before = np.repeat(np.cumsum([0.0, *(b - a for a, b in spans)]), 2)[1:-1]
    covered: Floats = np.interp(end, edges, before) - np.interp(start, edges, before)
    return covered


RULE = Rule(
    id="stragglers",
    title="A rank that the others wait for",
    category=STEPS,
    version=1,
    needs=(),
    parameters=(
        Parameter(
            "late_share_pct",
            "%",
            10,
            1,
            1000,
            "Late by at least this share of a step",
            "TraceML's skew, 10 %",
            save=7,
            safe=20,
        ),
        Parameter("minimum_steps", "steps", 30, 5, 1e6, "Least steps of each rank", "ours"),
    ),
    measure=measure,
    judge=judge,
)
