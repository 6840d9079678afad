"""The lines that a training script may add: what the loop itself knows best.

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
from pathlib import Path
from time import monotonic_ns
from types import TracebackType
from typing import Any, TypeVar

from trimtab import run_folder
from trimtab.ranks import ProcessRank, process_rank
from trimtab.recorder import PHASES, Recorder
from trimtab.ring import NOT_KNOWN, RingWriter
from trimtab.run_folder import Run

_MOST_SAMPLES = 2**62

Item = TypeVar("Item")


class Attachment:
    """Whether this process is watched, and its recorder once something was told."""

    def __init__(self) -> None:
        self.folder = os.environ.get("TRIMTAB_RUN_DIR", "")
        if os.environ.get("TRIMTAB_DISABLE") == "1":
            self.folder = ""
        self.recorder: Recorder | None = None

    def open(self, known: ProcessRank | None = None) -> Recorder | None:
        """`known`: which process this is, where the framework can say it; else the launcher."""
        if self.recorder is None and self.folder:
            try:
                where = known or process_rank(os.environ)
                self.recorder = Recorder(RingWriter(self.folder, where.rank), where)
            except Exception:
                self.folder = ""
        return self.recorder

    def forked(self) -> None:
        """A forked worker is its own process: it must not write into its parent's ring."""
        if self.recorder:
            self.recorder.abandon()
        self.recorder = None


attached = Attachment()
os.register_at_fork(after_in_child=attached.forked)
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
    recorder = attached.recorder or attached.open()
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
        return NOT_KNOWN
    with suppress(Exception):
        count = int(samples)
        if 0 <= count < _MOST_SAMPLES:
            return count
    _warn_once(f"step(samples={samples!r}) is counted without samples. Send a whole number.")
    return NOT_KNOWN


def run(**parameters: Any) -> Run:
    """Which run this is; and, optionally, its parameters: `trimtab.run(lr=0.1, model="vit")`.

    Parameters are text, numbers or booleans; what is named like a secret is not sent.

    Returns:
        Its id and address; outside of `trimtab run` an empty one, which is false.
    """
    if not attached.folder:
        return Run()
    try:
        if parameters:
            run_folder.write_parameters(Path(attached.folder), parameters)
        return run_folder.published(Path(attached.folder))
    except Exception as error:
        _warn_once(f"run() was not recorded: {error}")
        return Run()


def epoch(number: int) -> None:
    """Call at the beginning of each epoch."""

    def record(recorder: Recorder) -> None:
        recorder.script_reports_epochs = True
        recorder.epoch(int(number), monotonic_ns())

    _record("epoch", record)


def log(*, step: int | None = None, **metrics: float) -> None:
    """Tell metrics of the run, e.g. `trimtab.log(loss=0.3, step=100)`."""

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
    """`with trimtab.phase("evaluate"):` - one of initialise, train, evaluate, checkpoint, finalise.

    Steps inside belong to the phase; its time doesn't count in the step around it.
    """
    recorder = attached.recorder or attached.open()
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
            self._recorder.evaluation_over()
            self._recorder.phase_begins(self._phase)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(Exception):
            self._recorder.evaluation_over()
            self._recorder.phase_ends()


def wrap(loader: Iterable[Item]) -> Iterable[Item]:
    """`loader`, with the time that the loop waits for it counted as the coming step's data wait.

    Length and attributes are the loader's own. Outside of `trimtab run`, `loader` itself.
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
                recorder.waited(since)
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
            raise AttributeError(name)  # half-made copies would recurse without end
        return getattr(self._loader, name)
