"""Amazon SageMaker Debugger's profiler output: a job's folder, or any part of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from statistics import median
from typing import Any

import numpy as np
from trimtab.wire import job_of_training

from advisor.importers.recording import (
    NO_LABELS,
    NotImportableError,
    Part,
    RecordedNode,
    Samples,
)
from advisor.importers.sagemaker.layout import Layout, TimelineFile, layout
from advisor.importers.sagemaker.reports import read_reports
from advisor.importers.sagemaker.system import LONGEST_SECONDS, SystemMetrics, first_ms
from advisor.importers.sagemaker.timelines import Timelines, first_us
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts
from advisor.importers.tally import Operator, Tally
from advisor.store.index import to_ms

FORMAT = "SageMaker Debugger"
MOST_NODES = 500
_ONLY_NODE = "algo-1"
_SUMMARY_CADENCE_MS = 60_000


def recognises(source: Source) -> bool:
    found = layout(source.sizes, source.name)
    return bool(found.system or found.timelines or found.reports)


def open_recording(source: Source, stated: StatedFacts, tally: Tally) -> SageMakerRecording:
    """Open the folder.

    Raises:
        NotImportableError: no record in it has a time.
    """
    return SageMakerRecording(source, stated, tally)


class SageMakerRecording:
    """One training job. See `recording.Recording`."""

    format, provider, owns_machine, labels = FORMAT, "aws", True, NO_LABELS

    def __init__(self, source: Source, stated: StatedFacts, tally: Tally) -> None:
        self._source, self._tally = source, tally
        self._layout = found = layout(source.sizes, source.name)
        self.training_job = stated.training_job or found.training_job
        self._processing_jobs = stated.processing_jobs
        self.job = job_of_training(self.training_job)
        self.state = self._state(stated)
        for why, paths in found.others.items():
            tally.skip("files", why, len(paths), paths[0])
        self._reports = read_reports(source, found.reports, tally)
        self._files = _by_node(found)
        self._timelines = Timelines(source, _ranks(self._files), tally)
        self.nodes = self._nodes(stated.imported_at)

    @property
    def operators(self) -> list[Operator]:
        return self._timelines.operators.most_expensive()

    @property
    def statistics(self) -> dict[str, Any]:
        """Return the tables of SageMaker's own report, and the jobs that made it, as far as
        known.
        """
        return {
            "usage": self._reports.usage,
            "rules": self._reports.rules,
            "processing_jobs": list(self._processing_jobs),
        }

    @property
    def operator_times(self) -> dict[str, Any]:
        return self._timelines.times.document()

    def parts(self, node: RecordedNode) -> Iterator[Part]:
        system = [file for file in self._layout.system if file.node == node.name]
        if system:
            yield from SystemMetrics(self._source, system, self._tally).samples()
        elif not self._layout.system:
            yield from self._unused_gpus(node)
        for file in self._files.get(node.name, ()):
            yield from self._timelines.parts(node.name, file)

    def _state(self, stated: StatedFacts) -> str:
        if stated.state:
            return stated.state
        if not self._layout.has_end:
            self._tally.note(
                "The files don't say how the job ended. It counts as finished at its last record."
            )
        return "finished"

    def _nodes(self, imported_at: datetime) -> list[RecordedNode]:
        names = sorted({file.node for file in self._layout.system} | self._files.keys())
        if len(names) > MOST_NODES:
            raise NotImportableError(f"more than {MOST_NODES} nodes")
        firsts = {name: self._first_ms(name) for name in names}
        middle = _middle_seconds(self._layout)
        nodes = [
            RecordedNode(name, first)
            for name, first in firsts.items()
            if first and (not middle or abs(first / 1000 - middle) <= LONGEST_SECONDS)
        ]
        if not nodes and self._reports.has_times:
            return self._summarised()
        if not nodes and names:
            self._tally.note(
                "The files have no time of day. The run counts as begun when it was imported."
            )
            nodes = [RecordedNode(names[0], to_ms(imported_at))]
        if not nodes:
            raise NotImportableError(
                "no record has a time: neither system metrics, nor steps, nor the report of "
                "MaxInitializationTime"
            )
        # What the other nodes' files sum up is kept with the first.
        for name in firsts.keys() - {node.name for node in nodes}:
            self._files.setdefault(nodes[0].name, []).extend(self._files.pop(name, []))
        return nodes

    def _first_ms(self, node: str) -> int | None:
        system = (file for file in self._layout.system if file.node == node)
        firsts = [first_ms(self._source, system)]
        by_process: dict[tuple[str, str], TimelineFile] = {}
        for file in self._files.get(node, ()):
            by_process.setdefault((file.kind, file.process), file)
        for file in by_process.values():
            at_us = first_us(self._source, file)
            firsts.append(at_us // 1000 if at_us else None)
        known = [at for at in firsts if at is not None]
        middle_ms = 1000 * _middle_seconds(self._layout)
        of_this_job = [at for at in known if abs(at - middle_ms) <= 1000 * LONGEST_SECONDS]
        return min(of_this_job or known, default=None)

    def _summarised(self) -> list[RecordedNode]:
        """Return the nodes of a run of which only the rules' reports are known."""
        reports = self._reports
        self._tally.note(
            "Only the reports of SageMaker's rules were imported. Without the metrics, most rules "
            "have too little data."
        )
        start, end = round(reports.started_seconds * 1000), round(reports.ended_seconds * 1000)
        gpus = Counter(node for node, _ in reports.highest_gpu_pct)
        names = reports.nodes or [_ONLY_NODE]
        return [RecordedNode(name, start, end, gpus[name]) for name in names]

    def _unused_gpus(self, node: RecordedNode) -> Iterator[Samples]:
        """Yield samples of GPUs whose highest use was 0: they were at 0 all the time. Of others no
        sample is known.
        """
        highest = self._reports.highest_gpu_pct
        own = {gpu: pct for (name, gpu), pct in highest.items() if name == node.name}
        unused = [gpu for gpu, pct in own.items() if pct == 0 and gpu[3:].isdecimal()]
        if node.ended_ms is None or not unused:
            return
        times = np.arange(node.started_ms, node.ended_ms + 1, _SUMMARY_CADENCE_MS)
        zeros = {f"gpu{int(gpu[3:6])}.busy_pct": np.zeros(len(times)) for gpu in unused}
        yield Samples(_SUMMARY_CADENCE_MS, times, zeros)


