"""What a person or AWS's API says of the imported run: machine, region, times, state."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from trimtab.wire import LIMITS

from advisor.importers.recording import NotImportableError
from advisor.importers.times import is_possible

_STATES = {"Completed": "finished", "Failed": "failed", "Stopped": "stopped"}
_MOST_PARAMETERS = 200
_ARN = re.compile(r"arn:[\w:/.-]{1,256}", re.ASCII)
_MOST_PROCESSING_JOBS = 20
"""SageMaker's limit of a job's profiler rules."""
_SHORTEST_SECONDS, _LONGEST_SECONDS = 0.001, 3600.0
"""Between two ticks."""


@dataclass(frozen=True)
class Stated:
    """Facts that recordings don't have. Empty, 0 and None are unknown.

    Attributes:
        training_job: as its platform names the run.
        started_at, ended_at: the billed time, UTC.
        billable_seconds: of each machine, as billed.
        nodes: the number of machines.
        columns: of a CSV file: its column -> our series, or `time`.
        interval_seconds: between two ticks of a recording that has no times.
        processing_jobs: ARNs of SageMaker's jobs that evaluated the profiler's rules.
        imported_at: UTC; the begin of a recording that has no time of day.
    """

    job: str = ""
    training_job: str = ""
    provider: str = ""
    service: str = ""
    region: str = ""
    instance_type: str = ""
    purchase_option: str = ""
    state: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    billable_seconds: int = 0
    nodes: int = 0
    parameters: dict[str, str] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    interval_seconds: float = 0.0
    processing_jobs: tuple[str, ...] = ()
    imported_at: datetime = datetime(1970, 1, 1, tzinfo=UTC)

    def over(self, other: Stated) -> Stated:
        """Both; what this one knows wins."""
        known = {name: value for name, value in vars(self).items() if value}
        known.pop("imported_at")
        return replace(other, **known)


def from_document(document: Mapping[str, Any]) -> Stated:
    """The options that `trimtab import` sends, or `python -m advisor import` has.

    Raises:
        NotImportableError: another shape.
    """
    names = ("job", "provider", "service", "region", "instance_type", "purchase_option")
    values: dict[str, Any] = {name: _text(document, name) for name in names}
    columns = document.get("columns") or {}
    if not isinstance(columns, dict) or not all(isinstance(v, str) for v in columns.values()):
        raise NotImportableError("columns is not a mapping of texts")
    return Stated(
        **values,
        columns={str(k): v for k, v in columns.items()},
        started_at=_started_at(document.get("started_at")),
        interval_seconds=_interval_seconds(document.get("interval_seconds")),
    )


def _started_at(said: object) -> datetime | None:
    moment = _moment(said)
    if said and (moment is None or not is_possible(moment.timestamp())):
        raise NotImportableError("started_at is no time. Example: 2026-11-24T08:00:00+00:00")
    return moment if said else None


def _interval_seconds(said: object) -> float:
    try:
        seconds = float(said or 0)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if seconds and not _SHORTEST_SECONDS <= seconds <= _LONGEST_SECONDS:
        raise NotImportableError("interval_seconds is not between 0.001 and 3600")
    return seconds


def from_describe(document: object) -> Stated:
    """What `aws sagemaker describe-training-job` printed.

    Raises:
        NotImportableError: it isn't a training job's description.
    """
    if not isinstance(document, dict) or "TrainingJobName" not in document:
        raise NotImportableError(
            "no description of a training job: save the output of "
            "`aws sagemaker describe-training-job --training-job-name NAME`"
        )
    resources = document.get("ResourceConfig")
    resources = resources if isinstance(resources, dict) else {}
    groups = resources.get("InstanceGroups")
    first = groups[0] if isinstance(groups, list) and groups else resources
    first = first if isinstance(first, dict) else {}
    arn = str(document.get("TrainingJobArn", "")).split(":")
    spot = document.get("EnableManagedSpotTraining") is True
    return Stated(
        training_job=_text(document, "TrainingJobName"),
        provider="aws",
        service="sagemaker_training",
        region=arn[3][: LIMITS.name_chars] if len(arn) > 3 else "",
        instance_type=_text(first, "InstanceType"),
        purchase_option="on_demand",
        state=_STATES.get(str(document.get("TrainingJobStatus")), ""),
        started_at=_moment(document.get("TrainingStartTime")),
        ended_at=_moment(document.get("TrainingEndTime")),
        billable_seconds=_count(document.get("BillableTimeInSeconds")),
        nodes=_count(first.get("InstanceCount")),
        parameters=_parameters(document.get("HyperParameters")),
        notes=_notes(document, spot),
        processing_jobs=tuple(_processing_jobs(document)),
    )


def _processing_jobs(document: Mapping[str, Any]) -> Iterator[str]:
    """`RuleEvaluationJobArn` of each of the profiler's rules, the first ones."""
    said = document.get("ProfilerRuleEvaluationStatuses")
    for each in (said if isinstance(said, list) else [])[:_MOST_PROCESSING_JOBS]:
        arn = each.get("RuleEvaluationJobArn") if isinstance(each, dict) else None
        if isinstance(arn, str) and _ARN.fullmatch(arn):
            yield arn


def _notes(document: Mapping[str, Any], spot: bool) -> tuple[str, ...]:
    trained, billed = (
        _count(document.get(name)) for name in ("TrainingTimeInSeconds", "BillableTimeInSeconds")
    )
    if not spot or not trained or billed >= trained:
        return ()
    return (
        f"Managed spot training: {billed:,} s of {trained:,} s are billed at the on-demand price. "
        "The cost is that of the whole time; enter the billed amount to compare.",
    )


def _parameters(said: object) -> dict[str, str]:
    """Without SageMaker's own, which aren't the training's."""
    if not isinstance(said, dict):
        return {}
    ours = {
        str(name)[: LIMITS.name_chars]: str(value)[:200]
        for name, value in said.items()
        if not str(name).startswith("sagemaker_") and not str(name).startswith("_")
    }
    return dict(list(ours.items())[:_MOST_PARAMETERS])


def _moment(said: object) -> datetime | None:
    """A time as the CLI prints it: ISO 8601, or seconds since 1970."""
    try:
        if isinstance(said, str):
            moment = datetime.fromisoformat(said)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
        if isinstance(said, int | float) and not isinstance(said, bool):
            return datetime.fromtimestamp(said, UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def readable(text: str) -> str:
    """What of a foreign text can be stored and shown as a name."""
    return "".join(char for char in text if char.isprintable())[: LIMITS.name_chars]


def _count(said: object) -> int:
    is_count = isinstance(said, int) and not isinstance(said, bool) and 0 <= said < 10**9
    return said if is_count else 0  # type: ignore[return-value]


def _text(document: Mapping[str, Any], name: str) -> str:
    said = document.get(name, "")
    return readable(said if isinstance(said, str) else "")
