"""Counts the floating-point operations of single training steps, by torch's own formulas.

A counted step is a real one, under a dispatch mode that looks at the shapes of each operation and
changes nothing. A mode ends what torch.compile has compiled, so where anything is compiled nothing
is counted.
"""

from __future__ import annotations

import logging
import os
import sys
from importlib import import_module
from threading import get_ident
from typing import Any

from trimtab import ring
from trimtab.hooks.operations import Formulas, StepTally, counting_mode
from trimtab.recorder import Recorder
from trimtab.ring import NOT_KNOWN

MOST_STEPS = 8
"""The most steps that are counted in a process."""
_MOST_TOKENS = 2**31 - 2


class StepCounter:
    """Counts single steps; at most one is being counted at a time.

    A count begins at the end of a step, or with the step's first batch where a loader is seen. It
    pauses while a loader fetches, which may start processes, and ends with the optimizer's step.
    """

    def __init__(self) -> None:
        self._begin()
        os.register_at_fork(after_in_child=self._forget)

    def _begin(self) -> None:
        self.is_armed = False
        """True from the end of a step until that of the one that is counted."""
        self.is_entered = False
        """True while the mode sees what is computed."""
        self.tally = StepTally()
        self._mode: Any = None
        self._thread = 0
        self._formulas: Formulas | None = None
        self._size = NOT_KNOWN, NOT_KNOWN
        """The samples and tokens of the step because of which the next one is counted."""
        self._known: set[tuple[int, int]] = set()
        self._tries = 0
        self._is_possible = True

    def _forget(self) -> None:
        self.pause()
        self._begin()

    def rule_out(self) -> None:
        """Count nothing in this process from now on."""
        self.abandon()
        self._is_possible = False

    def ask(self, recorder: Recorder) -> None:
        """Count the next step, if none of the last one's size was counted yet."""
        size = recorder.last_size
        if not self._is_possible or self.is_armed or size in self._known or _is_compiled():
            return
        if self._tries >= MOST_STEPS:
            return
        self._tries += 1
        try:
            self._formulas = self._formulas or _formulas()
            self._mode = counting_mode(self._formulas)
            self._size, self.tally, self.is_armed = size, StepTally(), True
            recorder.usual_batches = None  # the next batch is to be looked at
            if not recorder.hook_sees_batches:
                self.enter()
        except Exception:
            self.rule_out()

    def enter(self) -> None:
        """Begin to count, or go on after a pause."""
        if not self.is_armed or self.is_entered:
            return
        try:
            if _is_in_mode() or _is_compiled() or _is_captured():
                self.abandon()
                return
            self._mode.__enter__()
            self._mode.tally, self.is_entered, self._thread = self.tally, True, get_ident()
        except Exception:
            self.rule_out()

    def pause(self) -> None:
        """Leave the mode. If one of the script's own is within it, it stays until a later call and
        lets everything pass, and nothing is recorded.
        """
        if not self.is_entered or self._thread != get_ident():
            return
        self._mode.tally = None
        try:
            if _innermost_mode() is self._mode:
                self.is_entered = False
                self._mode.__exit__(None, None, None)
        except Exception:
            self._is_possible = False

    def abandon(self) -> None:
        """End the count without a result."""
        self.pause()
        self.is_armed = False

    def step_ends(self, recorder: Recorder, samples: int, tokens: int) -> None:
        """Note the end of a step, with its samples and tokens; below 0: not known. If it was
        counted, record what it took.
        """
        was_armed = self.is_armed
        self.abandon()
        tally = self.tally
        if was_armed and not self.is_entered and tally.is_whole and tally.forward > 0:
            size = max(samples, NOT_KNOWN), max(tokens, NOT_KNOWN)
            self._known |= {size, self._size}
            _record(recorder, tally, *size)


def _record(recorder: Recorder, tally: StepTally, samples: int, tokens: int) -> None:
    flags = (min(tokens, _MOST_TOKENS) + 1) << 1 | tally.is_at_least
    work = tally.forward, tally.backward, tally.recomputed
    recorder.fact(ring.FLOPS, *work, flags=flags, d=samples)


def _formulas() -> Formulas:
    """Return torch's formulas by operation, and those of the same operations on the CPU.

    Raises:
        ImportError: this torch can't be counted: its modes don't let all operations pass.
    """
    modes: Any = import_module("torch.utils._python_dispatch")
    if not hasattr(modes.TorchDispatchMode, "supports_higher_order_operators"):
        raise ImportError("torch is older than 2.6")
    log = logging.getLogger("torch.utils.flop_counter")
    was_disabled, log.disabled = log.disabled, True  # It says where Triton is missing.
    try:
        known_formulas: Any = import_module("torch.utils.flop_counter").flop_registry
    finally:
        log.disabled = was_disabled
    found: Formulas = dict(known_formulas)
    aten = sys.modules["torch"].ops.aten
    attention = "_scaled_dot_product_flash_attention"
    for name in ("", "_backward"):
        known = found.get(getattr(aten, f"{attention}{name}"))
        if known is not None:
            found[getattr(aten, f"{attention}_for_cpu{name}")] = known
    return found


def _is_compiled() -> bool:
    """Return whether the script has compiled a function, or prepared one for that."""
    dynamo = sys.modules.get("torch._dynamo.eval_frame")
    return dynamo is not None and any(dynamo.cached_backends.values())


def _is_in_mode() -> bool:
    torch_c = sys.modules["torch"]._C
    return bool(torch_c._len_torch_dispatch_stack()) or torch_c._get_tracing_state() is not None


def _is_captured() -> bool:
    cuda = sys.modules["torch"].cuda
    return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())


def _innermost_mode() -> Any:
    torch_c = sys.modules["torch"]._C
    depth = torch_c._len_torch_dispatch_stack()
    return torch_c._get_dispatch_stack_at(depth - 1) if depth else None
