"""Connects `training.py` to training frameworks on top of torch, and to Keras on any backend.

A framework knows when its evaluations and checkpoints begin and end; the loaders and modes that
`pytorch.py` sees show it only in part. Lightning stops a validation by its length and never asks
the loader for the end. Accelerate fetches a batch ahead. Keras has optimizers of its own.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from time import monotonic_ns
from types import ModuleType
from typing import Any

from trimtab import sdk
from trimtab.hooks import pytorch
from trimtab.hooks.batches import Batches
from trimtab.integrations.loop import CallbackLoop

Method = Callable[..., Any]


def _evaluating(original: Method) -> Method:
    """Wrap a method that is an evaluation from its call to its return."""

    @functools.wraps(original)
    def evaluate(self: Any, *arguments: Any, **named: Any) -> Any:
        begins = pytorch.training.evaluation_begins()
        try:
            return original(self, *arguments, **named)
        finally:
            if begins:
                pytorch.training.evaluation_ends()

    return evaluate


def _saving(original: Method) -> Method:
    """Wrap a method that is a checkpoint from its call to its return, whatever it saves how
    often.
    """

    @functools.wraps(original)
    def save(self: Any, *arguments: Any, **named: Any) -> Any:
        return pytorch.training.saving_parts(lambda: original(self, *arguments, **named))

    return save


def _wrap(owner: Any, names: tuple[str, ...], wrapper: Callable[[Method], Method]) -> None:
    """Wrap the methods that this version of the framework has."""
    for name in names:
        original = vars(owner).get(name)
        if callable(original):
            setattr(owner, name, wrapper(original))


# Lightning


def _patch_lightning_evaluation(module: ModuleType) -> None:
    _wrap(module._EvaluationLoop, ("run",), _evaluating)


def _patch_lightning_trainer(module: ModuleType) -> None:
    _wrap(module.Trainer, ("save_checkpoint",), _saving)


# Hugging Face


def _patch_transformers(module: ModuleType) -> None:
    _wrap(module.Trainer, ("evaluate", "predict"), _evaluating)
    _wrap(module.Trainer, ("_save_checkpoint",), _saving)


def _patch_accelerator(module: ModuleType) -> None:
    _wrap(module.Accelerator, ("save_state", "save_model"), _saving)


def _patch_accelerate_loaders(module: ModuleType) -> None:
    for name in ("DataLoaderShard", "DataLoaderDispatcher"):
        if loader_class := getattr(module, name, None):
            _wrap(loader_class, ("__iter__",), _timed_batches)


def _timed_batches(original: Method) -> Method:
    """Time batches when this loader yields them, not when they are fetched ahead: only then does
    the loop see them.
    """

    @functools.wraps(original)
    def __iter__(self: Any) -> Iterator[Any]:  # noqa: N807
        batches = _loop_begins(self)
        iterator = original(self)
        if batches is None:
            yield from iterator
            return
        number, ends = 0, _loop_dropped
        try:
            while True:
                began = _fetch_begins()
                try:
                    batch = next(iterator)
                except StopIteration:
                    ends = _loop_ended
                    return
                finally:
                    _fetch_ends(began)
                number += 1
                _fetched(batches, batch, number, began)
                yield batch
        finally:
            ends(batches)

    return __iter__


def _loop_begins(loader: Any) -> Batches | None:
    """Return the loop's batches, or None if nothing is recorded here: a loader around this one
    already measures the wait.
    """
    try:
        recorder = pytorch.training.recorder()
        if recorder is None or recorder.fetching:
            return None
        batches = pytorch.batches_of(getattr(loader, "base_dataloader", loader))
        pytorch.training.loop_begins(batches, _no_gradients())
    except Exception:
        return None
    return batches


def _fetch_begins() -> int:
    """Return when the wait began; 0 if it isn't measured here."""
    recorder = sdk.attached.recorder
    pytorch.training.counter.pause()
    if recorder is None or recorder.fetching:
        return 0
    recorder.fetching = True
    return monotonic_ns()


