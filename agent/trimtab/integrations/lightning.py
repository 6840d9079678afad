"""Lightning: `Trainer(callbacks=[TrimtabCallback()])`."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from trimtab.integrations.loop import CallbackLoop


def __getattr__(name: str) -> Any:
    if name == "TrimtabCallback":
        return _callback()
    raise AttributeError(name)


@cache
def _callback() -> Any:
    """Make the class on demand, from the Lightning that the script has imported."""

    class TrimtabCallback(_base()):  # type: ignore[misc]
        """Records epochs, evaluations and metrics, and steps if the hook doesn't.

        Args:
            batch_size: samples of one batch in this process; None: not known.
        """

        def __init__(self, batch_size: int | None = None) -> None:
            super().__init__()
            self._batch_size = batch_size
            self._loop = CallbackLoop()
            self._steps = self._batches = 0

        def on_train_epoch_start(self, trainer: Any, module: Any) -> None:
            self._loop.epoch_begins(trainer.current_epoch)

        def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
            self._loop.batch_begins()

        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            self._batches += 1
            if trainer.global_step != self._steps:
                known = self._batch_size
                samples = None if known is None else known * self._batches
                self._loop.step_ends(samples, trainer.global_step)
                self._steps, self._batches = trainer.global_step, 0

        def on_validation_start(self, trainer: Any, module: Any) -> None:
            self._loop.phase_begins("evaluate")

        def on_validation_end(self, trainer: Any, module: Any) -> None:
            self._loop.phase_ends()

        def on_test_start(self, trainer: Any, module: Any) -> None:
            self._loop.phase_begins("evaluate")

        def on_test_end(self, trainer: Any, module: Any) -> None:
            self._loop.phase_ends()

        def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
            self._loop.log(trainer.callback_metrics, trainer.global_step)

        def on_exception(self, trainer: Any, module: Any, exception: BaseException) -> None:
            self._loop.phase_ends()

    TrimtabCallback.__qualname__ = "TrimtabCallback"  # so that unpickling finds the class again
    return TrimtabCallback


def _base() -> Any:
    """Return the base class: `lightning` and `pytorch_lightning` are two packages with two base
    classes.
    """
    if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
        from pytorch_lightning import Callback  # type: ignore[import-not-found]
    else:
        from lightning.pytorch import Callback  # type: ignore[import-not-found]
    return Callback
