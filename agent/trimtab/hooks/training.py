"""The training loop of one process, reconstructed from its framework's calls.

Independent of the framework: `pytorch.py` reports batches, optimizer steps, modes and checkpoints.
Each call takes well below a microsecond unless there is something new to record.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from threading import get_ident
from time import monotonic_ns
from typing import Any

from trimtab import ring, sdk
from trimtab.hooks.batches import Batches
from trimtab.hooks.checkpoint_files import CheckpointFiles
from trimtab.hooks.flops import StepCounter
from trimtab.recorder import CHECKPOINT, EVALUATE, TRAIN, Recorder
from trimtab.ring import NOT_KNOWN

_MOST_LOADS = 20
"""The most loads that are kept: of the files of one checkpoint, or parts of data sets, only the
longest and those with a step count."""
_LOOK_NS = 1_000_000_000
"""The shortest time between two periodic checks."""


class TrainingState:
    """The state of the loop. After a fork the child starts with a new one."""

    def __init__(self, open_recorder: Callable[[], Recorder | None]) -> None:
        self._open = open_recorder
        self._begin()
        os.register_at_fork(after_in_child=self._begin)
        self.counter = StepCounter()
        self.look: Callable[[Any, int, int], None] | None = None
        """The function that is called about once a second with the optimizer, steps so far and the
        time in ns."""
        self.at_step: Callable[[int], None] | None = None
        """The function that is called after each step while a profile is requested."""

    def _begin(self) -> None:
        self.steps = 0
        self._evaluated: weakref.ref[Any] | None = None
        """The module that was put into `eval()` last, unless `train()` came after."""
        self._depth = 0
        self._thread = 0
        self._main: weakref.ref[Any] | None = None
        self._optimizers: dict[int, weakref.ref[Any]] = {}
        self._other_steps = 0
        self._epoch = -1
        self._epoch_samples = NOT_KNOWN
        self._look_at_ns = 0
        self._loader: Batches | None = None
        """The loader of the current training loop."""
        self._fetched_from: Batches | None = None
        self._parts_bytes = 0
        """The bytes written so far to the files of the checkpoint that a framework saves."""
        self._loads: list[tuple[int, int, int, int]] = []
        """The checkpoints loaded before the first step: end, duration, bytes and step."""
        self.files = CheckpointFiles()

    def recorder(self) -> Recorder | None:
        return sdk.attached.recorder or self._open()

    # Batches

    def loop_begins(self, batches: Batches, no_gradients: bool) -> bool:
        """Note that a loop over a loader begins. Returns True if it seems to be a training loop."""
        recorder = self.recorder()
        if recorder is None or not self._is_own_thread():
            return False
        evaluates = self._is_evaluation(recorder, batches, no_gradients)
        if not batches.is_reported:
            batches.report(recorder, evaluates)
        batches.began_ns, batches.fetched = monotonic_ns(), 0
        recorder.usual_optimizer, recorder.usual_batches = 0, None
        if recorder.fetching or evaluates:
            return False
        recorder.evaluation_over()
        if self._loader is None or self._loader is batches:
            recorder.loop_begins()
            self._loader = batches
        return True

    def loop_ends(self, batches: Batches) -> None:
        """Note that the loader has no more batches."""
        recorder = sdk.attached.recorder
        if recorder is None or not self._is_own_thread() or recorder.fetching:
            return
        if self._loader is batches:
            self._loader = None
        self._fetched_from = None
        recorder.evaluation_over()

    def loop_dropped(self, batches: Batches) -> None:
        """Note that the loop left its iterator before the end. After one batch it may still
        evaluate that.
        """
        if self._fetched_from is batches and batches.fetched > 1:
            self.loop_ends(batches)

    def note_batch(
        self,
        recorder: Recorder,
        batches: Batches,
        since_ns: int,
        batch: Any,
        number: int,
        no_gradients: bool,
    ) -> None:
        """Note that the loader's `number`th batch (from 1) arrived that was requested at
        `since_ns`.
        """
        if not self._is_own_thread():
            return
        self._fetched_from = batches
        batches.fetched += 1
        if self._is_evaluation(recorder, batches, no_gradients):
            recorder.evaluation_seen(since_ns)
        else:
            recorder.evaluation_over()
            self._loader = self._loader or batches
            is_usual = batches.train and not self.counter.is_armed
            recorder.usual_batches = batches if is_usual else None
            self.counter.enter()
        if not batches.train:
            recorder.usual_optimizer = 0
        recorder.hook_sees_batches = True
        samples = batches.samples(batch, number)
        recorder.record_batch(since_ns, samples, batches.tokens(batch))

    def _is_evaluation(self, recorder: Recorder, batches: Batches, no_gradients: bool) -> bool:
        """Return whether the loop evaluates. `eval()` may freeze a part of the model: a loader that
        led to steps is for training.
        """
        if recorder.loop.phase == EVALUATE and not recorder.in_seen_evaluation:
            return True  # the script or the framework says so
        if no_gradients or self._evaluated is None or batches.train:
            return no_gradients
        module = self._evaluated()
        return module is not None and not module.training

    def _is_own_thread(self) -> bool:
        """Return whether the loop's own thread fetches: no step waits for batches that another
        thread prefetches.
        """
        if not self._thread:
            self._thread = get_ident()
        return self._thread == get_ident()

    # Steps

    def note_step(self, optimizer: Any, arguments: Any = (), named: Any = None) -> None:
        """Note that an optimizer made a step. The usual case is inlined here, because a call is
        expensive.
        """
        try:
            recorder = sdk.attached.recorder
            if recorder is None or recorder.usual_optimizer != id(optimizer):
                self._stepped(optimizer)
                return
            now, loop = monotonic_ns(), recorder.loop
            took = now - loop.began_ns  # type: ignore[operator]
            recorder.held.append(
                (ring.STEP, loop.phase, now, took, loop.wait_ns, loop.samples, loop.tokens)
            )
            loop.began_ns = now
            loop.wait_ns = loop.wait_of_no_wait_ns
            loop.samples = loop.samples_of_no_fetch
            loop.tokens = loop.tokens_of_no_fetch
            if now >= recorder.flush_at_ns:
                self._look_around(recorder, optimizer, now)
        except Exception:
            return

    def _stepped(self, optimizer: Any) -> None:
        """Note a step after which something may have to be recorded."""
        main = self._main
        if (main is None or main() is not optimizer) and not self._becomes_main(optimizer):
            return
        recorder = self.recorder()
        if recorder is None:
            return
        self._other_steps = 0
        if self.counter.is_armed or self.counter.is_entered:
            self.counter.step_ends(recorder, recorder.loop.samples, recorder.loop.tokens)
        if self._loads:
            self._record_loads(recorder)
        self.files.first_step(recorder)
        if self._thread != get_ident():
            self._thread = get_ident()
            recorder.waits_elsewhere()
        if self._fetched_from and not self._fetched_from.train:
            self._trains(recorder, self._fetched_from)
        recorder.evaluation_over()
        if self._loader and self._loader.began_ns:
            self._record_epoch(recorder, self._loader)
        self._look_around(recorder, optimizer, recorder.step_seen())

    def _look_around(self, recorder: Recorder, optimizer: Any, now: int) -> None:
        self.steps += recorder.flush()
        if self.at_step:
            self.at_step(self.steps)
        if self.look and now >= self._look_at_ns:
            self._look_at_ns = now + _LOOK_NS
            self.look(optimizer, self.steps, now)
        usual = self.at_step is None and not recorder.script_reports_steps
        usual = usual and not (self.counter.is_armed or self.counter.is_entered)
        recorder.usual_optimizer = id(optimizer) if usual else 0

    def optimizers(self) -> list[Any]:
        """Return the optimizers that have made a step and still exist."""
        return [each for ref in self._optimizers.values() if (each := ref()) is not None]

    def _becomes_main(self, optimizer: Any) -> bool:
        """Return whether this optimizer becomes the main one: of several, the one that steps most
        counts, because the loop goes round once a step.
        """
        if id(optimizer) not in self._optimizers:
            self._optimizers[id(optimizer)] = weakref.ref(optimizer)
            self._look_at_ns = 0
        self._other_steps += 1
        if recorder := sdk.attached.recorder:
            recorder.usual_optimizer = 0  # the main one's next step is to be looked at
        if self._main is not None and self._main() is not None and self._other_steps < 2:
            return False
        self._main = weakref.ref(optimizer)
        return True

    def _trains(self, recorder: Recorder, batches: Batches) -> None:
        batches.train = True
        if recorder.in_seen_evaluation:
            recorder.evaluation_was_training()
            self._loader = batches

    def _record_epoch(self, recorder: Recorder, batches: Batches) -> None:
        """Record the epoch at the first step, which shows that this loop trains."""
        self._epoch += 1
        if not recorder.script_reports_epochs:
            recorder.epoch(self._epoch, batches.began_ns)
        if batches.epoch_samples != self._epoch_samples:
            self._epoch_samples = batches.epoch_samples
            recorder.fact(ring.EPOCH_LENGTH, batches.epoch_samples)
        batches.began_ns = 0

    # Reports of frameworks

    def evaluation_begins(self) -> bool:
        """Note that a framework begins to evaluate. Returns True if it must call
        `evaluation_ends`.
        """
        with suppress(Exception):
            recorder = self.recorder()
            if recorder is not None and self._is_own_thread():
                recorder.evaluation_over()
                if recorder.loop.phase == TRAIN:
                    recorder.phase_begins(EVALUATE)
                    recorder.usual_optimizer, recorder.usual_batches = 0, None
                    return True
        return False

    def evaluation_ends(self) -> None:
        with suppress(Exception):
            recorder = sdk.attached.recorder
            self._fetched_from = None
            if recorder is not None and recorder.loop.phase == EVALUATE:
                recorder.phase_ends()

    def saving_parts(self, save: Callable[[], Any]) -> Any:
        """Run a framework's `save()`: all files that it writes are one checkpoint."""
        recorder = self.recorder()
        if recorder is not None and recorder.loop.phase == CHECKPOINT:
            return save()
        self._parts_bytes = 0
        return self.saving(save, lambda: self._parts_bytes or NOT_KNOWN)

    # Modes and checkpoints

    def mode_begins(self, module: Any, training: bool) -> bool:
        """Note `train()` or `eval()` of a module; those of its parts follow before `mode_ends`.

        Returns True if the call is the script's own.
        """
        if self.counter.is_armed and not training and not self._depth:
            self.counter.abandon()
        self._depth += 1
        if self._depth > 1 or self._thread not in (0, get_ident()):
            return False
        self._evaluated = None if training else weakref.ref(module)
        recorder = sdk.attached.recorder
        if training and recorder is not None:
            recorder.evaluation_over()
        return True

    def mode_ends(self) -> None:
        self._depth -= 1

    def saving(
        self, save: Callable[[], Any], written_bytes: Callable[[], int], file: Any = None
    ) -> Any:
        """Run `save()`. If the loop waits for it, its time counts as a checkpoint, not a step."""
        self.counter.abandon()
        recorder = self.recorder()
        if recorder is None:
            return save()
        if recorder.loop.phase == CHECKPOINT:
            return self._save_part(save, written_bytes, file)
        waits = self._is_own_thread()
        began = monotonic_ns()
        if waits:
            recorder.phase_begins(CHECKPOINT)
        try:
            result = save()
            seconds_ns = monotonic_ns() - began
            with suppress(Exception):
                recorder.fact(ring.CHECKPOINT, seconds_ns, written_bytes())
                self.files.record_save(recorder, file)
        finally:
            if waits:
                recorder.phase_ends()
        return result

    def note_checkpoint_load(self, began_ns: int, size_bytes: int, step: int) -> None:
        """Note that the thread that trains loaded a checkpoint. Before the first step it isn't
        recorded yet: a process that never trains has nothing to tell.
        """
        recorder, now = sdk.attached.recorder, monotonic_ns()
        if recorder is not None and recorder.fetching:
            return  # a data set loads its samples
        if self._thread not in (0, get_ident()) or (recorder and recorder.loop.phase != TRAIN):
            return
        self._loads.append((now, now - began_ns, size_bytes, step))
        if len(self._loads) > _MOST_LOADS:
            self._loads = _longest(self._loads)
        if recorder is not None:
            recorder.usual_optimizer = 0  # the next step is to be looked at

    def _record_loads(self, recorder: Recorder) -> None:
        loads, self._loads = self._loads, []
        for load in loads:
            recorder.record_restore(*load)

    def _save_part(
        self, save: Callable[[], Any], written_bytes: Callable[[], int], file: Any
    ) -> Any:
        result = save()
        with suppress(Exception):
            self._parts_bytes += max(0, written_bytes())
            if recorder := sdk.attached.recorder:
                self.files.record_save(recorder, file)
        return result


def _longest(loads: list[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
    """Return the loads in order, without the one that tells least."""
    least = min(loads, key=lambda load: (load[3] != NOT_KNOWN, load[1]))
    return [load for load in loads if load is not least]
