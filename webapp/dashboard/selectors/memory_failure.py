"""Says which memory of a failed run ran out, how full it was, and what usually helps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rules.failure_causes import OOM, cause_in
from webapp.analysis.models import Judgement
from webapp.dashboard.selectors.judgements import RuleLine
from webapp.runs.failure import FirstFailure
from webapp.runs.models import Node, Run

GIB = 2**30
GPU, HOST = "gpu", "host"
LINES_SHOWN = 5
"""The last lines of standard error that the page shows without unfolding."""
OVERVIEW = "overall_system_usage"
_OF_GPU = re.compile(r"CUDA|\bHIP\b|\bGPU\b|RESOURCE_EXHAUSTED")
_GPU_NUMBER = re.compile(r"\bGPU (\d+)")
_PLACE = re.compile(r'File "([^"]+)", line (\d+)(?:, in (\S+))?')
_LIBRARIES = re.compile(r"/(site|dist)-packages/|/lib/python3|^<")
_CHARTS = {GPU: ("gpu_memory", "gpu_memory_share"), HOST: ("memory", "memory_share")}
_USAGE = {GPU: "gpu_memory_pct_max", HOST: "cpu_memory_pct_max"}
_HELP = {
    GPU: (
        "Halve the batch and accumulate gradients over two batches: the result stays the same, "
        "except for batch norm.",
        "Train in bf16 or fp16 (autocast), or recompute activations (gradient checkpointing).",
        "If memory grew step by step: keep loss.item(), not loss, and no tensors of past steps.",
        "Else use a GPU with more memory, or divide the model among GPUs (FSDP).",
    ),
    HOST: (
        "Use fewer data-loader workers or a smaller prefetch_factor: each worker holds batches.",
        "Read the data in pieces or memory-mapped instead of loading it whole.",
        "If memory grew step by step: keep no results of past steps in lists.",
        "Else use a machine, or a limit of the container, with more memory.",
    ),
}


@dataclass(frozen=True)
class MemoryFailure:
    """Memory that ran out, in words. Empty: not known."""

    kind: str
    """`gpu` or `host`."""
    which: str
    peak: str
    line: str
    """The line that says so; empty if it is one of the last LINES_SHOWN of standard error."""
    place: str
    """The line of the program that asked for the memory."""

    @property
    def help(self) -> Sequence[str]:
        """Return what usually helps, the cheapest first."""
        return _HELP[self.kind]

    @property
    def charts(self) -> Sequence[str]:
        """Return the keys of the charts that show the memory."""
        return _CHARTS[self.kind]


def memory_failure(
    run: Run,
    failure: FirstFailure | None,
    stderr: Sequence[str],
    nodes: Sequence[Node],
    judged: Iterable[RuleLine],
) -> MemoryFailure | None:
    """Return what is known of the memory that ran out; None if the run failed for another cause,
    or hasn't failed.
    """
    if failure is None:
        return None
    told = next((each.words for each in run.summary.troubles if "memory ran out" in each.words), "")
    at = _line_of(stderr)
    line = stderr[at].strip() if at is not None else ""
    if not (told or line or failure.is_killed_for_memory):
        return None
    kind = GPU if told or _OF_GPU.search(line) else HOST
    used = _used_share(judged, kind)
    return MemoryFailure(
        kind=kind,
        which=_gpu(line or told, nodes) if kind == GPU else _host(failure, nodes),
        peak=_gpu_peak(used, nodes) if kind == GPU else _host_peak(used, failure, nodes),
        line=(line or told) if at is None or at < len(stderr) - LINES_SHOWN else "",
        place=_place(stderr[:at]) if at is not None else "",
    )


def _line_of(stderr: Sequence[str]) -> int | None:
    """Return the place of the last line that says that memory ran out."""
    found = (at for at in reversed(range(len(stderr))) if cause_in(stderr[at], None) == OOM)
    return next(found, None)


def _place(before: Iterable[str]) -> str:
    """Return the last line of the program's own code in a traceback, as `train.py, line 12, in
    step`.
    """
    places = [found.groups() for text in before if (found := _PLACE.search(text))]
    own = [place for place in places if not _LIBRARIES.search(place[0])] or places
    if not own:
        return ""
    file, number, function = own[-1]
    return f"{file}, line {number}" + (f", in {function}" if function else "")


def _gpu(text: str, nodes: Sequence[Node]) -> str:
    number = _GPU_NUMBER.search(text)
    gpus: list[dict[str, Any]] = next((node.gpus for node in nodes if node.gpus), [])
    at = int(number[1]) if number and int(number[1]) < len(gpus) else 0
    name = f"GPU {number[1]}" if number else "a GPU"
    return f"the memory of {name}" + (f", {gpus[at].get('model', '')}" if gpus else "")


def _host(failure: FirstFailure, nodes: Sequence[Node]) -> str:
    of = "the memory of the machine"
    if failure.memory_limit_bytes and nodes:
        whole = max(node.memory_bytes or 0 for node in nodes)
        of = "the memory that the run may use" if failure.memory_limit_bytes < whole else of
    return of + (f", on {failure.node}" if len(nodes) > 1 else "")


def _gpu_peak(used: float | None, nodes: Sequence[Node]) -> str:
    sizes = [gpu.get("memory_bytes", 0) for node in nodes for gpu in node.gpus]
    return _share_of(used, max(sizes, default=0))


def _host_peak(used: float | None, failure: FirstFailure, nodes: Sequence[Node]) -> str:
    limit, held = failure.memory_limit_bytes, failure.memory_bytes
    if limit and held:
        return f"{held / GIB:.1f} of {limit / GIB:.1f} GiB"
    sizes = (node.effective_memory_bytes or node.memory_bytes or 0 for node in nodes)
    return _share_of(used, max(sizes, default=0))


def _share_of(used: float | None, whole: int) -> str:
    if used is None:
        return ""
    amount = f"{used / 100 * whole / GIB:.1f} of {whole / GIB:.1f} GiB, " if whole else ""
    return f"{amount}{used:.0f} %, in the fullest sample"


def _used_share(judged: Iterable[RuleLine], kind: str) -> float | None:
    """Return the highest use of the memory in any sample, in percent; None: not measured."""
    rows: Iterable[Judgement] = (line.row for line in judged if line.row.rule == OVERVIEW)
    values: dict[str, float | None] = next((row.numbers.get("values", {}) for row in rows), {})
    known = [value for name, value in values.items() if name.startswith(f"{_USAGE[kind]}@")]
    return max((value for value in known if value is not None), default=None)
