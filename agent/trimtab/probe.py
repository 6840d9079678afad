"""Counts the steps of a probe while they arrive, and keeps what its result needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from trimtab.steps import Step
from trimtab.throughput import Interval, steps_per_second, warmup_steps
from trimtab.wire import Block, Event, Probe

WAITS_FOR_LOADER = 0.15
"""The share of the step time from which the loader sets the pace (the rule `input_bound`)."""
_IN_USE_PCT = 10.0
_MOST_STEPS = 1_000_000


@dataclass(frozen=True)
class Result:
    """Measurement of a probe. None means unknown."""

    steps_per_second: Interval
    samples_per_step: float | None
    """The samples of all processes together."""
    warmup_steps: int
    steps: int
    data_wait_share: float | None
    gpu_memory_bytes: int | None
    """The peak of one GPU."""
    host_memory_bytes: int | None
    has_gpus: bool
    gpu_busy_share: float | None = None
    """The busy share of the measured steps, over the GPUs in use."""

    @property
    def pace(self) -> str:
        """Return what set the pace: `loader`, `gpu`, `cpu`, or `unknown`.

        A GPU that is busy doesn't wait for data, whether the wait was seen or not.
        """
        if self.data_wait_share is None:
            is_busy = (self.gpu_busy_share or 0.0) > 1 - WAITS_FOR_LOADER
            return "gpu" if is_busy else "unknown"
        if self.data_wait_share >= WAITS_FOR_LOADER:
            return "loader"
        return "gpu" if self.has_gpus else "cpu"


@dataclass
class _Process:
    """One training process."""

    rank: int
    ends_us: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    wait_seconds: list[float | None] = field(default_factory=list)
    samples: list[int | None] = field(default_factory=list)


class Watch:
    """Follows the training steps of a probe, on the sampler's thread."""

    def __init__(self, plan: Probe) -> None:
        self.plan = plan
        self._processes: dict[str, _Process] = {}
        self._gpu_bytes: list[float] = []
        self._host_bytes: list[float] = []
        self._busy_pct: dict[str, list[tuple[int, float]]] = {}
        """The load of each GPU: milliseconds of the session, and how busy it was."""
        self._has_gpus = False
        self._on_measured: Callable[[], None] | None = None

    def begin(self, on_measured: Callable[[], None]) -> None:
        """Set the function to call once, when enough steps were measured."""
        self._on_measured = on_measured

    def note_end(self) -> None:
        """Note that the command has ended: nothing is called from now on."""
        self._on_measured = None

    def step(self, process: str, rank: int, step: Step) -> None:
        if step.phase != "train" or step.duration_us <= 0:
            return
        known = self._processes.setdefault(process, _Process(rank))
        if len(known.seconds) < _MOST_STEPS:
            wait = step.data_wait_us
            known.ends_us.append(step.end_us)
            known.seconds.append(step.duration_us / 1e6)
            known.wait_seconds.append(None if wait is None else wait / 1e6)
            known.samples.append(step.samples)

    def note_poll(self) -> None:
        """Note that all steps so far were seen."""
        on_measured = self._on_measured
        if on_measured and self.is_measured:
            self._on_measured = None
            on_measured()

    def note_segment(self, blocks: Sequence[Block], events: Sequence[Event], start_ms: int) -> None:
        """Note that a segment is complete that began at `start_ms` of the session."""
        for block in blocks:
            for name, column in block.columns.items():
                self._has_gpus |= name.startswith("gpu")
                if name.startswith("gpu") and name.endswith(".busy_pct"):
                    self._busy_pct.setdefault(name, []).extend(
                        (start_ms + at, float(value))
                        for at, value in zip(block.times_ms, column)
                        if value is not None
                    )
                known = [float(value) for value in column if value is not None]
                if known and name == "tree.rss_bytes":
                    self._host_bytes.append(max(known))
                if known and name.startswith("gpu") and name.endswith(".tree_memory_used_bytes"):
                    self._gpu_bytes.append(max(known))
        for event in events:
            if event.kind == "gpu_memory" and event.data.get("peak_reserved_bytes"):
                self._gpu_bytes.append(float(event.data["peak_reserved_bytes"]))

    @property
    def steps_seen(self) -> int:
        """Return the training steps of the leading process, warm-up included."""
        lead = self._lead()
        return len(lead.seconds) if lead else 0

    @property
    def warmup_steps(self) -> int | None:
        """Return the steps of the warm-up, or None if it isn't over yet."""
        lead = self._lead()
        if lead is None:
            return None
        if self.plan.warmup_steps is None:
            return warmup_steps(lead.seconds, at_most=self.plan.steps)
        return self.plan.warmup_steps

    @property
    def is_measured(self) -> bool:
        warmup = self.warmup_steps
        return warmup is not None and self.steps_seen >= warmup + self.plan.steps

    def result(self) -> Result | None:
        """Return the measurement, or None for too few steps."""
        lead, warmup = self._lead(), self.warmup_steps
        if lead is None or warmup is None or not self.is_measured:
            return None
        window = slice(warmup, warmup + self.plan.steps)
        seconds, waits = lead.seconds[window], _known(lead.wait_seconds[window])
        return Result(
            steps_per_second=steps_per_second(seconds),
            samples_per_step=self._samples_per_step(window),
            warmup_steps=warmup,
            steps=len(seconds),
            data_wait_share=None if waits is None else min(1.0, sum(waits) / sum(seconds)),
            gpu_memory_bytes=round(max(self._gpu_bytes)) if self._gpu_bytes else None,
            host_memory_bytes=round(max(self._host_bytes)) if self._host_bytes else None,
            has_gpus=self._has_gpus,
            gpu_busy_share=self._gpu_busy_share(
                (lead.ends_us[warmup] / 1e6 - seconds[0]) * 1e3, lead.ends_us[window][-1] / 1e3
            ),
        )

    def _gpu_busy_share(self, begin_ms: float, end_ms: float) -> float | None:
        """Return the mean over the GPUs in use and this time."""
        during = [
            [pct for at, pct in samples if begin_ms <= at < end_ms]
            for samples in self._busy_pct.values()
        ]
        used = [pct for each in during if max(each, default=0.0) > _IN_USE_PCT for pct in each]
        return sum(used) / len(used) / 100 if used else None

    def _lead(self) -> _Process | None:
        """Return the process of the lowest rank."""
        return min(self._processes.values(), key=lambda process: process.rank, default=None)

    def _samples_per_step(self, window: slice) -> float | None:
        means = []
        for process in self._processes.values():
            samples = _known(process.samples[window])
            if not samples:
                return None
            means.append(sum(samples) / len(samples))
        return sum(means)


def _known(values: Sequence[float | None]) -> list[float] | None:
    """Return the values, or None if one of them isn't known."""
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None
