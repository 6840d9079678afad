"""The use of each node's and GPU's time: seconds of each grid cell, by label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rules.activity import host_cpu_pct, own_cores, work_began
from rules.checkpoints import checkpoint_stalls
from rules.compilation import compile_spans, first_step_spans
from rules.frame import NodeFrame, RunFrame
from rules.grid import Floats, Grid, unseen_seconds
from rules.hangs import hangs
from rules.idle import BACKGROUND_SHARE, tail_seconds
from rules.intervals import merge_windows, subtract_windows
from rules.processes import are_cores_own
from rules.registry import all_rules
from rules.restarts import process_restarts, restore_spans
from rules.rule import Values, Window
from rules.stages import other_stages, start_up
from rules.stalls import data_waits, gpu_shares, idle_share
from rules.starvation import starved_seconds, waiting_threads
from rules.step_gaps import unexplained_gaps
from rules.throttling import REASONS, slowed_share
from rules.told import told_gpus
from rules.training_loop import phase_spans

TOLD = (
    "restore",
    "restart",
    "initialise",
    "checkpoint",
    "evaluation",
    "epoch_gap",
    "compile",
    "first_steps",
    "lost",
    "data_stall",
    "communication",
)
"""Labels by what the training tells; its ranks may work, sleep or be starved in their time."""
AS_RULES = ("epoch_gaps", "hung", "idle_tail", "unused_gpus")
"""Rules whose parameters also define their labels, so that findings and ledger agree."""
BUSY_SHARE, LOW_SM_SHARE, GOOD_SM_SHARE = 0.8, 0.5, 0.8


@dataclass(frozen=True)
class RunSpans:
    """The facts that apply to all nodes."""

    values: Mapping[str, Values]
    """The parameter values of each of `AS_RULES`."""
    tail: list[Window]
    hung: list[Window]
    lost: Mapping[str, list[Window]]
    """The time in steps that were done again, by node."""
    some_gpu_used: bool


def run_spans(
    frame: RunFrame, parameters: Mapping[str, Values], lost: Mapping[str, list[Window]]
) -> RunSpans:
    """Return the idle tail of a run that has ended, its hangs, and whether any GPU was in use.

    Args:
        lost: by node, the time in steps that were done again.
    """
    values = {rule: all_rules()[rule].values(parameters.get(rule)) for rule in AS_RULES}
    idle, hang = values["idle_tail"], values["hung"]
    limits = idle["idle_gpu_pct"], idle["idle_cores_pct"]
    tail = tail_seconds(frame, *limits) if frame.final else None
    hung = hangs(frame, hang["idle_seconds"], hang["spin_seconds"]) or []
    used = any(node.first_use_seconds is not None for node in frame.nodes.values())
    spans = [Window(tail[0], frame.duration_seconds)] if tail and tail[1] > 0 else []
    return RunSpans(values, spans, hung, lost, used)


def node_seconds(
    node: NodeFrame, frame: RunFrame, spans: RunSpans, grid: Grid
) -> dict[str, Floats]:
    """Return seconds of each cell by label, for the labels that all GPUs of the node share. A label
    without any time is left out.
    """
    end, gap = frame.duration_seconds, spans.values["epoch_gaps"]
    saved = checkpoint_stalls(node, frame)
    gaps = unexplained_gaps(node, frame, gap["gap_seconds"], gap["median_steps"]) or []
    began = _began(node, frame)
    restarts, begun = process_restarts(node)
    # A process that did nothing before the end wasn't starting any more, but idle.
    begins = subtract_windows(begun, spans.tail)
    windows = {
        "restore": restore_spans(node, end),
        "initialise": merge_windows(
            [*start_up(node, began, min(grid.start_seconds, 0.0)), *begins]
        ),
        "idle_tail": subtract_windows(spans.tail, other_stages(node, began, end)),
        "hung": spans.hung,
        "restart": restarts,
        "checkpoint": saved[0] if saved else [],
        "evaluation": phase_spans(node, "evaluate", end),
        "epoch_gap": gaps,
        "compile": compile_spans(node),
        "first_steps": first_step_spans(node),
        "lost": spans.lost.get(node.key, []),
        "communication": phase_spans(node, "communication", end),
    }
    covered = {
        label: grid.covered_seconds(list(found)) for label, found in windows.items() if found
    }
    return {
        "gap": unseen_seconds(node, grid),
        "starved": starved_seconds(node, frame.resolution_seconds, grid),
        "data_stall": data_waits(node, grid),
        **covered,
    }


def gpu_seconds(
    node: NodeFrame, number: int, frame: RunFrame, spans: RunSpans, grid: Grid
) -> dict[str, Floats]:
    """Return the labels that depend on the GPU, in seconds of each cell.

    `idle` is no label: it is the time in which the GPU may have waited for a batch.
    """
    busy, active = gpu_shares(node, number, grid)
    known, used = ~np.isnan(busy), np.nan_to_num(busy)
    full = np.where(used >= BUSY_SHARE, 1.0, used)
    few_sm = active < LOW_SM_SHARE * full
    good = np.where(few_sm, active / GOOD_SM_SHARE, used)
    throttled = _throttled(node, number, frame, grid)
    unused = _is_unused(node, number, frame, spans)
    shares = {
        "unused_gpu": np.full(grid.count, float(unused)),
        "idle": idle_share(busy),
        "throttled": throttled,
        "low_sm": np.where(few_sm, full - good, 0.0),
        "effective": np.clip(good - throttled, 0.0, None),
        "gpu_idle": known.astype(float),
    }
    return {label: share * grid.width_seconds for label, share in shares.items()}


def cpu_seconds(node: NodeFrame, frame: RunFrame, grid: Grid) -> dict[str, Floats]:
    """Return, for a node without GPUs, the part of its cores that worked for the run. The rest of
    the cell is unused cores, as far as it has no other label.
    """
    used, contested = _cpu_shares(node, frame, grid)
    shares = {
        "effective": np.clip(np.nan_to_num(used), 0.0, 1.0),
        "unused_cores": np.where(contested > 0, np.clip(1.0 - used - contested, 0.0, None), 1.0),
    }
    is_known = ~np.isnan(used)
    return {label: share * is_known * grid.width_seconds for label, share in shares.items()}


def _cpu_shares(node: NodeFrame, frame: RunFrame, grid: Grid) -> tuple[Floats, Floats]:
    """Return the share of the node's cores that the run used, and the share that others used while
    it isn't known whether the run waited for cores.

    Others: the machine's busy cores that are not the run's, beyond those that it wasn't given and
    beyond the 2 % that the system itself uses.
    """
    host = grid.of_series(host_cpu_pct(node)) / 100
    total, given = _cores(node)
    own = own_cores(node, frame.resolution_seconds)
    if not total or own is None or not are_cores_own(node):
        return host, np.zeros(grid.count)
    used = grid.block_means(grid.of_series(own))
    others = grid.block_means(host) * total - used - (total - given) - BACKGROUND_SHARE * total
    waiting = grid.block_means(grid.of_series(waiting_threads(node, frame.resolution_seconds)))
    contested = np.where(np.isnan(waiting), np.nan_to_num(others), 0.0)
    return used / given, np.clip(contested / given, 0.0, None)


def _cores(node: NodeFrame) -> tuple[float, float]:
    """Return the machine's cores and those that the run was given; 0 if unknown."""
    total, given = float(node.hardware.vcpus), node.hardware.effective_cpus
    return total or given, given or total


def _began(node: NodeFrame, frame: RunFrame) -> float:
    """Return when the node's work began. A running node with GPUs that has not begun yet is
    starting up.
    """
    if work_began(node):
        return node.warm_up_end_seconds()
    is_starting = bool(node.allocated_gpus()) and not frame.final
    return frame.duration_seconds if is_starting else 0.0


def _is_unused(node: NodeFrame, number: int, frame: RunFrame, spans: RunSpans) -> bool:
    highest = node.gpu_busy_p99_pct(number)
    if (
        highest is None
        or number in told_gpus(node)
        or highest > spans.values["unused_gpus"]["unused_pct"]
    ):
        return False
    return frame.final or spans.some_gpu_used


def _throttled(node: NodeFrame, number: int, frame: RunFrame, grid: Grid) -> Floats:
    """Return the share of each cell in which heat or the power brake limited the clocks."""
    total = np.zeros(grid.count)
    for reason in REASONS:
        share = slowed_share(node, number, reason, frame.resolution_seconds)
        if share is not None:
            total += np.nan_to_num(grid.of_series(share))
    return np.clip(total, 0.0, 1.0)
