"""One rank of a training without GPUs is slower than the others, which wait for it.

## What it checks
The training steps of each rank without its first: the time that the rank itself needs for a step,
and its wait for data. Its own time is the step without the time in which it waits for the other
ranks: as the loop reports it (`trimtab.phase("communication")`), else as DistributedDataParallel
records it, which the training hook reads. A rank is late by the larger of two differences from the
median of all ranks (of two ranks, from the other one): of its own time, and of its wait for data.

## Why it costs money
Ranks that train together run at the pace of the slowest one, and all others are paid for waiting.

## When it fires
When the slowest rank is late by at least `late_share_pct` of the median step, in at least three of
the run's four quarters, with `minimum_steps` steps of every rank.

Ranks that synchronise inside of their steps all take equally long, however slow one of them is. So
the rule passes only where the communication of every rank is known; else it says what it lacks. It
still fires if the steps of a rank are longer than those of the others, or its waits for data.

## When it is wrong
Ranks that don't wait for each other, such as those of a parameter search, cost nothing by being
unequal. If an agent had too many events to keep all of them (`events_lost`), the reported
communication isn't used.

## How to fix it
Look at what else runs on the slow rank's node, and at its cores, memory and disk. Give every rank
as many cores, workers and samples. Replace the machine if it is slow in every run.

## Parameters
`late_share_pct` and `minimum_steps`, as above.

## Sources
10 %: TraceML's skew. Three quarters of the run, so that a pause isn't a straggler: ours. DDP times
its first ten iterations and then every hundredth; the median of those counts, from three on (ours).
The waste is the time by which the rank is late, half of it at the lower end. GPUs are judged by
`load_balancing`.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rules.category import STEPS
from rules.evidence import clamp_seconds
from rules.frame import NodeFrame, RunFrame
from rules.idle import has_gpus
from rules.rule import Claim, Numbers, Parameter, Rule, Values, Verdict
from rules.training_loop import events_of, seconds_of
from rules.wording import write_count

QUARTERS, LATE_QUARTERS = 4, 3
FEWEST_TIMED = 3
"""Iterations of a rank that DDP has timed, for their median to count."""
_UNKNOWN = (
    "The steps of the {ranks:.0f} ranks look alike, and how long each waits for the others inside "
    'of them isn\'t known: use DistributedDataParallel, or call trimtab.phase("communication").'
)
Floats = NDArray[np.float64]

LABELS = ("data_stall", "communication", "unused_cores", "effective")


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
        "is_communication_known": float(table["communication"].notna().all()),
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
    if numbers.get("has_gpus"):
        return Verdict("not_applicable", "The run has GPUs: see load_balancing.")
    ranks, steps = numbers.get("ranks_count"), numbers.get("steps_count") or 0.0
    late = numbers.by_entity("late_share_pct")
    if not ranks:
        return Verdict("insufficient_data", "Missing: training steps.")
    if ranks < 2:
        return Verdict("not_applicable", "The run has one rank.")
    if steps < values["minimum_steps"]:
        short = f"{write_count(steps, 'step')} of a rank, {values['minimum_steps']:g} needed"
        return Verdict("insufficient_data", f"Not enough data: {short}.")
    steady = numbers.by_entity("steady_share_pct")
    known = {rank: share for rank, share in late.items() if rank in steady}
    if not known:
        return Verdict("insufficient_data", "Missing: the ranks' times in most of the run.")
    rank, share = max(known.items(), key=lambda each: each[1])
    if min(share, steady[rank]) < values["late_share_pct"]:
        if not numbers.get("is_communication_known"):
            return Verdict("insufficient_data", _UNKNOWN.format(ranks=ranks))
        if known.keys() != numbers.entities("late_share_pct"):
            return Verdict("insufficient_data", "Missing: the times of some ranks.")
        return Verdict("passed", _summary(ranks, rank, share))
    run = numbers.get("run_seconds") or 0.0
    lost = clamp_seconds(numbers.by_entity("late_seconds").get(rank, 0.0), run)
    is_data = numbers.by_entity("is_data").get(rank)
    why = "waits longer for its data" if is_data else "needs longer for itself"
    return Verdict(
        "fired",
        f"{_summary(ranks, rank, share)} It {why}.",
        advice=f"Compare {rank} with the others: what else runs on its node, and its share of "
        "cores, workers and samples.",
        claims=(Claim(LABELS if is_data else LABELS[1:], lost, 0.5, 1.0),),
        severity="high" if share >= 3 * values["late_share_pct"] else "medium",
        dedupe_key="stragglers",
    )


def _summary(ranks: float, rank: str, share: float) -> str:
    if share <= 0:
        return f"None of {ranks:.0f} ranks is late."
    return f"The slowest of {ranks:.0f} ranks, {rank}, is late by {share:.1f} % of a step."


def _share(ranks: pd.DataFrame, rank: str) -> float:
    """Return by how much of the median step the rank is late."""
    step = float(ranks["time"].median())
    return 100 * float(ranks["late"].get(rank, 0.0)) / step if step > 0 else 0.0


def _late(table: pd.DataFrame) -> pd.DataFrame:
    """Return by rank the mean time of a step, and by how much it is later than the median rank."""
    sums = table.groupby("rank")[["count", "seconds", "own", "wait"]].sum()
    ranks = pd.DataFrame({"count": sums["count"], "time": sums["seconds"] / sums["count"]})
    for name, column in (("late_own", "own"), ("late_data", "wait")):
        mean = sums[column] / sums["count"]
        # Of two ranks the other one is the measure, not the middle between both.
        ranks[name] = (mean - float(mean.quantile(interpolation="lower"))).clip(lower=0.0)
    ranks["late"] = ranks[["late_own", "late_data"]].max(axis=1)
    return ranks


def _steps(frame: RunFrame) -> pd.DataFrame:
    """Return each rank's training steps but its first: `count`, and seconds in all, its `own` and
    `wait` for data, with the quarter of the loop in which they began.
    """
    table = pd.concat([_of_node(node) for node in frame.nodes.values()], ignore_index=True)
    if not len(table):
        return table
    table = table.sort_values(["rank", "start"], ignore_index=True)
    begin, end = table["start"].min(), table["start"].max()
    place = (table["start"] - begin) / max(float(end - begin), 1e-6) * QUARTERS
    table["quarter"] = np.minimum(place.astype(int), QUARTERS - 1)
    table["communication"] = _known_communication(frame, table)
    table["own"] = (table["seconds"] - table["communication"].fillna(0.0)).clip(lower=0.0)
    return table


def _known_communication(frame: RunFrame, table: pd.DataFrame) -> pd.Series[float]:
    """Return the seconds of communication of each row: as reported, else as DDP timed it. NaN: it
    isn't known of every rank."""
    is_lost = any(events_of(node, "events_lost") for node in frame.nodes.values())
    if not is_lost and table["reported"].groupby(table["rank"]).any().all():
        return table["reported"]
    return table["timed"] if table["timed"].notna().all() else table["timed"] * np.nan


