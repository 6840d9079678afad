"""Records steps, waits, pauses and facts of one training process in its ring.

The script's calls (`sdk.py`) and the hook (`hooks/`) share one recorder, so that a step which both
of them see is counted once.
"""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress
from pathlib import Path
from time import CLOCK_BOOTTIME, clock_gettime_ns, monotonic_ns
from typing import Any

from trimtab import ring as layout
from trimtab.ranks import ProcessRank
from trimtab.ring import NOT_KNOWN, RingWriter

PHASES = ("initialise", "train", "evaluate", "checkpoint", "finalise", "communication", "restore")
TRAIN, EVALUATE, CHECKPOINT, COMMUNICATION, RESTORE = (
    PHASES.index("train"),
    PHASES.index("evaluate"),
    PHASES.index("checkpoint"),
    PHASES.index("communication"),
    PHASES.index("restore"),
)
_UNKNOWN = -(2**62)
"""The number that is added to a sum of samples if one part isn't known."""
_HELD_NS = 200_000_000
_NUMBERED_AGAIN_NS = 10_000_000_000
"""The interval at which a number is recorded that follows from the one before, in case steps got
lost."""


class Loop:
    """One training or evaluation loop: the end of its last step, and waits and samples since."""

    __slots__ = (
        "began_ns",
        "phase",
        "samples",
        "samples_of_no_fetch",
        "tokens",
        "tokens_of_no_fetch",
        "wait_ns",
        "wait_of_no_wait_ns",
    )

    def __init__(self, phase: int, began_ns: int | None) -> None:
        self.phase = phase
        self.began_ns = began_ns
        self.wait_ns = self.wait_of_no_wait_ns = NOT_KNOWN
        self.samples = self.samples_of_no_fetch = NOT_KNOWN
        self.tokens = self.tokens_of_no_fetch = NOT_KNOWN


