"""The three lines that a training script may add: what the loop itself knows best.

    for batch in trimtab.wrap(loader):
        ...
        trimtab.step(samples=len(batch))

Outside of `trimtab run` each call does nothing. Inside, it costs about a microsecond. No call
ever raises because of Trimtab. The steps of one process are told from one thread.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from time import monotonic_ns
from types import TracebackType
from typing import Any, TypeVar

from trimtab.ring import (
    EPOCH,
    NOT_TOLD,
    PHASE_BEGIN,
    PHASE_END,
    STEP,
    UNTIMED_STEP,
    RingWriter,
)

PHASES = ("initialise", "train", "evaluate", "checkpoint", "finalise")
_MOST_SAMPLES = 2**62
_TRAIN = PHASES.index("train")
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")

Item = TypeVar("Item")


class _Loop:
    """One training or evaluation loop: when its last step ended and how long it waited since."""

    __slots__ = ("began_ns", "phase", "wait_ns", "wait_of_no_wait_ns")

    def __init__(self, phase: int, began_ns: int | None) -> None:
        self.phase = phase
        self.began_ns = began_ns
        self.wait_ns = self.wait_of_no_wait_ns = NOT_TOLD


class Recorder:
    """Measures the loop and writes what it finds into the ring."""

    def __init__(self, ring: RingWriter) -> None:
        self._ring = ring
        self._loop = _Loop(_TRAIN, None)
        self._outer: list[tuple[_Loop, int]] = []

    def step(self, samples: int) -> None:
        now, loop = monotonic_ns(), self._loop
        began = loop.began_ns
        loop.began_ns = now
        if began is None:
            self._ring.write(UNTIMED_STEP, loop.phase, now, 0, NOT_TOLD, samples)
        else:
            self._ring.write(STEP, loop.phase, now, now - began, loop.wait_ns, samples)
        loop.wait_ns = loop.wait_of_no_wait_ns

    def loop_begins(self) -> None:
        """What passed since the last step of an earlier epoch is no step's time."""
        loop = self._loop
        loop.began_ns = monotonic_ns()
        loop.wait_ns = loop.wait_of_no_wait_ns = 0

    def waited(self, since_ns: int) -> None:
        self._loop.wait_ns += monotonic_ns() - since_ns

    def phase_begins(self, phase: int) -> None:
        now = monotonic_ns()
        self._outer.append((self._loop, now))
        self._loop = _Loop(phase, now)
        self._ring.write(PHASE_BEGIN, phase, now, 0, 0, 0)

    def phase_ends(self) -> None:
        """The surrounding loop's running step doesn't count the pause."""
        now, ended = monotonic_ns(), self._loop.phase
        self._loop, began = self._outer.pop()
        if self._loop.began_ns is not None:
            self._loop.began_ns += now - began
        self._ring.write(PHASE_END, ended, now, 0, 0, 0)

    def epoch(self, number: int) -> None:
        self._ring.write(EPOCH, self._loop.phase, monotonic_ns(), number, 0, 0)

    def log(self, metrics: dict[str, float], step: int) -> None:
        now = monotonic_ns()
        for name, value in metrics.items():
            self._ring.write_metric(name, now, value, step)


class _Attachment:
    """Whether this process is watched, and its recorder once something was told."""

    def __init__(self) -> None:
        self.folder = os.environ.get("TRIMTAB_RUN_DIR", "")
        if os.environ.get("TRIMTAB_DISABLE") == "1":
            self.folder = ""
        self.recorder: Recorder | None = None

    def open(self) -> Recorder | None:
        if self.recorder is None and self.folder:
            try:
                self.recorder = Recorder(RingWriter(self.folder, _rank()))
            except Exception:
                self.folder = ""
        return self.recorder

    def forked(self) -> None:
        """A forked worker is its own process: it must not write into its parent's ring."""
        self.recorder = None


def _rank() -> int:
    for name in _RANKS:
        if os.environ.get(name, "").isdecimal():
            return min(int(os.environ[name]), 10_000_000)
    return 0


_attached = _Attachment()
os.register_at_fork(after_in_child=_attached.forked)
_warned: set[str] = set()


