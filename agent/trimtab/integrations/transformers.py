"""Hugging Face Transformers: `Trainer(..., callbacks=[TrimtabCallback()])`."""

from __future__ import annotations

from functools import cache
from typing import Any

from trimtab.integrations.loop import CallbackLoop


def __getattr__(name: str) -> Any:
    if name == "TrimtabCallback":
        return _callback()
    raise AttributeError(name)


@cache
def _callback() -> Any:
    """Make the class on demand: only then is Transformers imported."""
    from transformers import TrainerCallback  # type: ignore[import-not-found]

    class TrimtabCallback(TrainerCallback):  # type: ignore[misc]
        """Records epochs, evaluations and logs, and steps if the hook doesn't."""

        def __init__(self) -> None:
            self._loop = CallbackLoop()

        def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self._loop.epoch_begins(int(state.epoch or 0))

        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self._loop.phase_ends()
            self._loop.batch_begins()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            batches = args.gradient_accumulation_steps
            self._loop.step_ends(args.train_batch_size * batches, state.global_step)

        def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self._loop.phase_begins("evaluate")

        def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self._loop.phase_ends()

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self._loop.phase_ends()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            self._loop.log(logs, state.global_step)

    TrimtabCallback.__qualname__ = "TrimtabCallback"  # so that unpickling finds the class again
    return TrimtabCallback
