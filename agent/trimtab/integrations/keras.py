"""Keras: `model.fit(..., callbacks=[TrimtabCallback(batch_size=32)])`."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import Any

from trimtab.integrations.loop import CallbackLoop


def __getattr__(name: str) -> Any:
    if name == "TrimtabCallback":
        return _callback()
    raise AttributeError(name)


@cache
def _callback() -> Any:
    """Make the class on demand, from the Keras that the script uses."""
    keras: Any = sys.modules.get("keras") or _imported()
    base = keras.callbacks.Callback
    fetches_before = _fetches_before_the_batch_begins(keras)
    counts = _counts_steps(keras)

    class TrimtabCallback(base):  # type: ignore[misc, valid-type]
        """Records steps, epochs, evaluations and the metrics of each epoch.

        Args:
            batch_size: samples of one step in this process; None: not known.
        """

        def __init__(self, batch_size: int | None = None) -> None:
            super().__init__()
            self._samples = batch_size
            self._loop = CallbackLoop()

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self._loop.epoch_begins(epoch, waits_are_known=fetches_before, has_looked=True)

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if fetches_before:
                self._loop.batch_begins()

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self._loop.step_ends(self._samples, self._steps_done())

        def _steps_done(self) -> int | None:
            """Return the optimizer's own count, which a loaded model continues. On JAX `fit` keeps
            it elsewhere until it ends.
            """
            if not counts:
                return None
            try:
                return int(self.model.optimizer.iterations)
            except Exception:
                return None

        def on_test_begin(self, logs: Any = None) -> None:
            self._loop.phase_begins("evaluate")

        def on_test_end(self, logs: Any = None) -> None:
            self._loop.phase_ends()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self._loop.log(logs)

    TrimtabCallback.__qualname__ = "TrimtabCallback"  # so that unpickling finds the class again
    return TrimtabCallback


def _imported() -> Any:
    try:
        return import_module("keras")
    except ImportError:
        return import_module("tensorflow").keras


def _counts_steps(keras: Any) -> bool:
    """Return whether the optimizer's count is up to date during `fit`, and reading it is quick."""
    try:
        return str(keras.backend.backend()) == "torch"
    except AttributeError:
        return False


def _fetches_before_the_batch_begins(keras: Any) -> bool:
    """Return whether batches are fetched before they begin. On TensorFlow the step itself fetches
    its batch, so the data wait can't be measured.
    """
    try:
        return str(keras.backend.backend()) != "tensorflow"
    except AttributeError:
        return False
