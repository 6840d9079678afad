"""The common part of CPUBottleneck and IOBottleneck: time with a busy host and idle GPUs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from rules.activity import used_gpu_pct, working
from rules.evidence import clamp_seconds, known_together
from rules.frame import NodeFrame, RunFrame
from rules.gpus import gpu_counts, unfit
from rules.intervals import intervals_where
from rules.machine_time import used_share
from rules.parameter import SAGEMAKER_SAMPLE_SECONDS, Parameter
from rules.rule import Claim, Numbers, Values, Verdict, Window
from rules.windows import needed_seconds
from rules.wording import lasting, write_shortage

BRIDGE_SECONDS = 5.0
RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.5, 0.9
LABELS = ("data_stall", "gpu_idle", "low_sm", "epoch_gap")
HostLoad = Callable[[NodeFrame, float], "pd.Series[float] | None"]
"""The load of a node's host, 0..100, from a node and the resolution in seconds."""


@dataclass(frozen=True)
class Wording:
    key: str
    what: str
    parameter: str
    """The threshold above which the host's load counts."""
    advice: str


def measure_bottleneck(frame: RunFrame, load: HostLoad, load_pct: float, gpu_pct: float) -> Numbers:
    """Return the known seconds of work, and those with the host above `load_pct` and GPUs below
    `gpu_pct`; node-seconds over the number of nodes. An unused GPU waits for nothing.
    """
    by_node = {node.key: _node_ticks(node, load, frame) for node in frame.nodes.values()}
    ticks = {key: known for key, known in by_node.items() if known is not None}
    resolution, nodes = frame.resolution_seconds, max(len(frame.nodes), 1)
    seen = low = stuck = waiting = 0.0
    windows: list[Window] = []
    for key, (gpu, loaded) in ticks.items():
        is_low = gpu.to_numpy() < gpu_pct
        is_stuck = is_low & (loaded.to_numpy() > load_pct)
        seen, low = seen + len(gpu) * resolution, low + float(is_low.sum()) * resolution
        stuck += float(is_stuck.sum()) * resolution
        waiting += used_share(frame.nodes[key]) * float(is_stuck.sum()) * resolution
        flags = pd.Series(is_stuck, index=gpu.index)
        parts = intervals_where(flags, resolution, BRIDGE_SECONDS, BRIDGE_SECONDS)
        windows += [Window(w.start_seconds, w.end_seconds, key) for w in parts]
    numbers = gpu_counts(frame) | {
        "run_seconds": frame.duration_seconds,
        "seen_seconds": seen / nodes,
        "low_gpu_seconds": low / nodes,
        "bottleneck_seconds": stuck / nodes,
        "waiting_run_seconds": waiting / nodes,
        "bottleneck_share_pct": round(100 * stuck / seen, 6) if seen else None,
    }
    return Numbers(numbers, tuple(windows))


def judge_bottleneck(numbers: Numbers, values: Values, wording: Wording) -> Verdict:
    if reason := unfit(numbers):
        return reason
    if numbers.missing:
        return Verdict("insufficient_data", f"Missing: {', '.join(numbers.missing)}.")
    run_seconds, seen = numbers.get("run_seconds") or 0.0, numbers.get("seen_seconds")
    share, needed = numbers.get("bottleneck_share_pct"), needed_seconds(values, numbers)
    if seen is not None and seen < needed:
        short = write_shortage(seen, needed, "of work with both host and GPUs known")
        return Verdict("insufficient_data", f"Not enough data: {short}.")
    if seen is None or share is None:
        return Verdict("insufficient_data", "Missing: time in which host and GPUs are known.")
    stuck = clamp_seconds(numbers.get("bottleneck_seconds") or 0.0, run_seconds)
    waiting = clamp_seconds(numbers.get("waiting_run_seconds") or 0.0, stuck)
    summary = (
        f"In {share:.1f} % of {lasting(seen)} of work, {wording.what} (above "
        f"{values[wording.parameter]:g} %) while the GPUs were idle (below "
        f"{values['gpu_threshold']:g} %)."
    )
    if not share > values["threshold"]:
        return Verdict("passed", summary)
    return Verdict(
        "fired",
        summary,
        advice=wording.advice,
        claims=(Claim(LABELS, waiting, RECOVERABLE_LOW, RECOVERABLE_HIGH),),
        severity="high" if share >= 75 else "medium",
        dedupe_key=wording.key,
    )


def bottleneck_parameters() -> tuple[Parameter, ...]:
    """Return `threshold`, `gpu_threshold` and patience, the same in both rules."""
    return (
        Parameter(
            "threshold",
            "%",
            50,
            0,
            100,
            "Fires above this share of the time",
            "SageMaker, 50",
            "threshold",
            save=35,
            safe=65,
        ),
        Parameter(
            "gpu_threshold",
            "%",
            10,
            0,
            100,
            "GPUs count as idle below",
            "SageMaker, 10",
            "gpu_threshold",
            measured=True,
        ),
        *patience_parameters(),
    )


def patience_parameters() -> tuple[Parameter, ...]:
    """Return the parameters of the evidence that a verdict needs; see `windows.needed_seconds`."""
    return (
        Parameter(
            "patience_seconds",
            "s",
            500,
            20,
            86_400,
            "Known seconds of work needed to judge",
            "SageMaker, 1000 samples at 0.5 s",
            sagemaker_name="patience",
            sagemaker_factor=SAGEMAKER_SAMPLE_SECONDS,
        ),
        Parameter(
            "patience_share_pct",
            "%",
            25,
            0,
            100,
            "In a short run, this share of it is enough",
            "ours",
        ),
    )


def _node_ticks(
    node: NodeFrame, load: HostLoad, frame: RunFrame
) -> tuple[pd.Series[float], pd.Series[float]] | None:
    """Return the GPUs' use and the host's load at the ticks of work at which both are known."""
    gpu = working(node, used_gpu_pct(node))
    loaded = load(node, frame.resolution_seconds)
    if gpu is None or loaded is None:
        return None
    gpu, loaded = known_together(gpu, loaded)
    return (gpu, loaded) if len(gpu) else None
