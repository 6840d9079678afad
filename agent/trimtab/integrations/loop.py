"""The training loop that all callbacks report to."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from time import monotonic_ns
from typing import Any

from trimtab import sdk
from trimtab.ring import NOT_KNOWN


class CallbackLoop:
    """Records steps, waits and phases; steps and waits only if the hook doesn't record them."""

    def __init__(self) -> None:
        self._since_ns = 0
        self._phase: AbstractContextManager[None] | None = None

    def epoch_begins(
        self, number: int, waits_are_known: bool = True, has_looked: bool = False
    ) -> None:
        """Note that an epoch begins.

        Args:
            waits_are_known: false if the step itself fetches its batch.
            has_looked: batches may have been fetched before, with which nothing was trained.
        """
        sdk.epoch(number)
        self._since_ns = monotonic_ns()
        recorder = sdk.attached.recorder
        if recorder and not recorder.hook_sees_batches:
            recorder.loop_begins(waits_are_known)
        elif recorder and has_looked:
            recorder.loop_begins()
            recorder.forget_batches()

    def batch_begins(self) -> None:
        """Note that a batch arrived; the time since the last step is its data wait."""
        recorder = sdk.attached.recorder
        if recorder and self._since_ns and not recorder.hook_sees_batches:
            with suppress(Exception):
                recorder.record_batch(self._since_ns, NOT_KNOWN)

    def step_ends(self, samples: int | None = None, number: int | None = None) -> None:
        """Note the end of a step.

        Args:
            number: of the step within the whole training; None: not known.
        """
        recorder = sdk.attached.recorder
        if recorder is None or not recorder.hook_sees_steps:
            sdk.step(samples)
            recorder = sdk.attached.recorder
        if recorder and number is not None:
            with suppress(Exception):
                recorder.script_reports_numbers = True
                recorder.record_step_number(int(number))
        self._since_ns = monotonic_ns()

    def phase_begins(self, name: str) -> None:
        if self._phase is None:
            self._phase = sdk.phase(name)
            self._phase.__enter__()

    def phase_ends(self) -> None:
        if self._phase is not None:
            self._phase.__exit__(None, None, None)
            self._phase = None
            self._since_ns = monotonic_ns()

    def log(self, values: Mapping[str, Any] | None, step: int | None = None) -> None:
        """Record the values that are numbers."""
        numbers: dict[str, float] = {}
        for name, value in (values or {}).items():
            with suppress(Exception):
                numbers[str(name)] = float(value)
        with suppress(Exception):
            numbers.pop("step", None)
            sdk.log(step=step, **numbers)
