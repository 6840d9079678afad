"""Trainings that hang, and trainings that are silent for a good reason, with parameters at random.

Sampled as agents do: twice a second, with all series of the run's own processes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rules.frame import STEP_COLUMNS, NodeFrame, RunFrame
from tests.rules import frames as f

SAMPLED_SECONDS = 0.5
MB = 1e6
Floats = NDArray[np.float64]


@dataclass
class Training:
    """One node's work before, during and after `silence`; kinds change what happens during it."""

    random: np.random.Generator
    gpus: int = 0
    has_steps: bool = True
    is_final: bool = False
    ends_well: bool = False
    step_seconds: float = 1.0
    before_seconds: float = 0.0
    silent_seconds: float = 0.0
    after_seconds: float = 0.0
    pauses: int = 1
    events: list[tuple[float, str, dict[str, Any]]] = field(default_factory=list)
    other: Callable[[Training], NodeFrame] | None = None
    """Another node of the run."""
    cores: Floats = field(init=False)
    series: dict[str, Floats] = field(init=False)
    silent: NDArray[np.bool_] = field(init=False)

    def begin(self) -> None:
        """Make the samples of work that never pauses."""
        draw = self.random.uniform
        self.length = self.before_seconds + self.pauses * (self.silent_seconds + self.after_seconds)
        self.times = np.arange(0.0, self.length, SAMPLED_SECONDS)
        count = len(self.times)
        self.starts = [
            self.before_seconds + n * (self.silent_seconds + self.after_seconds)
            for n in range(self.pauses)
        ]
        self.silent = np.zeros(count, dtype=bool)
        for start in self.starts:
            inside = (self.times >= start) & (self.times < start + self.silent_seconds)
            self.silent |= inside
        self.ranks = max(self.gpus, 1)
        self.vcpus = int(max(8, 2 ** np.ceil(np.log2(6 * self.ranks))))
        self.work_cores = self.ranks * draw(1.5, 4.0)
        self.cores = np.abs(self.work_cores + self.random.normal(0, 0.3, count))
        self.idle_watts, self.work_watts = draw(40, 100), draw(250, 500)
        self.memory = np.full(count, draw(2, 20) * f.GIB)
        self.memory += self.random.normal(0, 20e6, count)
        self.read, self.written = np.full(count, draw(1, 50) * MB), np.full(count, draw(0, 2) * MB)
        self.network = np.full(count, draw(0.1, 100) * MB)
        self.suspended = np.zeros(count)
        self.busy = {n: np.clip(self.random.normal(92, 3, count), 0, 100) for n in range(self.gpus)}
        self.watts = {n: self.random.normal(self.work_watts, 15, count) for n in range(self.gpus)}
        self.memory_busy = {n: np.full(count, draw(30, 80)) for n in range(self.gpus)}
        self.unknown = np.zeros(count, dtype=bool)

    def rest(self, cores: float = 0.0, noise: float = 0.0) -> None:
        """Rest in silence: GPUs idle, and so much CPU time that varies little."""
        at, count = self.silent, int(self.silent.sum())
        self.cores[at] = np.abs(cores + self.random.normal(0, noise, count))
        self.memory[at] = self.memory[0]
        self.read[at], self.written[at] = 0.0, self.random.uniform(0, 20e3)
        self.network[at] = self.random.uniform(0, 1 * MB)
        for gpu in range(self.gpus):
            self.gpu(gpu, 0.0, 0.0)

    def gpu(self, number: int, busy: float, power_share: float, memory_busy: float = 0.0) -> None:
        at, count = self.silent, int(self.silent.sum())
        watts = self.idle_watts + power_share * (self.work_watts - self.idle_watts)
        self.busy[number][at] = np.clip(busy + self.random.normal(0, 0.2, count), 0, 100)
        self.watts[number][at] = watts + self.random.normal(0, 2, count)
        self.memory_busy[number][at] = memory_busy

    def starts_up(self) -> None:
        """Add a minute of start-up before the work."""
        at = self.times < 60
        for gpu in range(self.gpus):
            self.busy[gpu][at], self.memory_busy[gpu][at] = 0.0, 0.0
            self.watts[gpu][at] = self.idle_watts + self.random.normal(0, 1, int(at.sum()))

    def node(self, key: str = "n1") -> NodeFrame:
        others = self._neighbours()
        rates = {
            "tree.cpu_seconds_total": self.cores,
            "tree.requested_bytes_total": self.read,
            "tree.read_bytes_total": self.read / 3,
            "tree.passed_on_bytes_total": self.written,
            "tree.written_bytes_total": self.written / 2,
            "disk.read_bytes_total": self.read / 3 + others * 30 * MB,
            "net.received_bytes_total": self.network + others * 20 * MB,
        }
        columns = {name: np.cumsum(rate) * SAMPLED_SECONDS for name, rate in rates.items()}
        columns["tree.cpu_seconds_total"] = np.round(columns["tree.cpu_seconds_total"], 2)
        columns["tree.rss_bytes"] = self.memory
        columns["tree.suspended_count"] = self.suspended
        host = 100 * (self.cores + others) / self.vcpus
        columns["host.cpu_busy_pct"] = np.clip(host, 0, 100)
        for gpu in range(self.gpus):
            columns[f"gpu{gpu}.busy_pct"] = np.round(self.busy[gpu])
            columns[f"gpu{gpu}.power_watts"] = self.watts[gpu]
            columns[f"gpu{gpu}.memory_controller_busy_pct"] = self.memory_busy[gpu]
        table = pd.DataFrame(columns, index=pd.Index(self.times, name="seconds"), dtype=float)
        table = table.mask(pd.Series(self.unknown, index=table.index), axis=0)
        of = f.hardware(vcpus=self.vcpus, memory_gib=256, gpus=self.gpus)
        return f.node(key, table, self._steps(), sorted(self.events, key=lambda e: e[0]), of=of)

    def frame(self) -> RunFrame:
        nodes = [self.node()]
        if self.other is not None:
            nodes.append(replace(self.other(self), key="n2"))
        if self.random.random() < 0.5:
            nodes.reverse()
        run = f.run(*nodes, duration=self.length, resolution=SAMPLED_SECONDS)
        return replace(run, final=self.is_final)

    def _neighbours(self) -> Floats:
        """Return the busy cores of others on the machine: none, or many."""
        if self.random.random() < 0.5:
            return np.full(len(self.times), 0.05)
        level = self.random.uniform(0.2, 0.9) * self.vcpus
        return np.abs(level + self.random.normal(0, 0.5, len(self.times)))

    def _steps(self) -> list[pd.DataFrame]:
        if not self.has_steps:
            return []
        edges = [60.0, *(s + self.silent_seconds for s in self.starts)]
        ends = [*self.starts, self.length]
        starts = np.concatenate(
            [
                begin + self.step_seconds * np.arange(int((end - begin) / self.step_seconds))
                for begin, end in zip(edges, ends, strict=True)
            ]
        )
        each = f.steps(1, self.step_seconds, 0.05).drop(columns=["rank", "start_seconds"])
        table = pd.DataFrame({"start_seconds": starts}).merge(each, how="cross")
        return [table.assign(rank=rank)[list(STEP_COLUMNS)] for rank in range(self.ranks)]


def new(random: np.random.Generator, **given: Any) -> Training:
    """Return a training whose silence lasts 1.15 to 2 times what `hung` needs."""
    made = Training(random, gpus=int(random.integers(1, 5)))
    made.step_seconds = float(np.exp(random.uniform(np.log(0.4), np.log(90))))
    made.is_final = bool(random.random() < 0.3)
    made = replace(made, **given)
    least = max(600.0, 10 * made.step_seconds)
    made.silent_seconds = given.get("silent_seconds", least * random.uniform(1.15, 2.0))
    made.before_seconds = 60 + made.step_seconds * random.integers(8, 20) + random.uniform(300, 900)
    goes_on = made.is_final or random.random() < 0.5
    made.after_seconds = float(random.uniform(200, 600)) if goes_on else 0.0
    made.begin()
    made.starts_up()
    return made


def told(made: Training, phase: str) -> None:
    for start in made.starts:
        data = {"phase": phase, "rank": 0}
        end = min(start + made.silent_seconds, made.length)
        made.events += [(start, "phase_begin", data), (end, "phase_end", data)]


def ends(made: Training, code: int) -> None:
    state = "failed" if code else "finished"
    made.events.append((made.length - 0.5, "session_end", {"state": state, "exit_code": code}))
