"""`RunFrame`: everything that a rule can read, aligned, with gaps as NaN."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self, TypeVar, TypeVarTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rules.evidence import is_counter, known_part, percentile, rate
from rules.step_ranges import StepRange

STEP_COLUMNS = (
    "rank",
    "phase",
    "start_seconds",
    "duration_seconds",
    "data_wait_seconds",
    "samples",
    "count",
    "tokens",
)
EVENT_COLUMNS = ("time_seconds", "kind", "data")
GPU_IN_USE_PCT = 10.0
"""The utilisation above which a GPU counts as in use (SageMaker's `gpu_threshold` of its bottleneck
rules)."""
UNUSED_PCT = 2.0
"""A GPU whose 99th percentile is at most this was never used (Princeton's GPU reports)."""
USE_SECONDS, USE_WITHIN_SECONDS = 3.0, 60.0
"""Less use within a minute is no work: a driver that starts, or somebody who looks (ours)."""

Derived = TypeVar("Derived")
Arguments = TypeVarTuple("Arguments")
Flags = NDArray[np.bool_]
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


@dataclass(frozen=True)
class TrainingSteps:
    """The training steps of a node after each rank's first, which is warm-up; a row is one step,
    or `count` steps."""

    start_seconds: NDArray[np.float64]
    count: NDArray[np.float64]
    seconds: NDArray[np.float64]
    """The time of all the steps of a row."""
    wait_seconds: NDArray[np.float64]
    """The wait of all the steps of a row; NaN if not measured."""


class CachesResults:
    """Something that never changes, of which several rules derive the same."""

    def once(
        self, derive: Callable[[Self, *Arguments], Derived], *arguments: *Arguments
    ) -> Derived:
        """Return what a function gives of this and the arguments; it is called once for each of
        them. Nobody may change the result.
        """
        found, key = self._derived, (derive, *arguments)
        if key not in found:
            found[key] = derive(self, *arguments)
        result: Derived = found[key]
        return result

    @cached_property
    def _derived(self) -> dict[tuple[Any, ...], Any]:
        return {}


@dataclass(frozen=True)
class NodeFrame(CachesResults):
    """One node's samples, steps and events.

    Attributes:
        samples: float64, index = seconds since the start of the run on an even grid of
            `RunFrame.cell_seconds`, a column a series: a gauge's mean, a counter's last value. NaN
            is unknown, never zero. Cells of hours of which nothing is stored are left out.
        steps: `STEP_COLUMNS`; a row is one step, or `count` steps with their mean duration and
            mean data wait where they were too many to keep singly. NaN data wait, samples or
            tokens: not measured.
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
        """Return the table whose values are compared with thresholds: the ticks, if there are
        any.
        """
        return self.samples if self.ticks is None else self.ticks

    def column(self, name: str) -> pd.Series[float] | None:
        """Return a series at the index of `judged`, NaN where it is unknown; None if it is missing.

        A series without ticks has its cell's value at each of them.
        """
        if name in self.judged.columns:
            return self.judged[name]
        return self._at_ticks(self.samples[name]) if name in self.samples.columns else None

    @cached_property
    def is_seen(self) -> pd.Series[float]:
        """Return 1 where anything is known of the node, else 0, at the index of `judged`."""
        if len(self.judged.columns):
            return _any_known(self.judged)
        return self._at_ticks(_any_known(self.samples))

    def _at_ticks(self, cells: pd.Series[float]) -> pd.Series[float]:
        """Return the value of the cell of each row of `judged`."""
        moments = self.judged.index
        places = np.searchsorted(cells.index.to_numpy(), moments.to_numpy() + 1e-6) - 1
        return pd.Series(cells.to_numpy()[places.clip(0)], index=moments)

    def series(self, name: str) -> pd.Series[float] | None:
        """Return the known values of a gauge, or of a counter in `samples`; None if there are
        none.
        """
        return self.once(_series, name)

    def rate(self, name: str, resolution_seconds: float) -> pd.Series[float] | None:
        """Return a counter's known rates per second at the index of `judged`; None if there are
        none.
        """
        return self.once(_rate, name, resolution_seconds)

    def allocated_gpus(self) -> list[int]:
        """Return the numbers of the GPUs that this run was given; from their series if not
        declared.

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
        """Return the GPU's utilisation; None if it isn't known, or 0 although its multiprocessors
        worked: some virtual GPUs report 0 for what they don't measure.
        """
        return self.once(_gpu_busy_pct, number)

    def gpu_busy_p99_pct(self, number: int) -> float | None:
        """Return the 99th percentile of the GPU's known utilisation; None if it isn't known."""
        return self.once(_gpu_busy_p99_pct, number)

    def sm_active_pct(self, number: int) -> pd.Series[float] | None:
        """Return the share of the GPU's multiprocessors with work; None if it isn't known, or
        always 0, which no kernel leaves it at.
        """
        active = self.series(f"gpu{number}.sm_active_pct")
        return active if active is not None and active.to_numpy().any() else None

    @cached_property
    def used_gpus(self) -> tuple[int, ...]:
        """Return the numbers of the allocated GPUs that were used at any time of the run."""
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
        """Return the phases that have steps."""
        return frozenset(self.steps["phase"].unique())

    def step_column(self, name: str) -> NDArray[np.float64]:
        """Return a column of `steps`; the very values where they are float64. Others are converted
        each time, because storing them would double the memory of a long run.
        """
        return self.once(_stored, name).astype(float, copy=False)

    @property
    def step_ranks(self) -> NDArray[Any]:
        """Return the rank of each step."""
        return self.once(_stored, "rank")

    def is_phase(self, name: str) -> Flags:
        """Return for each step whether it belongs to the phase."""
        return self.once(_is_phase, name)

    @cached_property
    def is_timed(self) -> Flags:
        """Return for each step whether it took any time."""
        return self.step_column("duration_seconds") > 0

    @cached_property
    def first_train_seconds(self) -> float | None:
        """Return when the first training step began; None if there are none."""
        starts = self.step_column("start_seconds")[self.is_phase("train")]
        first = float(np.fmin.reduce(starts, initial=np.inf))
        return first if math.isfinite(first) else None

    @property
    def training_steps(self) -> TrainingSteps:
        """Compute the training steps, each time: storing them would double the memory of a long
        run.
        """
        chosen = self._is_trained
        columns = ("start_seconds", "duration_seconds", "data_wait_seconds", "count")
        start, time, wait, count = (self.step_column(name)[chosen] for name in columns)
        count[np.isnan(count)] = 1.0
        np.clip(wait, 0.0, time, out=wait)
        time *= count
        wait *= count
        return TrainingSteps(start, count, time, wait)

    def training_lengths(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the seconds of one step of each row of the `training_steps`, and how many it
        is.
        """
        columns = (self.once(_stored, name) for name in ("duration_seconds", "count"))
        length, count = (column[self._is_trained].astype(float, copy=False) for column in columns)
        return length, np.nan_to_num(count, copy=False, nan=1.0)

    @cached_property
    def training_totals(self) -> tuple[int, float, float, float, float]:
        """Return the ranks, number, time, time with a measured wait, and wait of the
        `training_steps`.
        """
        steps = self.training_steps
        count, seconds = float(steps.count.sum()), float(steps.seconds.sum())
        measured = float(steps.seconds[~np.isnan(steps.wait_seconds)].sum())
        waited = float(np.nansum(steps.wait_seconds))
        return self.training_ranks, count, seconds, measured, waited

    @cached_property
    def training_ranks(self) -> int:
        """Return how many ranks have any of the `training_steps`."""
        return len(pd.unique(self.step_ranks[self._is_trained]))

    @cached_property
    def _is_trained(self) -> Flags:
        """Return for each step whether it is one of `training_steps`."""
        trained = self.is_phase("train") & self.is_timed
        starts, ranks = self.step_column("start_seconds"), self.step_ranks
        for rank in pd.unique(ranks[trained]):
            own = np.flatnonzero(trained & (ranks == rank))
            trained[own[np.nanargmin(starts[own])]] = False
        return trained

    def warm_up_end_seconds(self) -> float:
        """Return the start of work: the first training step, else the first use of a GPU, else
        0.
        """
        return self._warm_up_end_seconds

    @cached_property
    def _warm_up_end_seconds(self) -> float:
        if self.first_train_seconds is not None:
            return self.first_train_seconds
        return 0.0 if self.first_use_seconds is None else self.first_use_seconds

    @cached_property
    def first_use_seconds(self) -> float | None:
        """Return when the use of a GPU began: `USE_SECONDS` of it within a minute; None if never.

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


def _series(node: NodeFrame, name: str) -> pd.Series[float] | None:
    if is_counter(name):
        return known_part(node.samples[name]) if name in node.samples.columns else None
    column = node.column(name)
    return None if column is None else known_part(column)


def _rate(node: NodeFrame, name: str, resolution_seconds: float) -> pd.Series[float] | None:
    if node.ticks is None or name not in node.ticks.columns:
        counter = node.series(name)
        if counter is None:
            return None
        return rate(counter, max(resolution_seconds, _spacing(node.samples)))
    return known_part(node.ticks[name])


def _gpu_busy_pct(node: NodeFrame, number: int) -> pd.Series[float] | None:
    busy = node.series(f"gpu{number}.busy_pct")
    is_measured = busy is None or busy.to_numpy().any() or node.sm_active_pct(number) is None
    return busy if is_measured else None


def _gpu_busy_p99_pct(node: NodeFrame, number: int) -> float | None:
    return percentile(node.gpu_busy_pct(number), 99)


def _stored(node: NodeFrame, name: str) -> NDArray[Any]:
    """Return a column of the steps as it is stored, not copied."""
    return node.steps[name].to_numpy()


def _is_phase(node: NodeFrame, name: str) -> Flags:
    return (node.steps["phase"] == name).to_numpy(dtype=bool)


def _any_known(table: pd.DataFrame) -> pd.Series[float]:
    """Return 1 at each row with a known value, else 0."""
    is_known = ~np.isnan(table.to_numpy())
    return pd.Series(is_known.any(axis=1).astype(float), index=table.index)


def _spacing(table: pd.DataFrame) -> float:
    """Return the seconds between neighbouring rows; 0 if there are fewer than two."""
    widths = np.diff(table.index.to_numpy(dtype=float))
    return float(widths.min()) if len(widths) else 0.0


@dataclass(frozen=True)
class RunFrame(CachesResults):
    """A whole run, or the part of it that has arrived."""

    resolution_seconds: float
    """The resolution of the nodes' `judged` tables: rules count their rows as so many seconds
    each."""
    duration_seconds: float
    final: bool
    """The run has ended and nothing is known to be missing."""
    nodes: Mapping[str, NodeFrame] = field(default_factory=dict)
    cell_seconds: float | None = None
    """The width of the cells of the nodes' `samples`; None if it is the resolution."""
    other_steps: tuple[StepRange, ...] = ()
    """The steps of the other runs of its training, on the run's clock."""

    @property
    def unsampled_seconds(self) -> float:
        """Return the time that has no cells on any node: nothing of it is stored."""
        cells = max((len(node.samples.index) for node in self.nodes.values()), default=0)
        seen = cells * (self.cell_seconds or self.resolution_seconds)
        return max(self.duration_seconds - seen, 0.0) if cells else 0.0

    @cached_property
    def steps(self) -> pd.DataFrame:
        """Return the steps of all nodes and ranks, with their node's key as column `node`."""
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

    @cached_property
    def is_train(self) -> Flags:
        """Return for each of `steps` whether it is a training step."""
        return _joined([node.is_phase("train") for node in self.nodes.values()])

    @cached_property
    def is_timed(self) -> Flags:
        """Return for each of `steps` whether it took any time."""
        return _joined([node.is_timed for node in self.nodes.values()])


def _joined(flags: list[Flags]) -> Flags:
    """Join the flags of nodes; the very flags where only one node has any."""
    some = [each for each in flags if len(each)]
    return some[0] if len(some) == 1 else np.concatenate([np.zeros(0, dtype=bool), *some])
