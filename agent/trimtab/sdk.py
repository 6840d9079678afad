"""The calls that a training script may add to its loop.

    for batch in trimtab.wrap(loader):
        ...
        trimtab.step(samples=len(batch))

Outside of `trimtab run` each call does nothing. Inside, it takes about a microsecond. No call ever
raises because of Trimtab. Call `step` from one thread per process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from time import monotonic_ns
from types import TracebackType
from typing import Any, TypeVar

from trimtab import run_folder
from trimtab.ranks import ProcessRank, process_rank
from trimtab.recorder import COMMUNICATION, PHASES, TRAIN, Recorder
from trimtab.ring import NOT_KNOWN, RingWriter
from trimtab.run_folder import CurrentRun

_MOST_SAMPLES = 2**62

Item = TypeVar("Item")


class Attachment:
    """State of this process: whether it is measured, and its recorder once something was
    recorded.
    """

    def __init__(self) -> None:
        self.folder = os.environ.get("TRIMTAB_RUN_DIR", "")
        if os.environ.get("TRIMTAB_DISABLE") == "1":
            self.folder = ""
        self.recorder: Recorder | None = None

    def open(self, known: ProcessRank | None = None) -> Recorder | None:
        """Open the recorder. `known` is the rank from the framework; by default, the rank comes
        from the launcher.
        """
        if self.recorder is None and self.folder:
            try:
                where = known or process_rank(os.environ)
                self.recorder = Recorder(RingWriter(self.folder, where.rank), where)
            except Exception:
                self.folder = ""
        return self.recorder

    def forget_parent(self) -> None:
        """Forget the parent's ring, into which a forked worker must not write."""
        if self.recorder:
            self.recorder.abandon()
        self.recorder = None


attached = Attachment()
os.register_at_fork(after_in_child=attached.forget_parent)
_warned: set[str] = set()


def _warn_once(problem: str) -> None:
    if problem not in _warned:
        _warned.add(problem)
        try:
            sys.stderr.write(f"trimtab: {problem}\n")
        except Exception:
            return


def step(
    samples: int | None = None, *, tokens: int | None = None, number: int | None = None
) -> None:
    """Call at the end of each training step.

    A step lasts from the end of the previous step, or from the start of the loop if `wrap` or
    `phase` is used. Without them the first step is counted, with its samples, but has no duration.

    Args:
        samples: training samples in this step, in this process only.
        tokens: tokens in this step, in this process only.
        number: of this step within the whole training. A training that continues from a checkpoint
            counts on from there, so that steps which it does again are seen to be lost work.
    """
    recorder = attached.recorder or attached.open()
    if recorder is None:
        return
    try:
        # The usual case avoids another call, which would take as long as the rest of the step.
        is_count = type(samples) is int and 0 <= samples < _MOST_SAMPLES
        known = NOT_KNOWN if tokens is None else _count("tokens", tokens)
        recorder.step(samples if is_count else _count("samples", samples), known)  # type: ignore[arg-type]
        if number is not None:
            recorder.script_reports_numbers = True
            recorder.record_step_number(int(number))
    except Exception as error:
        _warn_once(f"step() was not recorded: {error}")


def _count(name: str, value: Any) -> int:
    """Return a number of samples or tokens. A step counts even if that number is invalid."""
    if value is None:
        return NOT_KNOWN
    with suppress(Exception):
        count = int(value)
        if 0 <= count < _MOST_SAMPLES:
            return count
    _warn_once(f"step({name}={value!r}) is counted without {name}. Pass a whole number from 0.")
    return NOT_KNOWN


def run(**parameters: Any) -> CurrentRun:
    """Return the current run, and set its parameters: `trimtab.run(lr=0.1, model="vit")`.

    Parameters are text, numbers or booleans. Values of parameters named like secrets are redacted.

    Returns:
        The run's id and URL; outside of `trimtab run` an empty `CurrentRun`, which is false.
    """
    if not attached.folder:
        return CurrentRun()
    try:
        if parameters:
            run_folder.write_parameters(Path(attached.folder), parameters)
        return run_folder.read_published_run(Path(attached.folder))
    except Exception as error:
        _warn_once(f"run() was not recorded: {error}")
        return CurrentRun()