def _warn_once(problem: str) -> None:
    if problem not in _warned:
        _warned.add(problem)
        try:
            sys.stderr.write(f"trimtab: {problem}\n")
        except Exception:
            return


def step(samples: int | None = None) -> None:
    """Call at the end of each training step.

    The step lasted from the end of the step before, or from the beginning of the loop where that
    is known (`wrap` and `phase` tell it); a first step whose beginning isn't known is counted
    with its samples but has no duration.

    Args:
        samples: training samples in this step, of this process only.
    """
    recorder = _attached.recorder or _attached.open()
    if recorder is None:
        return
    try:
        # The usual case stays free of a further call: it is half of what a step costs.
        is_count = type(samples) is int and 0 <= samples < _MOST_SAMPLES
        recorder.step(samples if is_count else _count(samples))  # type: ignore[arg-type]
    except Exception as error:
        _warn_once(f"step() was not recorded: {error}")


def _count(samples: Any) -> int:
    """A step counts even if its samples can't be told."""
    if samples is None:
        return NOT_TOLD
    with suppress(Exception):
        count = int(samples)
        if 0 <= count < _MOST_SAMPLES:
            return count
    _warn_once(f"step(samples={samples!r}) is counted without samples. Send a whole number.")
    return NOT_TOLD


def epoch(number: int) -> None:
    """Call at the beginning of each epoch."""
    _told("epoch", lambda recorder: recorder.epoch(int(number)))


def log(*, step: int | None = None, **metrics: float) -> None:
    """Tell metrics of the run, e.g. `trimtab.log(loss=0.3, step=100)`."""

    def record(recorder: Recorder) -> None:
        values = {name: float(value) for name, value in metrics.items()}
        recorder.log(values, NOT_TOLD if step is None else int(step))

    _told("log", record)


def _told(name: str, record: Callable[[Recorder], None]) -> None:
    recorder = _attached.recorder or _attached.open()
    if recorder is None:
        return
    try:
        record(recorder)
    except Exception as error:
        _warn_once(f"{name}() was not recorded: {error}")


def phase(name: str) -> AbstractContextManager[None]:
    """`with trimtab.phase("evaluate"):` - one of initialise, train, evaluate, checkpoint, finalise.

    Steps inside belong to the phase; its time doesn't count in the step around it.
    """
    recorder = _attached.recorder or _attached.open()
    if recorder is None:
        return nullcontext()
    if name not in PHASES:
        _warn_once(f"phase({name!r}) is not recorded. Use one of {', '.join(PHASES)}.")
        return nullcontext()
    return _Phase(recorder, PHASES.index(name))


class _Phase(AbstractContextManager[None]):
    def __init__(self, recorder: Recorder, phase: int) -> None:
        self._recorder = recorder
        self._phase = phase

    def __enter__(self) -> None:
        with suppress(Exception):
            self._recorder.phase_begins(self._phase)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(Exception):
            self._recorder.phase_ends()


def wrap(loader: Iterable[Item]) -> Iterable[Item]:
    """`loader`, with the time that the loop waits for it counted as the coming step's data wait.

    Length and attributes are the loader's own. Outside of `trimtab run`, `loader` itself.
    """
    recorder = _attached.recorder or _attached.open()
    return loader if recorder is None else _Waiting(loader, recorder)


class _Waiting(Iterable[Item]):
    def __init__(self, loader: Iterable[Item], recorder: Recorder) -> None:
        self._loader = loader
        self._recorder = recorder

    def __iter__(self) -> Iterator[Item]:
        waited = self._recorder.waited
        self._recorder.loop_begins()
        since = monotonic_ns()
        following = iter(self._loader).__next__
        while True:
            try:
                item = following()
            except StopIteration:
                return
            waited(since)
            yield item
            since = monotonic_ns()

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return bool(self._loader)

    def __getitem__(self, index: Any) -> Any:
        return self._loader[index]  # type: ignore[index]

    def __getattr__(self, name: str) -> Any:
        if name == "_loader":
            raise AttributeError(name)  # half-made copies would recurse without end
        return getattr(self._loader, name)
