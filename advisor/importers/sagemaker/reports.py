"""The JSON files of SageMaker's own rules: statistics, and the times of the job."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from advisor.importers.json_text import parse_json
from advisor.importers.sagemaker.system import EARLIEST_SECONDS, LONGEST_SECONDS
from advisor.importers.source import Source
from advisor.importers.tally import Tally

_MOST_BYTES = 16 * 1024 * 1024
_MOST_ROWS = 2_000
_MOST_PROCESSES, _MOST_OUTLIERS, _TEXT_CHARS = 64, 50, 1_000
_PERCENTILES = ("min", "p50", "p95", "p99", "max")


@dataclass
class Reports:
    """The content of the rules' files.

    Attributes:
        started_seconds, ended_seconds: Unix times of the first and last system sample; 0: unknown.
        usage: a row per node and quantity: node, quantity, min, p50, p95, p99, max.
        highest_gpu_pct: (node, GPU) -> the highest use of it in the whole job.
        rules: a row per rule: name, file, times triggered, violations, datapoints, parameters as
            text, and of StepOutlier the numbers of the outlier steps by process.
    """

    started_seconds: float = 0.0
    ended_seconds: float = 0.0
    usage: list[dict[str, Any]] = field(default_factory=list)
    highest_gpu_pct: dict[tuple[str, str], float] = field(default_factory=dict)
    rules: list[dict[str, Any]] = field(default_factory=list)

    @property
    def has_times(self) -> bool:
        lasts = self.ended_seconds - self.started_seconds
        return self.started_seconds > EARLIEST_SECONDS and 0 < lasts <= LONGEST_SECONDS

    @property
    def nodes(self) -> list[str]:
        named = {row["node"] for row in self.usage}
        return sorted(named | {node for node, _ in self.highest_gpu_pct})


def read_reports(source: Source, paths: dict[str, str], tally: Tally) -> Reports:
    """Read all of them. Broken ones are named in the tally."""
    reports = Reports()
    for rule, path in sorted(paths.items()):
        try:
            document = parse_json(source.read(path, _MOST_BYTES))
        except (ValueError, OSError):
            document = None
        if not isinstance(document, dict) or not isinstance(document.get("Details", {}), dict):
            tally.skip("files", "not the report of a rule", 1, path)
            continue
        tally.take("rule reports")
        reports.rules.append(_rule(rule, path, document))
        _READERS.get(rule, _nothing)(reports, document.get("Details") or {})
    return reports


def _rule(rule: str, path: str, document: dict[str, Any]) -> dict[str, Any]:
    parameters = document.get("RuleParameters")
    return {
        "rule": rule,
        "file": path,
        "triggered": _number(document.get("RuleTriggered")),
        "violations": _number(document.get("Violations")),
        "datapoints": _number(document.get("Datapoints")),
        "parameters": parameters[:_TEXT_CHARS] if isinstance(parameters, str) else "",
        "steps": _outliers(document.get("Details") or {}),
    }


def _outliers(details: dict[str, Any]) -> dict[str, list[str]]:
    """Return the outliers of StepOutlier, by process; the first of many."""
    found = {}
    for process, step in list(_objects(details.get("step_details")))[:_MOST_PROCESSES]:
        numbers = step.get("step_numbers")
        if isinstance(numbers, list) and numbers:
            found[process] = [str(number)[:20] for number in numbers[:_MOST_OUTLIERS]]
    return found


def _nothing(_reports: Reports, _details: dict[str, Any]) -> None:
    pass


def _times(reports: Reports, details: dict[str, Any]) -> None:
    reports.started_seconds = _number(details.get("job_start")) or 0.0
    reports.ended_seconds = _number(details.get("job_end")) or 0.0


def _usage(reports: Reports, details: dict[str, Any]) -> None:
    for quantity, nodes in details.items():
        for node, statistics in _objects(nodes):
            row = {name: _number(statistics.get(name)) for name in _PERCENTILES}
            if len(reports.usage) < _MOST_ROWS and any(v is not None for v in row.values()):
                reports.usage.append({"node": node, "quantity": str(quantity)[:40], **row})


def _gpus(reports: Reports, details: dict[str, Any]) -> None:
    for node, gpus in _objects(details):
        for gpu, statistics in _objects(gpus):
            highest = _number(statistics.get("gpu_max"))
            if highest is not None and len(reports.highest_gpu_pct) < _MOST_ROWS:
                reports.highest_gpu_pct[node, gpu] = highest


_READERS = {
    "MaxInitializationTime": _times,
    "OverallSystemUsage": _usage,
    "LowGPUUtilization": _gpus,
}


def _objects(value: object) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict):
        yield from ((str(k)[:80], v) for k, v in value.items() if isinstance(v, dict))


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e18:
        return None
    return float(value) if math.isfinite(value) else None