def epoch(number: int) -> None:
    """Call at the beginning of each epoch."""

    def record(recorder: Recorder) -> None:
        recorder.script_reports_epochs = True
        recorder.epoch(int(number), monotonic_ns())

    _record("epoch", record)


def log(*, step: int | None = None, **metrics: float) -> None:
    """Record metrics of the run, e.g. `trimtab.log(loss=0.3, step=100)`."""

    def record(recorder: Recorder) -> None:
        values = {name: float(value) for name, value in metrics.items()}
        recorder.log(values, NOT_KNOWN if step is None else int(step))

    _record("log", record)


def _record(name: str, record: Callable[[Recorder], None]) -> None:
    recorder = attached.recorder or attached.open()
    if recorder is None:
        return
    try:
        record(recorder)
    except Exception as error:
        _warn_once(f"{name}() was not recorded: {error}")


def phase(name: str) -> AbstractContextManager[None]:
    """`with trimtab.phase("evaluate"):` - one of initialise, train, evaluate, checkpoint, restore,
    finalise, communication.

    Steps inside belong to the phase. Its time doesn't count towards the surrounding step.
    Communication is different: it is a part of its step, and tells a rank that waits for the others
    from one that the others wait for.
    """
    recorder = attached.recorder or attached.open()
    if recorder is None:
        return nullcontext()
    if name not in PHASES:
        _warn_once(f"phase({name!r}) is not recorded. Use one of {', '.join(PHASES)}.")
        return nullcontext()
    number = PHASES.index(name)
    return _communication(recorder) if number == COMMUNICATION else _Phase(recorder, number)


@contextmanager
def _communication(recorder: Recorder) -> Iterator[None]:
    with suppress(Exception):
        recorder.communication_begins()
    try:
        yield
    finally:
        with suppress(Exception):
            recorder.communication_ends()


class _Phase(AbstractContextManager[None]):
    def __init__(self, recorder: Recorder, phase: int) -> None:
        self._recorder = recorder
        self._phase = phase
        self._is_nested = False

    def __enter__(self) -> None:
        with suppress(Exception):
            self._recorder.evaluation_over()
            self._is_nested = self._recorder.loop.phase == self._phase != TRAIN
            if not self._is_nested:
                self._recorder.phase_begins(self._phase)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(Exception):
            self._recorder.evaluation_over()
            if not self._is_nested:
                self._recorder.phase_ends()


def wrap(loader: Iterable[Item]) -> Iterable[Item]:
    """Wrap `loader` so that the time spent waiting for it counts as the next step's data wait.

    The result has the loader's length and attributes. Outside of `trimtab run`, returns `loader`.
    """
    recorder = attached.recorder or attached.open()
    return loader if recorder is None else _Waiting(loader, recorder)


class _Waiting(Iterable[Item]):
    def __init__(self, loader: Iterable[Item], recorder: Recorder) -> None:
        self._loader = loader
        self._recorder = recorder

    def __iter__(self) -> Iterator[Item]:
        recorder = self._recorder
        recorder.loop_begins()
        since = monotonic_ns()
        recorder.fetching = True
        try:
            following = iter(self._loader).__next__
            while True:
                try:
                    item = following()
                except StopIteration:
                    return
                recorder.fetching = False
                recorder.record_wait(since)
                yield item
                since = monotonic_ns()
                recorder.fetching = True
        finally:
            recorder.fetching = False

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return bool(self._loader)

    def __getitem__(self, index: Any) -> Any:
        return self._loader[index]  # type: ignore[index]

    def __getattr__(self, name: str) -> Any:
        if name == "_loader":
            raise AttributeError(name)  # copies without `_loader` would recurse without end
        return getattr(self._loader, name)
