"""Runs on many nodes, uploaded as by the agents of a cluster."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from trimtab.wire import Block, Declaration, Event, Segment, StepBlock

from tests.web import training
from webapp.accounts.models import Workspace
from webapp.runs.models import Run

GIB = 2**30


@dataclass
class ClusterNode(training.Training):
    """One node: its GPUs are `busy_pct` busy, and its ranks need `step_ms` for a step."""

    number: int = 1
    busy_pct: float = 92.0
    step_ms: int = 200
    has_counters: bool = True
    """True if the GPUs have all that a Hopper GPU is asked for."""
    events: list[Event] = field(default_factory=list)

    def declaration(self) -> Declaration:
        declared = super().declaration()
        name = f"training-{self.number}"
        return replace(declared, node=replace(declared.node, hostname=name))

    def _segment(self, seq: int) -> Segment:
        made = super()._segment(seq)
        steps = [self._steps(rank) for rank in range(self.gpus)]
        return replace(made, steps=steps, events=[*made.events, *(self.events if not seq else ())])

    def _steps(self, gpu: int) -> StepBlock:
        count = training.SEGMENT_MS // self.step_ms
        each_us = self.step_ms * 1000
        return StepBlock(
            rank=(self.number - 1) * self.gpus + gpu,
            phase="train",
            start_us=[i * each_us for i in range(count)],
            duration_us=[each_us - 1000] * count,
            data_wait_us=[10_000] * count,
            samples=[64] * count,
        )

    def _block(self, seq: int) -> Block:
        block = super()._block(seq)
        count = len(block.times_ms)
        ticks = [seq * count + i for i in range(count)]
        for gpu in range(self.gpus):
            busy = [min(self.busy_pct + 3 * math.sin(t / 5 + gpu), 100.0) for t in ticks]
            block.columns[f"gpu{gpu}.busy_pct"] = busy
            if self.has_counters:
                block.columns.update(_counters(f"gpu{gpu}", ticks, self.busy_pct))
        return block


def _counters(gpu: str, ticks: list[int], busy_pct: float) -> dict[str, list[Any]]:
    half = training.TICK_MS / 1000
    return {
        f"{gpu}.sm_active_pct": [0.8 * busy_pct for _ in ticks],
        f"{gpu}.tensor_active_pct": [0.4 * busy_pct for _ in ticks],
        f"{gpu}.dram_active_pct": [0.5 * busy_pct for _ in ticks],
        f"{gpu}.power_watts": [6.5 * busy_pct for _ in ticks],
        f"{gpu}.power_limit_watts": [700 for _ in ticks],
        f"{gpu}.sm_clock_mhz": [1755 for _ in ticks],
        f"{gpu}.throttled_thermal_ns_total": [int(t * half * 1e8) for t in ticks],
        f"{gpu}.pcie_received_bytes_total": [int(t * half * GIB) for t in ticks],
        f"{gpu}.nvlink_received_bytes_total": [int(t * half * 40 * GIB) for t in ticks],
    }


def uploaded_cluster(
    of: Workspace, nodes: int = 8, gpus: int = 1, slow: int = 0, **shape: Any
) -> Run:
    """Upload a run of so many nodes, of which `slow` (1..) idles for most of the time; 0: none."""
    run_id, began_ns = uuid4(), 0
    for number in range(1, nodes + 1):
        own = {"busy_pct": 30.0, "step_ms": 250} if number == slow else {}
        node = ClusterNode(
            "vision/cluster.py",
            gpus=gpus,
            run_id=run_id,
            number=number,
            **{"machine": f"machine-{number}", **shape, **own},
        )
        began_ns = began_ns or node.clock.started_at_ns
        node.clock = replace(node.clock, started_at_ns=began_ns)
        training.upload(of, node)
    return Run.objects.get(pk=run_id)
