"""A synthetic training run: healthy, with noise and gaps, until something is changed. Imports only
the type that rules read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rules.frame import EVENT_COLUMNS, STEP_COLUMNS, GpuHardware, Hardware, NodeFrame, RunFrame

GIB = 2**30
CARD_BYTES = 16 * GIB
Floats = NDArray[np.float64]
Series = dict[str, Floats]


@dataclass
class Pause:
    """A pause between two epochs: what it is, how long, and how busy the GPUs are."""

    kind: str
    seconds: float
    gpu_pct: float = 0.0
    is_told: bool = True
    """True if it is recorded as a phase; otherwise it is unexplained."""


@dataclass
class Node:
    """The data of one node, before gaps: change it to change the run."""

    key: str
    times: Floats
    working: NDArray[np.bool_]
    """True in training steps."""
    series: Series
    steps: pd.DataFrame
    events: list[tuple[float, str, dict[str, Any]]]
    vcpus: int
    gpus: int


@dataclass
class World:
    """Everything about the run; `changes` are made to each node at the end, in order."""

    random: np.random.Generator
    seconds: float = 1800.0
    resolution_seconds: float = 1.0
    nodes: int = 1
    gpus: int = 2
    ranks: int = 1
    vcpus: int = 16
    memory_gib: int = 64
    begin_seconds: float = 40.0
    tail_seconds: float = 8.0
    step_seconds: float = 1.0
    step_noise: float = 0.02
    step_skew: float | None = None
    """The deviation of the logarithm of a step's length; None: `step_noise`, normal."""
    wait_share: float = 0.02
    epochs: int = 6
    pauses: list[Pause] = field(default_factory=list)
    gpu_model: str = "V100"
    gpu_pct: float = 88.0
    cpu_pct: float = 45.0
    gpu_memory_pct: float = 60.0
    host_memory_pct: float = 50.0
    iowait_pct: float = 1.0
    with_steps: bool = True
    final: bool = True
    ending: str = "finished"
    changes: list[Callable[[Node], None]] = field(default_factory=list)

    def noise(self, count: int, deviation: float) -> Floats:
        return self.random.normal(0.0, deviation, count)

    def frame(self) -> RunFrame:
        made = [self._node(number) for number in range(self.nodes)]
        for node in made:
            for change in self.changes:
                change(node)
        frames = {node.key: self._frame(node) for node in made}
        return RunFrame(self.resolution_seconds, self.seconds, self.final, frames)

    def _node(self, number: int) -> Node:
        times = np.arange(0.0, self.seconds, self.resolution_seconds)
        steps, pauses = self._loop(number)
        working = np.zeros(len(times), dtype=bool)
        if len(steps):
            ends = steps["start_seconds"] + steps["duration_seconds"]
            working = (times >= steps["start_seconds"].min()) & (times < ends.max())
        node = Node(
            f"n{number + 1}", times, working, {}, steps, self._events(pauses), self.vcpus, self.gpus
        )
        node.series = self._series(node, pauses)
        for start, pause in pauses:
            working[(times >= start) & (times < start + pause.seconds)] = False
        if not self.with_steps:
            node.steps = steps.iloc[:0]
        return node

    def _loop(self, number: int) -> tuple[pd.DataFrame, list[tuple[float, Pause]]]:
        """Return steps of every rank, and each pause with its start."""
        between = sum(pause.seconds for pause in self.pauses)
        end = self.seconds - self.tail_seconds
        length = (end - self.begin_seconds) / self.epochs - between
        starts, durations, pauses = [], [], []
        at = self.begin_seconds
        for _ in range(self.epochs):
            count = max(int(length / self.step_seconds), 3)
            part = self._lengths(count)
            part *= length / part.sum()
            starts.append(at + np.concatenate([[0.0], np.cumsum(part[:-1])]))
            durations.append(part)
            at += length
            for pause in self.pauses:
                pauses.append((at, pause))
                at += pause.seconds
        start, duration = np.concatenate(starts), np.concatenate(durations)
        tables = []
        for rank in range(self.ranks):
            share = np.clip(self.random.normal(self.wait_share, 0.01, len(start)), 0, 0.95)
            table = pd.DataFrame(
                {
                    "rank": rank + number * self.ranks,
                    "phase": "train",
                    "start_seconds": start,
                    "duration_seconds": duration,
                    "data_wait_seconds": share * duration,
                    "samples": 32.0,
                    "count": 1,
                    "tokens": float("nan"),
                }
            )
            tables.append(table[list(STEP_COLUMNS)])
        return pd.concat(tables, ignore_index=True), pauses

    def _lengths(self, count: int) -> Floats:
        """Return lengths of steps, around 1."""
        if self.step_skew is None:
            return np.clip(self.random.normal(1, self.step_noise, count), 0.7, 1.3)
        return self.random.lognormal(0.0, self.step_skew, count)

    def _events(self, pauses: list[tuple[float, Pause]]) -> list[tuple[float, str, dict[str, Any]]]:
        found: list[tuple[float, str, dict[str, Any]]] = [(0.0, "process_start", {})]
        for start, pause in pauses:
            if pause.is_told:
                data = {"phase": pause.kind, "rank": 0}
                found.append((start, "phase_begin", data))
                found.append((start + pause.seconds, "phase_end", data))
            if pause.is_told and pause.kind == "checkpoint":
                at = start + pause.seconds
                found.append((at, "checkpoint", {"seconds": pause.seconds, "rank": 0}))
        if self.final:
            code = 0 if self.ending == "finished" else 1
            found.append((self.seconds, "process_exit", {"exit_code": code}))
            found.append((self.seconds, "session_end", {"state": self.ending, "exit_code": code}))
        return found

    def _series(self, node: Node, pauses: list[tuple[float, Pause]]) -> Series:
        count, working = len(node.times), node.working
        held = node.times >= self.begin_seconds / 2
        cpu = np.where(working, self.cpu_pct, 12.0) + self.noise(count, 3)
        series: Series = {}
        for gpu in range(self.gpus):
            busy = np.where(working, self.gpu_pct, 0.0) + working * self.noise(count, 3)
            for start, pause in pauses:
                inside = (node.times >= start) & (node.times < start + pause.seconds)
                busy[inside] = pause.gpu_pct
            memory = held * (self.gpu_memory_pct + self.noise(count, 0.4))
            series[f"gpu{gpu}.busy_pct"] = np.clip(busy, 0, 100)
            series[f"gpu{gpu}.memory_used_bytes"] = np.clip(memory, 0, 100) / 100 * CARD_BYTES
            series[f"gpu{gpu}.power_watts"] = 60 + 2.2 * series[f"gpu{gpu}.busy_pct"]
        series["host.cpu_busy_pct"] = np.clip(cpu, 0.5, 100)
        waits = self.iowait_pct + self.noise(count, 0.4)
        series["host.cpu_iowait_pct"] = np.clip(waits, 0, 100)
        memory_used = self.host_memory_pct + self.noise(count, 0.5)
        series["host.memory_used_bytes"] = memory_used / 100 * self.memory_gib * GIB
        cores = series["host.cpu_busy_pct"] / 100 * self.vcpus * 0.95
        series["tree.cpu_seconds_total"] = np.cumsum(cores) * self.resolution_seconds
        written = np.abs(self.noise(count, 2e5))
        series["disk.written_bytes_total"] = np.cumsum(written) * self.resolution_seconds
        series["net.received_bytes_total"] = np.cumsum(np.abs(self.noise(count, 4e6)))
        series["net.sent_bytes_total"] = np.cumsum(np.abs(self.noise(count, 4e6)))
        return series

    def _frame(self, node: Node) -> NodeFrame:
        table = pd.DataFrame(node.series, index=pd.Index(node.times, name="seconds"), dtype=float)
        events = sorted(node.events, key=lambda event: event[0])
        cards = tuple(GpuHardware(self.gpu_model, CARD_BYTES) for _ in range(node.gpus))
        return NodeFrame(
            key=node.key,
            hardware=Hardware(
                "made.up", node.vcpus, float(node.vcpus), self.memory_gib * GIB, cards
            ),
            samples=self._with_gaps(table),
            steps=node.steps.reset_index(drop=True),
            events=pd.DataFrame(events, columns=list(EVENT_COLUMNS)),
            intervals=((0.0, self.seconds),),
        )

    def _with_gaps(self, table: pd.DataFrame) -> pd.DataFrame:
        """Make 2 % of the ticks unknown in every series, and one stretch of 15 to 45 s, but at most
        a twentieth of the run.
        """
        gaps = self.random.random(len(table)) < 0.02
        long = int(self.random.uniform(15, 45) / self.resolution_seconds)
        long = min(long, len(table) // 20)
        start = int(self.random.uniform(0.1, 0.9) * max(len(table) - long, 1))
        gaps[start : start + long] = True
        return table.mask(pd.Series(gaps, index=table.index), axis=0)