def _of_node(node: NodeFrame) -> pd.DataFrame:
    steps = node.steps[(node.steps["phase"] == "train") & (node.steps["duration_seconds"] > 0)]
    first = steps.groupby("rank")["start_seconds"].transform("min")
    steps = steps[steps["start_seconds"] > first]
    count = steps["count"].fillna(1.0).to_numpy(dtype=float)
    start = steps["start_seconds"].to_numpy(dtype=float)
    seconds = steps["duration_seconds"].to_numpy(dtype=float) * count
    ranks = steps["rank"].to_numpy()
    reported, timed = np.zeros(len(steps)), np.full(len(steps), np.nan)
    for rank, spans in _communication(node).items():
        mine = ranks == rank
        reported[mine] = _covered(spans, start[mine], start[mine] + seconds[mine])
    for rank, each in _timed_seconds(node).items():
        timed[ranks == rank] = each
    return pd.DataFrame(
        {
            "rank": [f"{node.key}/rank{int(rank)}" for rank in ranks],
            "start": start,
            "count": count,
            "seconds": seconds,
            "wait": steps["data_wait_seconds"].fillna(0.0).to_numpy(dtype=float) * count,
            "reported": reported,
            "timed": timed * count,
        }
    )


def _timed_seconds(node: NodeFrame) -> dict[int, float]:
    """Return how long each rank communicates in a step after its own backward, as DDP timed it."""
    by_rank: dict[int, list[float]] = defaultdict(list)
    for _, data in events_of(node, "ddp"):
        rank = data.get("rank")
        if isinstance(rank, int):
            by_rank[rank].append(seconds_of(data.get("communication_seconds")))
    return {
        rank: float(np.median(each)) for rank, each in by_rank.items() if len(each) >= FEWEST_TIMED
    }


def _communication(node: NodeFrame) -> dict[int, list[tuple[float, float]]]:
    """Return when each rank reported communication."""
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
    """Return the seconds from each start to its end that lie in spans, which don't overlap."""
    edges = np.array(spans).ravel()
    before = np.repeat(np.cumsum([0.0, *(b - a for a, b in spans)]), 2)[1:-1]
    covered: Floats = np.interp(end, edges, before) - np.interp(start, edges, before)
    return covered


RULE = Rule(
    id="stragglers",
    title="A rank that the others wait for",
    category=STEPS,
    version=2,
    needs=(),
    claims_on=LABELS,
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