def _fetch_ends(began: int) -> None:
    if began and (recorder := sdk.attached.recorder):
        recorder.fetching = False


def _fetched(batches: Batches, batch: Any, number: int, began: int) -> None:
    try:
        recorder = sdk.attached.recorder
        if began and recorder:
            pytorch.training.note_batch(recorder, batches, began, batch, number, _no_gradients())
    except Exception:
        return


def _loop_ended(batches: Batches) -> None:
    try:
        pytorch.training.loop_ends(batches)
    except Exception:
        return


def _loop_dropped(batches: Batches) -> None:
    try:
        pytorch.training.loop_dropped(batches)
    except Exception:
        return


def _no_gradients() -> bool:
    return not sys.modules["torch"]._C.is_grad_enabled()


# Keras


def _patch_keras(module: ModuleType) -> None:
    """Patch Keras: `fit` and `evaluate` report to one list of callbacks, whichever the backend
    is.
    """
    callbacks = module.CallbackList
    for name, report, is_first in (
        ("on_epoch_begin", _keras_epoch_begins, True),
        ("on_train_batch_begin", _keras_batch_begins, True),
        ("on_train_batch_end", _keras_batch_ends, False),
        ("on_test_begin", _keras_test_begins, True),
        ("on_test_end", _keras_test_ends, False),
    ):
        _wrap(callbacks, (name,), functools.partial(_reporting, report=report, is_first=is_first))


def _reporting(original: Method, report: Method, is_first: bool) -> Method:
    """Report before or after the user's callbacks, which belong to the step or evaluation."""

    @functools.wraps(original)
    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        if is_first:
            _report(report, self, arguments)
        try:
            return original(self, *arguments, **named)
        finally:
            if not is_first:
                _report(report, self, arguments)

    return method


def _report(report: Method, callbacks: Any, arguments: tuple[Any, ...]) -> None:
    try:
        if loop := _keras_loop(callbacks):
            report(loop, *arguments[:1])
    except Exception:
        return


def _keras_loop(callbacks: Any) -> CallbackLoop | None:
    """Return the loop, or None if the script's own Trimtab callback is in the list, which then
    records everything.
    """
    loop = callbacks.__dict__.get("_trimtab_loop", callbacks)
    if loop is callbacks:
        own = any(type(each).__name__ == "TrimtabCallback" for each in callbacks.callbacks)
        loop = None if own or pytorch.training.recorder() is None else CallbackLoop()
        callbacks._trimtab_loop = loop
    return loop if isinstance(loop, CallbackLoop) else None


def _keras_epoch_begins(loop: CallbackLoop, epoch: int) -> None:
    # On torch `fit` has looked at a batch before, to build the model.
    loop.epoch_begins(epoch, waits_are_known=not _steps_fetch(), has_looked=True)


def _keras_batch_begins(loop: CallbackLoop, *_: Any) -> None:
    if not _steps_fetch():
        loop.batch_begins()


def _keras_batch_ends(loop: CallbackLoop, *_: Any) -> None:
    loop.step_ends()


def _keras_test_begins(loop: CallbackLoop, *_: Any) -> None:
    loop.phase_begins("evaluate")


def _keras_test_ends(loop: CallbackLoop, *_: Any) -> None:
    loop.phase_ends()


def _steps_fetch() -> bool:
    """Return whether the step itself fetches its batch, as on TensorFlow, so that the data wait
    isn't known.
    """
    return str(sys.modules["keras"].backend.backend()) == "tensorflow"


patches: dict[str, Callable[[ModuleType], None]] = {
    "lightning.pytorch.loops.evaluation_loop": _patch_lightning_evaluation,
    "lightning.pytorch.trainer.trainer": _patch_lightning_trainer,
    "pytorch_lightning.loops.evaluation_loop": _patch_lightning_evaluation,
    "pytorch_lightning.trainer.trainer": _patch_lightning_trainer,
    "transformers.trainer": _patch_transformers,
    "accelerate.accelerator": _patch_accelerator,
    "accelerate.data_loader": _patch_accelerate_loaders,
    "keras.src.callbacks.callback_list": _patch_keras,
}