def _middle_seconds(found: Layout) -> float:
    """Return the middle of the files' times, by their names; 0 if no name has one. A stray file of
    another job doesn't move it.
    """
    system = [float(file.minute_seconds) for file in found.system]
    ends = [file.end_us / 1e6 for file in found.timelines if file.end_us]
    return median(system or ends or [0.0])


def _by_node(found: Layout) -> dict[str, list[TimelineFile]]:
    """Return the timelines of each node. A file that names no node belongs to the only one."""
    known = {file.node for file in found.system}
    files: dict[str, list[TimelineFile]] = {}
    for file in found.timelines:
        node = file.node
        if not node or (len(known) == 1 and not node.startswith("algo-")):
            node = next(iter(sorted(known)), node or _ONLY_NODE)
        files.setdefault(node, []).append(file)
    return files


def _ranks(files: dict[str, list[TimelineFile]]) -> dict[tuple[str, str], int]:
    """Return a number for each process that may have steps, by node and then by process."""
    processes = {
        (node, file.process)
        for node, own in files.items()
        for file in own
        if file.kind in ("python", "model")
    }
    return {process: rank for rank, process in enumerate(sorted(processes, key=_in_order))}


def _in_order(process: tuple[str, str]) -> tuple[Iterable[int], str, str]:
    digits = "".join(char if char.isdecimal() else " " for char in process[0] + " " + process[1])
    return [int(number[:18]) for number in digits.split()], *process
