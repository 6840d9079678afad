"""A profile on demand: torch's profiler in one rank, limited in steps, time and bytes.

The agent requests a profile by a file in the run's folder and collects the trace beside it.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic_ns
from typing import Any

from trimtab import ring, sdk
from trimtab.hooks.training import TrainingState
from trimtab.run_folder import PROFILE_NAME, TRACE_SUFFIX


class Profiling:
    """Checks for requests, and starts and stops the profiler."""

    def __init__(self, training: TrainingState) -> None:
        self._training = training
        self._path = Path(sdk.attached.folder) / PROFILE_NAME
        self._read_ns = 0
        self._request: dict[str, Any] = {}
        self._profiler: Any = None
        self._first_step = 0
        self._began_ns = 0

    def look(self, steps: int) -> None:
        """Check for a new request for this rank."""
        with suppress(FileNotFoundError):
            changed_ns = os.stat(self._path).st_mtime_ns  # noqa: PTH116 - once a second, in the loop
            if changed_ns == self._read_ns or self._profiler:
                return
            self._read_ns = changed_ns
            request = json.loads(self._path.read_text())
            recorder = sdk.attached.recorder
            if recorder and recorder.rank == request["rank"]:
                self._request = request
                self._request["first_step"] = max(steps + 1, request["first_step"] or 0)
                self._training.at_step = self._at_step
                self._at_step(steps)

    def _at_step(self, steps: int) -> None:
        if self._profiler is None:
            if steps + 1 >= self._request["first_step"]:
                self._start(steps + 1)
            return
        over = monotonic_ns() - self._began_ns > self._request["seconds"] * 1e9
        if over or steps + 1 >= self._first_step + self._request["steps"]:
            self._training.at_step = None
            self._finish(steps + 1 - self._first_step)

    def _start(self, step: int) -> None:
        began = monotonic_ns()
        self._first_step, self._began_ns = step, began
        try:
            torch = sys.modules["torch"]
            if torch.autograd._profiler_enabled():
                raise RuntimeError(
                    "the script already runs a profiler, and a second one would end it"
                )
            profiler = torch.profiler.profile()
            profiler.start()
            self._profiler = profiler
        except Exception:
            self._training.at_step = None
            self._tell(0, 0)
        self._resume(began)

    def _finish(self, steps: int) -> None:
        began = monotonic_ns()
        profiler, self._profiler = self._profiler, None
        size_bytes = 0
        with suppress(Exception):
            profiler.stop()
            size_bytes = self._write(profiler)
        self._tell(steps, size_bytes)
        self._resume(began)

    def _write(self, profiler: Any) -> int:
        """Write the trace, then rename it. Returns its bytes; 0 if it is too large."""
        name = f"rank{self._request['rank']}-step{self._first_step}{TRACE_SUFFIX}"
        draft = self._path.with_name(f"draft-{os.getpid()}.json.gz")
        try:
            profiler.export_chrome_trace(str(draft))
            size_bytes = draft.stat().st_size
            if size_bytes > self._request["bytes"]:
                return 0
            draft.rename(self._path.with_name(name))
            return size_bytes
        finally:
            draft.unlink(missing_ok=True)

    def _tell(self, steps: int, size_bytes: int) -> None:
        if recorder := sdk.attached.recorder:
            recorder.fact(ring.PROFILE, self._first_step, steps, size_bytes)

    def _resume(self, since_ns: int) -> None:
        if recorder := sdk.attached.recorder:
            recorder.record_pause(since_ns)
