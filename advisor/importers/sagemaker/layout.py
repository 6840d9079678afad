"""Sorts the files of a SageMaker profiler folder by their paths alone.

Folders of a job may be unnamed, and a person may import any part of the tree, so files are
recognised by the inner end of their paths.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

_SYSTEM = re.compile(r"(\d{9,11})\.(algo-\d{1,4})(?:\.\w+)?\.json(?:\.\w+)?")
_TIMELINE = re.compile(
    r"(?:(\d{10,20})_(.+)_)?(pythontimeline|model_timeline|horovod_timeline\w*"
    r"|smdataparallel_timeline)\.json"
)
_TRACE = re.compile(r".*\.trace\.json(?:\.gz)?")
_METADATA = re.compile(r"(.+)_(\d{10,20})_(\d{10,20})\.metadata")
_REPORT = re.compile(r"(?:.*/)?profiler-reports/(\w+)\.json")
_END = "training_job_end.ts"
_TIME_SUFFIX = r"-\d{4}(?:-\d{2}){5}-\d{3}"
_JOB_FOLDER = re.compile(rf"(?:.*/)?([A-Za-z0-9-]*{_TIME_SUFFIX})(?:/.*)?")
_NODE = re.compile(r"algo-\d{1,4}")

TimelineKind = Literal["python", "model", "horovod", "smdataparallel", "trace"]


@dataclass(frozen=True)
class SystemFile:
    path: str
    node: str
    minute_seconds: int
    """Unix seconds at which its minute begins."""


@dataclass(frozen=True)
class TimelineFile:
    path: str
    kind: TimelineKind
    node: str
    """The node as the file's name says; empty if it doesn't."""
    process: str
    """The part of its name that tells processes of a node apart."""
    end_us: int
    """0: its name doesn't say."""
    base_us: int = 0
    """The time from which a TF trace counts; 0: the file says it itself."""


@dataclass
class Layout:
    """The files of one job."""

    system: list[SystemFile] = field(default_factory=list)
    timelines: list[TimelineFile] = field(default_factory=list)
    reports: dict[str, str] = field(default_factory=dict)
    """Rule -> path."""
    others: dict[str, list[str]] = field(default_factory=dict)
    """Reasons why files aren't read -> paths."""
    has_end: bool = False
    training_job: str = ""


def layout(paths: Iterable[str], folder_name: str) -> Layout:
    """Sort the files. `folder_name`: of the imported folder, which may be the job's name."""
    every = list(paths)
    found = Layout(training_job=_training_job([f"{folder_name}/{path}" for path in every]))
    bases = dict(filter(None, map(_base, every)))
    for path in every:
        name = path.rpartition("/")[2]
        if system := _SYSTEM.fullmatch(name):
            found.system.append(SystemFile(path, system[2], int(system[1])))
        elif timeline := _TIMELINE.fullmatch(name):
            found.timelines.append(_timeline(path, *timeline.groups()))
        elif _TRACE.fullmatch(name):
            node, base_us = bases.get(_profiled_step(path), ("", 0))
            found.timelines.append(TimelineFile(path, "trace", _node(node), node, 0, base_us))
        elif report := _REPORT.fullmatch(path):
            found.reports.setdefault(report[1], path)
        elif name == _END:
            found.has_end = True
        elif not _METADATA.fullmatch(name):
            found.others.setdefault(_why_not(path, name), []).append(path)
    found.system.sort(key=lambda file: (file.minute_seconds, file.path))
    found.timelines.sort(key=lambda file: (file.end_us, file.path))
    return found


def training_jobs(paths: Iterable[str]) -> set[str]:
    """Return the jobs that folders are named after, with the time that SageMaker adds."""
    matches = (_JOB_FOLDER.fullmatch(path) for path in paths)
    return {match[1] for match in matches if match}


def _training_job(paths: list[str]) -> str:
    matches = (_JOB_FOLDER.fullmatch(path) for path in paths[:1000])
    return next((match[1] for match in matches if match), "")


def _timeline(path: str, end: str | None, process: str | None, suffix: str) -> TimelineFile:
    kinds: tuple[TimelineKind, ...] = ("model", "horovod", "smdataparallel")
    kind: TimelineKind = next((each for each in kinds if suffix.startswith(each)), "python")
    return TimelineFile(path, kind, _node(process or ""), process or "", microseconds(end))


def microseconds(digits: str | None) -> int:
    """Return a Unix time of any unit, by its size; 0 for none."""
    time = int(digits or 0)
    while time > 10**17:
        time //= 1000
    return time


def _node(process: str) -> str:
    """Return the node: `7-algo-1` or `algo-1-7` is a process of `algo-1`; others name the machine,
    if at all.
    """
    named = _NODE.search(process)
    if named:
        return named[0]
    return process.partition("-")[2] if not process.replace("_", "").isdecimal() else ""


def _base(path: str) -> tuple[str, tuple[str, int]] | None:
    found = _METADATA.fullmatch(path.rpartition("/")[2])
    return (path.rpartition("/")[0], (found[1], microseconds(found[2]))) if found else None


def _profiled_step(path: str) -> str:
    """Return the folder above `plugins/profile/TIME/`, which has the metadata."""
    return path.partition("/plugins/")[0]


def _why_not(path: str, name: str) -> str:
    if name == "python_stats" or "/cprofile/" in path.lower():
        return "cProfile statistics aren't read: their format can run code"
    if name.endswith(".tmp"):
        return "still being written when it was copied"
    if name.endswith((".html", ".ipynb")):
        return "reports for people aren't read"
    if "/debug-output/" in f"/{path}" or ".tfevents" in name:
        return "tensors aren't read"
    if name.endswith(".pb"):
        return "TensorFlow's tables aren't read"
    return "not a file of SageMaker's profiler"
