"""`RunFrame`: everything that a rule can read, aligned, with gaps as NaN."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

STEP_COLUMNS = (
    "rank",
    "phase",
    "start_seconds",
    "duration_seconds",
    "data_wait_seconds",
    "samples",
    "count",
)
EVENT_COLUMNS = ("time_seconds", "kind", "data")
GPU_IN_USE_PCT = 10.0
"""Above this a GPU counts as in use (SageMaker's `gpu_threshold` of its bottleneck rules)."""

_GPU_BUSY = re.compile(r"gpu(\d+)\.busy_pct")


@dataclass(frozen=True)
class GpuHardware:
    model: str
    memory_bytes: int
    allocated: bool = True


@dataclass(frozen=True)
class Hardware:
    """One node as measured; 0 is unknown."""

    instance_type: str = ""
    vcpus: int = 0
    effective_cpus: float = 0.0
    memory_bytes: int = 0
    gpus: tuple[GpuHardware, ...] = ()


@dataclass(frozen=True)
class NodeFrame:
    """One node's samples, steps and events.

    Attributes:
        samples: float64, index = seconds since the start of the run on an even grid of
            `RunFrame.resolution_seconds`, a column a series; NaN is unknown, never zero. Cells of
            hours of which nothing is stored are left out.
        steps: `STEP_COLUMNS`; a row is one step, or `count` steps with their mean duration and
            mean data wait where they were too many to keep singly. NaN data wait or samples:
            not measured.
        events: `EVENT_COLUMNS`, in time order; `data` is a dict.
        intervals: when this node was held, seconds since the start of the run.
    """

    key: str
    hardware: Hardware
    samples: pd.DataFrame
    steps: pd.DataFrame
    events: pd.DataFrame
    intervals: tuple[tuple[float, float], ...] = ()

    def series(self, name: str) -> pd.Series[float] | None:
        """The known samples of a series; None if there are none."""
        if name not in self.samples.columns:
            return None
        known = self.samples[name].dropna()
        return known if len(known) else None

    def allocated_gpus(self) -> list[int]:
        """The numbers of the GPUs that this run was given; from their series if not declared."""
        if self.hardware.gpus:
            return [number for number, gpu in enumerate(self.hardware.gpus) if gpu.allocated]
        matches = (_GPU_BUSY.fullmatch(str(name)) for name in self.samples.columns)
        return sorted(int(match[1]) for match in matches if match)

    def gpu_busy_pct(self, number: int) -> pd.Series[float] | None:
        return self.series(f"gpu{number}.busy_pct")

    @cached_property
    def step_phases(self) -> frozenset[str]:
        """The phases that have steps."""
        return frozenset(self.steps["phase"].unique())

    @property
    def training_steps(self) -> pd.DataFrame:
        """The training steps after each rank's first, which is warm-up.

        As `start_seconds`, `count`, and `time` and `data_wait` in seconds of all the steps of a
        row. Computed each time, because storing it would double the memory of a long run.
        """
        steps, chosen = self.steps, self._is_trained
        columns = ("start_seconds", "duration_seconds", "data_wait_seconds", "count")
        start, time, wait, count = (steps[n].to_numpy(dtype=float)[chosen] for n in columns)
        count[np.isnan(count)] = 1.0
        np.clip(wait, 0.0, time, out=wait)
        time *= count
        wait *= count
        table = {"start_seconds": start, "count": count, "time": time, "data_wait": wait}
        return pd.DataFrame(table, copy=False)

    @cached_property
    def training_ranks(self) -> int:
        """How many ranks have any of the `training_steps`."""
        return int(self.steps["rank"][self._is_trained].nunique())

    @cached_property
    def _is_trained(self) -> NDArray[np.bool_]:
        """For each step, whether it is one of `training_steps`."""
        steps = self.steps
        chosen = (steps["phase"] == "train") & (steps["duration_seconds"] > 0)
        starts = steps["start_seconds"][chosen].groupby(steps["rank"][chosen])
        trained: NDArray[np.bool_] = chosen.to_numpy(dtype=bool, copy=True)
        return trained & ~steps.index.isin(starts.idxmin().dropna())

    def warm_up_end_seconds(self) -> float:
        """The start of work: the first training step, else the first use of a GPU, else 0."""
        return self._warm_up_end_seconds

    @cached_property
    def _warm_up_end_seconds(self) -> float:
        train = self.steps.loc[self.steps["phase"] == "train", "start_seconds"].dropna()
        if len(train):
            return float(train.min())
        busy = [self.gpu_busy_pct(number) for number in self.allocated_gpus()]
        used = [series[series > GPU_IN_USE_PCT] for series in busy if series is not None]
        return min((float(series.index[0]) for series in used if len(series)), default=0.0)


@dataclass(frozen=True)
class RunFrame:
    """A whole run, or the part of it that has arrived."""

    resolution_seconds: float
    duration_seconds: float
    final: bool
    """The run has ended and nothing is known to be missing."""
    nodes: Mapping[str, NodeFrame] = field(default_factory=dict)

    @property
    def unsampled_seconds(self) -> float:
        """The time that has no cells on any node: nothing of it is stored."""
        cells = max((len(node.samples.index) for node in self.nodes.values()), default=0)
        seen = cells * self.resolution_seconds
        return max(self.duration_seconds - seen, 0.0) if cells else 0.0

    @cached_property
    def steps(self) -> pd.DataFrame:
        """The steps of all nodes and ranks, with their node's key as column `node`."""
        having = {key: node.steps for key, node in self.nodes.items() if len(node.steps)}
        if not having:
            return pd.DataFrame(columns=[*STEP_COLUMNS, "node"])
        places = np.repeat(np.arange(len(having)), [len(steps) for steps in having.values()])
        every, *others = having.values()
        # The steps of a single node are shared, not copied, because they take most of a long run's
        # memory.
        every = pd.concat([every, *others]) if others else every
        every = every.reset_index(drop=True)
        return every.assign(node=pd.Categorical.from_codes(places, pd.Index(having)))