class Recorder:
    """Measures the loop and writes steps and facts into the ring.

    Fast steps are held for up to 0.2 s and written together: with cold caches, a record written
    alone takes ten times as long as one of many. A process that is killed by a signal loses held
    steps; a process that ends writes them.
    """

    __slots__ = (
        "_numbered",
        "_outer",
        "_ring",
        "_trained",
        "fetching",
        "flush_at_ns",
        "has_restored",
        "held",
        "hook_sees_batches",
        "hook_sees_steps",
        "in_seen_evaluation",
        "last_size",
        "loop",
        "rank",
        "script_reports_epochs",
        "script_reports_numbers",
        "script_reports_steps",
        "usual_batches",
        "usual_optimizer",
    )

    def __init__(self, ring: RingWriter, process: ProcessRank) -> None:
        self.rank = process.rank
        self.loop = Loop(TRAIN, None)
        """The innermost loop."""
        self.fetching = False
        """True while a caller already measures this wait."""
        self.script_reports_steps = self.script_reports_epochs = False
        self.hook_sees_steps = self.hook_sees_batches = self.in_seen_evaluation = False
        self.usual_optimizer = 0
        """The id of the optimizer whose next step needs no checks; 0 to check the next step."""
        self.usual_batches: Any = None
        """The loader whose next batch needs no further checks."""
        self.flush_at_ns = 0
        self._ring = ring
        self.held: list[tuple[int, int, int, int, int, int, int]] = []
        """Kind, phase, time, and four fields of steps that aren't in the ring yet."""
        self.last_size = NOT_KNOWN, NOT_KNOWN
        """The samples and tokens of the last step in the ring."""
        self.script_reports_numbers = False
        self.has_restored = False
        """True once a checkpoint was loaded in this process."""
        self._trained = 0
        """Training steps that are in the ring."""
        self._numbered: tuple[int | None, int] = (None, 0)
        """Number minus training steps, as recorded last, and when it is recorded again at the
        latest."""
        self._outer: list[tuple[Loop, int]] = []
        ring.write(
            layout.RANK,
            0,
            _process_began_ns(),
            process.local_rank,
            process.world_size,
            os.getpid(),
            process.restarts,
        )
        self._flush_at_exit()

    def _flush_at_exit(self) -> None:
        """Flush at the end of processes that `multiprocessing` started, which don't run
        `atexit`.
        """
        atexit.register(self.flush)
        if util := sys.modules.get("multiprocessing.util"):
            util.Finalize(None, self.flush, exitpriority=0)

    def abandon(self) -> None:
        """Drop held steps in a forked child; the parent writes them."""
        self.held.clear()

    # Steps and waits

    def step(self, samples: int, tokens: int = NOT_KNOWN) -> None:
        """Record the end of a step that the script reports; from now on the hook records no
        steps.
        """
        if not self.script_reports_steps:
            self.script_reports_steps = True
            self.usual_optimizer = 0
            loop = self.loop
            if self.hook_sees_steps and loop.wait_ns == loop.wait_of_no_wait_ns:
                return  # no batch came since the hook recorded a step: it was the same step
        now = monotonic_ns()
        self._step(now, samples, tokens)
        if now >= self.flush_at_ns:
            self.flush()

    def step_seen(self) -> int:
        """Record the end of a step that the hook saw. Returns the time, monotonic ns."""
        now = monotonic_ns()
        if not self.script_reports_steps:
            self.hook_sees_steps = True
            self._step(now, NOT_KNOWN, NOT_KNOWN)
        return now

    def flush(self) -> int:
        """Write held steps. Returns how many there were."""
        held, self.held = self.held, []
        if held and held[0][1] == TRAIN:
            self._trained += len(held)
        for kind, phase, at_ns, duration_ns, wait_ns, samples, tokens in held:
            known = samples if samples >= 0 else NOT_KNOWN
            known_tokens = tokens if tokens >= 0 else NOT_KNOWN
            self._ring.write(kind, phase, at_ns, duration_ns, wait_ns, known, 0, known_tokens)
            self.last_size = known, known_tokens
        self.flush_at_ns = monotonic_ns() + _HELD_NS
        return len(held)

    def _step(self, now: int, samples: int, tokens: int) -> None:
        loop = self.loop
        began = loop.began_ns
        loop.began_ns = now
        if samples < 0:
            samples = loop.samples
        if tokens < 0:
            tokens = loop.tokens
        if began is None:
            kind, duration_ns, wait_ns = layout.UNTIMED_STEP, 0, NOT_KNOWN
        else:
            kind, duration_ns, wait_ns = layout.STEP, now - began, loop.wait_ns
        self.held.append((kind, loop.phase, now, duration_ns, wait_ns, samples, tokens))
        loop.wait_ns = loop.wait_of_no_wait_ns
        loop.samples = loop.samples_of_no_fetch
        loop.tokens = loop.tokens_of_no_fetch

    def loop_begins(self, waits_are_known: bool = True) -> None:
        """Begin a loop. The time since the last step of the previous epoch belongs to no step."""
        loop = self.loop
        loop.began_ns = monotonic_ns()
        loop.wait_ns = loop.wait_of_no_wait_ns = 0 if waits_are_known else NOT_KNOWN

    def forget_batches(self) -> None:
        """Drop the samples and tokens of batches that no step has followed."""
        loop = self.loop
        loop.samples, loop.tokens = loop.samples_of_no_fetch, loop.tokens_of_no_fetch

    def record_wait(self, since_ns: int) -> None:
        self.loop.wait_ns += monotonic_ns() - since_ns

    def record_batch(self, since_ns: int, samples: int, tokens: int = NOT_KNOWN) -> None:
        """Record a batch that the hook saw arrive; `samples` and `tokens` are NOT_KNOWN where they
        can't be counted.
        """
        loop = self.loop
        if loop.wait_of_no_wait_ns:
            loop.wait_ns = loop.wait_of_no_wait_ns = 0
        if loop.samples_of_no_fetch:
            loop.samples = loop.samples_of_no_fetch = 0
        if loop.began_ns is None:
            loop.began_ns = since_ns
        loop.samples += samples if samples >= 0 else _UNKNOWN
        if loop.tokens_of_no_fetch and tokens >= 0:
            # Batches before the first with tokens had none that are known.
            loop.tokens = 0 if loop.samples == samples else _UNKNOWN
            loop.tokens_of_no_fetch = 0
        loop.tokens += tokens if tokens >= 0 else _UNKNOWN
        loop.wait_ns += monotonic_ns() - since_ns

    def waits_elsewhere(self) -> None:
        """Note that another thread than that of the steps fetches batches: the data wait is
        unknown.
        """
        self.usual_batches = None
        loop = self.loop
        loop.wait_ns = loop.wait_of_no_wait_ns = NOT_KNOWN
        loop.samples = loop.samples_of_no_fetch = NOT_KNOWN
        loop.tokens = loop.tokens_of_no_fetch = NOT_KNOWN

    def record_pause(self, since_ns: int) -> None:
        """Note that the hook delayed the loop since then; that time belongs to no step."""
        if self.loop.began_ns is not None:
            self.loop.began_ns += monotonic_ns() - since_ns

    # Phases

    def phase_begins(self, phase: int, at_ns: int = 0) -> None:
        self.flush()
        began = at_ns or monotonic_ns()
        self._outer.append((self.loop, began))
        self.loop = Loop(phase, began)
        self._ring.write(layout.PHASE_BEGIN, phase, began, 0, 0, 0)

    def phase_ends(self) -> None:
        """End a phase. The surrounding loop's running step doesn't count the pause."""
        self.flush()
        now, ended = monotonic_ns(), self.loop.phase
        self.loop, began = self._outer.pop()
        if self.loop.began_ns is not None:
            self.loop.began_ns += now - began
        self._ring.write(layout.PHASE_END, ended, now, 0, 0, 0)

    def communication_begins(self) -> None:
        """Begin communication, which, unlike a phase, is a part of the step in which it happens."""
        self._ring.write(layout.PHASE_BEGIN, COMMUNICATION, monotonic_ns(), 0, 0, 0)

    def communication_ends(self) -> None:
        self._ring.write(layout.PHASE_END, COMMUNICATION, monotonic_ns(), 0, 0, 0)

    def evaluation_seen(self, since_ns: int) -> None:
        """Record a batch for evaluation that the hook saw; a phase set by the script takes
        precedence.
        """
        if self.loop.phase == TRAIN and not self.in_seen_evaluation:
            self.phase_begins(EVALUATE, since_ns)
            self.in_seen_evaluation = True
            self.usual_optimizer, self.usual_batches = 0, None

    def evaluation_over(self) -> None:
        if self.in_seen_evaluation:
            self.in_seen_evaluation = False
            self.phase_ends()

    def evaluation_was_training(self) -> None:
        """Undo a supposed evaluation, because a step followed: it was the beginning of that
        step.
        """
        seen = self.loop
        self.evaluation_over()
        seen.phase, self.loop = self.loop.phase, seen

    # Numbers within the whole training

    @property
    def trained(self) -> int:
        """Return the training steps so far. Steps of one phase are held at a time."""
        return self._trained + (len(self.held) if self.loop.phase == TRAIN else 0)

    def record_step_number(self, number: int) -> None:
        """Record how many steps the whole training has done, with the step that just ended.

        Recorded when it doesn't follow from the steps since, and now and then.
        """
        offset, now = number - self.trained, monotonic_ns()
        if offset != self._numbered[0] or now >= self._numbered[1]:
            self._numbered = offset, now + _NUMBERED_AGAIN_NS
            self._ring.write(layout.GLOBAL_STEP, self.loop.phase, now, number, 0, 0)

    def record_restore(self, ended_ns: int, duration_ns: int, size_bytes: int, step: int) -> None:
        self.has_restored = True
        self._ring.write(layout.RESTORE, self.loop.phase, ended_ns, duration_ns, size_bytes, step)

    def checkpoint_file(self, at_ns: int, known: int, size_bytes: int, *, is_loaded: bool) -> None:
        self._ring.write(layout.CHECKPOINT_FILE, 0, at_ns, known, size_bytes, 0, int(is_loaded))

    # Facts

    def epoch(self, number: int, at_ns: int) -> None:
        self.flush()
        self._ring.write(layout.EPOCH, self.loop.phase, at_ns, number, 0, 0)

    def log(self, metrics: dict[str, float], step: int) -> None:
        now = monotonic_ns()
        for name, value in metrics.items():
            self._ring.write_metric(name, now, value, step)

    def fact(
        self,
        kind: int,
        a: int,
        b: int = NOT_KNOWN,
        c: int = NOT_KNOWN,
        flags: int = 0,
        d: int = NOT_KNOWN,
    ) -> None:
        """Write a record of this kind; `ring.py` defines its fields."""
        self._ring.write(kind, self.loop.phase, monotonic_ns(), a, b, c, flags, d)


def _process_began_ns() -> int:
    """Return when the kernel started this process, on the monotonic clock; now if that can't be
    read.
    """
    now = monotonic_ns()
    with suppress(OSError, ValueError, IndexError, AttributeError):
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        ago_ns = clock_gettime_ns(CLOCK_BOOTTIME) - int(fields[19]) * 10**9 // os.sysconf(
            "SC_CLK_TCK"
        )
        return now - max(0, ago_ns)
    return now
