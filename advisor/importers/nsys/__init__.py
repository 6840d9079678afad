"""Traces of NVIDIA Nsight Systems, exported with `nsys export --type sqlite`.

Kernels, copies, CUDA calls and NVTX ranges; a kernel table as `nsys stats --report
cuda_gpu_kern_sum` has it; when each GPU was busy. One file or several: one for each process or
machine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from advisor.importers.activity import busy_samples, union
from advisor.importers.nsys.database import HEAD, Database
from advisor.importers.nsys.report import Report, read
from advisor.importers.profiler_recording import ProfilerRecording, training_steps
from advisor.importers.recording import (
    Floats,
    NotImportableError,
    Part,
    RecordedMachine,
    RecordedNode,
    Samples,
    SignOfLife,
)
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts
from advisor.importers.tally import Tally
from advisor.store.index import to_ms

FORMAT = "Nsight Systems"
_MOST_FILES = 256
_SUFFIXES = (".sqlite", ".sqlite3", ".db")
_MARK = "TARGET_INFO_SESSION_START_TIME"
_OF_ITS_OWN = {_MARK, "CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS", "ANALYSIS_DETAILS"}
_MOST_LISTED = 200
"""Kernels of the table."""


def recognises(source: Source) -> bool:
    """Return whether a file is an SQLite database with a table of Nsight Systems'."""
    return any(_is_export(source, path) for path in _candidates(source))


def open_recording(source: Source, stated: StatedFacts, tally: Tally) -> NsysRecording:
    """Open all exports of a folder.

    Raises:
        NotImportableError: none of them can be read, or none has an operation.
    """
    return NsysRecording(source, to_ms(stated.imported_at), tally)


class NsysRecording(ProfilerRecording):
    """The processes of one or several machines. See `recording.Recording`."""

    format = FORMAT

    def __init__(self, source: Source, imported_ms: int, tally: Tally) -> None:
        super().__init__(tally)
        self._tally = tally
        self._reports: dict[str, list[Report]] = defaultdict(list)
        self.statistics |= {"kernels": [], "gpus": []}
        for path in _candidates(source):
            if _is_export(source, path):
                self._read(source, path, imported_ms * 1000.0)
        if not self._reports:
            raise NotImportableError("no kernel, copy, call or NVTX range in it")
        self.nodes = [_node(host, own) for host, own in sorted(self._reports.items())]
        if any(each.steps for own in self._reports.values() for each in own):
            tally.note("NVTX ranges that are named like `step 12` count as training steps.")

    def parts(self, node: RecordedNode) -> Iterator[Part]:
        own = self._reports[node.name]
        ended_ms = int(max(each.ended_us for each in own) // 1000) + 1
        yield SignOfLife(ended_ms)
        if samples := self._samples(own, node.started_ms, ended_ms):
            self._tally.take("samples", sum(map(_known, samples.columns.values())))
            yield samples
        for rank, steps in self._steps(node.name):
            self._tally.take("steps", len(steps))
            yield training_steps(rank, *np.array([each[:2] for each in steps]).T)

    def _read(self, source: Source, path: str, imported_us: float) -> None:
        try:
            with closing(Database(source.folder / path)) as database:
                report = read(database, path, imported_us, self._sums, self._times, self._tally)
        except (NotImportableError, OSError) as error:
            self._tally.skip("files", f"can't be read: {error}", 1, path)
            return
        if report is None:
            self._tally.skip("files", "no kernel, copy, call or NVTX range in it", 1, path)
            return
        self._reports[report.host].append(report)
        listed = self.statistics["kernels"]
        listed += [{"file": path, **row} for row in report.kernels[: _MOST_LISTED - len(listed)]]

    def _samples(self, own: Sequence[Report], began_ms: int, ended_ms: int) -> Samples | None:
        on_gpu: dict[int, list[tuple[Floats, Floats]]] = defaultdict(list)
        for report in own:
            for gpu, each in report.busy.items():
                on_gpu[gpu].append(each)
        merged = {gpu: _merged(each) for gpu, each in on_gpu.items()}
        self.statistics["gpus"] += [
            {"node": own[0].host, **_idle(gpu, *each)} for gpu, each in sorted(merged.items())
        ]
        samples = busy_samples(merged, began_ms, ended_ms)
        metrics = [report.metrics for report in own if report.metrics]
        if samples is None or len(own) > 1 or not metrics:
            return samples
        count = len(samples.times_ms)
        found = {name: _as_long(each, count) for name, each in metrics[0].items()}
        return replace(samples, columns={**samples.columns, **found})

    def _steps(self, host: str) -> Iterator[tuple[int, list[tuple[float, float]]]]:
        """Yield a rank for each process with steps, over all machines."""
        rank = 0
        for name, own in sorted(self._reports.items()):
            for steps in (each for report in own for each in report.steps):
                if name == host:
                    yield rank, steps
                rank += 1


def _node(host: str, own: Sequence[Report]) -> RecordedNode:
    began_ms = int(min(each.began_us for each in own) // 1000)
    gpus = max((gpu for each in own for gpu in each.busy), default=-1) + 1
    machine = RecordedMachine(gpus=max((each.gpus for each in own), key=len))
    return RecordedNode(host, began_ms, gpus=gpus, machine=machine)


def _candidates(source: Source) -> Iterator[str]:
    named = (path for path in source.sizes if path.endswith(_SUFFIXES))
    return islice((path for path in named if source.head(path, len(HEAD)) == HEAD), _MOST_FILES)


def _is_export(source: Source, path: str) -> bool:
    try:
        with closing(Database(source.folder / path)) as database:
            return bool(_OF_ITS_OWN & database.columns.keys())
    except (NotImportableError, OSError):
        return False


def _merged(each: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    starts, ends = zip(*each, strict=True)
    return union(np.concatenate(starts), np.concatenate(ends))


def _idle(gpu: int, start_us: Floats, end_us: Floats) -> dict[str, Any]:
    """Return how long a GPU worked between its first and its last operation, and what it waited."""
    gaps = start_us[1:] - end_us[:-1]
    busy, length = float((end_us - start_us).sum()), float(end_us[-1] - start_us[0])
    return {
        "gpu": gpu,
        "busy_us": round(busy),
        "idle_us": round(length - busy),
        "gaps": len(gaps),
        "longest_gap_us": round(float(gaps.max(initial=0.0))),
    }


def _as_long(values: Floats, count: int) -> Floats:
    return np.concatenate((values, np.full(count, np.nan)))[:count]


def _known(values: Floats) -> int:
    return int(np.isfinite(values).sum())
