"""`RunFrame`: everything that a rule can read, aligned, with gaps as NaN."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rules.evidence import is_counter, percentile, rate
from rules.step_ranges import StepRange

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
UNUSED_PCT = 2.0
"""A GPU whose 99th percentile is at most this was never used (Princeton's GPU reports)."""
USE_SECONDS, USE_WITHIN_SECONDS = 3.0, 60.0
"""Less use within a minute is no work: a driver that starts, or somebody who looks (ours)."""

Derived = TypeVar("Derived")
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
    gpus_of_type: int = 0
    """The GPUs that machines of its type have, seen or not; 0: none, or the type is unknown."""


class Remembered:
    """Something that never changes, of which several rules derive the same."""

    def once(self, derive: Callable[[Self], Derived]) -> Derived:
        """What a function gives of this; it is called once. Nobody may change the result."""
        found = self._derived
        if derive not in found:
            found[derive] = derive(self)
        result: Derived = found[derive]
        return result

    @cached_property
    def _derived(self) -> dict[Callable[[Any], Any], Any]:
        return {}


@dataclass(frozen=True)
class NodeFrame(Remembered):
    """One node's samples, steps and events.

    Attributes:
        samples: float64, index = seconds since the start of the run on an even grid of
            `RunFrame.cell_seconds`, a column a series: a gauge's mean, a counter's last value. NaN
            is unknown, never zero. Cells of hours of which nothing is stored are left out.
        steps: `STEP_COLUMNS`; a row is one step, or `count` steps with their mean duration and
            mean data wait where they were too many to keep singly. NaN data wait or samples:
            not measured.
        events: `EVENT_COLUMNS`, in time order; `data` is a dict.
        intervals: when this node was held, seconds since the start of the run.
        ticks: float32, index on the even grid of `RunFrame.resolution_seconds`, a column for each
            series of `rules.ticks`: single samples (of a counter: its rate per second) and never
            means, because the mean of a busy and an idle moment is neither. None: the samples are
            single ones themselves.
    """

    key: str
    hardware: Hardware
    samples: pd.DataFrame
    steps: pd.DataFrame
    events: pd.DataFrame
    intervals: tuple[tuple[float, float], ...] = ()
    ticks: pd.DataFrame | None = None

    @property
    def judged(self) -> pd.DataFrame:
        """The table whose values are compared with thresholds: the ticks, if there are any."""
        return self.samples if self.ticks is None else self.ticks

    def column(self, name: str) -> pd.Series[float] | None:
        """A series at the index of `judged`, NaN where it is unknown; None if it is missing.

        A series without ticks has its cell's value at each of them.
        """
        if name in self.judged.columns:
            return self.judged[name]
        return self._at_ticks(self.samples[name]) if name in self.samples.columns else None

    @property
    def is_seen(self) -> pd.Series[float]:
        """1 where anything is known of the node, else 0, at the index of `judged`."""
        if len(self.judged.columns):
            return self.judged.notna().any(axis=1).astype(float)
        return self._at_ticks(self.samples.notna().any(axis=1).astype(float))

    def _at_ticks(self, cells: pd.Series[float]) -> pd.Series[float]:
        """The value of the cell of each row of `judged`."""
        moments = self.judged.index
        places = np.searchsorted(cells.index.to_numpy(), moments.to_numpy() + 1e-6) - 1
        return pd.Series(cells.to_numpy()[places.clip(0)], index=moments)

    def series(self, name: str) -> pd.Series[float] | None:
        """The known values of a gauge, or of a counter in `samples`; None if there are none."""
        if name not in self._known:
            column = self.samples.get(name) if is_counter(name) else self.column(name)
            known = None if column is None else column.dropna()
            self._known[name] = known if known is not None and len(known) else None
        return self._known[name]

    @cached_property
    def _known(self) -> dict[str, pd.Series[float] | None]:
        return {}

    def rate(self, name: str, resolution_seconds: float) -> pd.Series[float] | None:
        """A counter's known rates per second at the index of `judged`; None if there are none."""
        if self.ticks is None or name not in self.ticks.columns:
            return rate(self.series(name), max(resolution_seconds, _spacing(self.samples)))
        known = self.ticks[name].dropna()
        return known if len(known) else None

    def allocated_gpus(self) -> list[int]:
        """The numbers of the GPUs that this run was given; from their series if not declared.

        If none was seen, those of the machine's type: they are there, and their use is unknown.
        """
        return list(self._allocated_gpus)

    @cached_property
    def _allocated_gpus(self) -> tuple[int, ...]:
        if self.hardware.gpus:
            return tuple(n for n, gpu in enumerate(self.hardware.gpus) if gpu.allocated)
        matches = (_GPU_BUSY.fullmatch(str(name)) for name in self.samples.columns)
        seen = tuple(sorted(int(match[1]) for match in matches if match))
        return seen or tuple(range(self.hardware.gpus_of_type))

    def gpu_busy_pct(self, number: int) -> pd.Series[float] | None:
        """The GPU's utilisation; None if it isn't known, or 0 although its multiprocessors worked:
        some virtual GPUs report 0 for what they don't measure."""
        busy = self.series(f"gpu{number}.busy_pct")
        is_measured = busy is None or busy.to_numpy().any() or self.sm_active_pct(number) is None
        return busy if is_measured else None

    def gpu_busy_p99_pct(self, number: int) -> float | None:
        """The 99th percentile of the GPU's known utilisation; None: it isn't known."""
        if number not in self._gpu_busy_p99_pct:
            self._gpu_busy_p99_pct[number] = percentile(self.gpu_busy_pct(number), 99)
        return self._gpu_busy_p99_pct[number]

    @cached_property
    def _gpu_busy_p99_pct(self) -> dict[int, float | None]:
        return {}

    def sm_active_pct(self, number: int) -> pd.Series[float] | None:
        """The share of the GPU's multiprocessors with work; None if it isn't known, or always 0,
        which no kernel leaves it at."""
        active = self.series(f"gpu{number}.sm_active_pct")
        return active if active is not None and active.to_numpy().any() else None

    @cached_property
    def used_gpus(self) -> tuple[int, ...]:
        """The numbers of the allocated GPUs that were used at any time of the run."""
        highest = {n: self.gpu_busy_p99_pct(n) for n in self.allocated_gpus()}
        return tuple(n for n, pct in highest.items() if (pct or 0.0) > UNUSED_PCT)

    @cached_property
    def events_by_kind(self) -> Mapping[str, list[tuple[float, dict[str, Any]]]]:
        """Time and data of the events of each kind, in order."""
        by_kind: dict[str, list[tuple[float, dict[str, Any]]]] = {}
        columns = (self.events[name] for name in EVENT_COLUMNS)
        for at, kind, data in zip(*columns, strict=True):
            event = float(at), data if isinstance(data, dict) else {}
            by_kind.setdefault(kind, []).append(event)
        return by_kind

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

    def training_lengths(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of the `training_steps`: the seconds of one step of each row, and how many it is."""
        columns = (self.steps[name].to_numpy() for name in ("duration_seconds", "count"))
        length, count = (column[self._is_trained].astype(float, copy=False) for column in columns)
        return length, np.nan_to_num(count, copy=False, nan=1.0)

    @cached_property
    def training_totals(self) -> tuple[int, float, float, float, float]:
        """The ranks, number, time, time with a measured wait, and wait of the `training_steps`."""
        steps = self.training_steps
        time, wait = steps["time"], steps["data_wait"]
        measured = float(time[wait.notna()].sum())
        whole, count = float(time.sum()), float(steps["count"].sum())
        return self.training_ranks, count, whole, measured, float(wait.sum())

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
        return 0.0 if self.first_use_seconds is None else self.first_use_seconds

    @cached_property
    def first_use_seconds(self) -> float | None:
        """When the use of a GPU began: `USE_SECONDS` of it within a minute; None: never.

        Whether there is a single sample of use depends on when samples are taken.
        """
        busy = [self.gpu_busy_pct(number) for number in self.allocated_gpus()]
        begins = [self._use_begins(series) for series in busy if series is not None]
        return min((at for at in begins if at is not None), default=None)

    def _use_begins(self, busy: pd.Series[float]) -> float | None:
        used = busy.index.to_numpy(dtype=float)[busy.to_numpy() > GPU_IN_USE_PCT]
        more = math.ceil(USE_SECONDS / max(_spacing(self.judged), 1e-3) - 1e-6) - 1
        first, last = used[: max(len(used) - more, 0)], used[more:]
        begins = first[last - first < USE_WITHIN_SECONDS]
        return float(begins[0]) if len(begins) else None


def _spacing(table: pd.DataFrame) -> float:
    """The seconds between neighbouring rows; 0: there are fewer than two."""
    widths = np.diff(table.index.to_numpy(dtype=float))
    return float(widths.min()) if len(widths) else 0.0


@dataclass(frozen=True)
class RunFrame(Remembered):
    """A whole run, or the part of it that has arrived."""

    resolution_seconds: float
    """Of the nodes' `judged` tables: rules count their rows as so many seconds each."""
    duration_seconds: float
    final: bool
    """The run has ended and nothing is known to be missing."""
    nodes: Mapping[str, NodeFrame] = field(default_factory=dict)
    cell_seconds: float | None = None
    """Of the nodes' `samples`; None: the resolution."""
    other_steps: tuple[StepRange, ...] = ()
    """Of the other runs of its training, on the run's clock."""

    @property
    def unsampled_seconds(self) -> float:
        """The time that has no cells on any node: nothing of it is stored."""
        cells = max((len(node.samples.index) for node in self.nodes.values()), default=0)
        seen = cells * (self.cell_seconds or self.resolution_seconds)
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
