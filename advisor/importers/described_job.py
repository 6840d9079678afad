"""SageMaker's description of a training job: its machines, and which part of their time is billed.

A field that can't be used costs itself: a note names it, and the rest counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from trimtab.wire import LIMITS

from advisor.costing.billing import LONGEST_SECONDS, Billing
from advisor.importers.recording import NotImportableError
from advisor.importers.stated_facts import MachineGroup, StatedFacts, moment, to_printable_name
from advisor.importers.times import is_possible

_STATES = {"Completed": "finished", "Failed": "failed", "Stopped": "stopped"}
_UNENDED = ("InProgress", "Stopping")
_EARLY_ENDS = ("MaxRuntimeExceeded", "MaxWaitTimeExceeded", "Interrupted")
_MOST_PARAMETERS = 200
_MOST_GROUPS = 50
"""SageMaker's limit is 5."""
_MOST_MACHINES = 10**6
_MOST_PROCESSING_JOBS = 20
"""SageMaker's limit of a job's profiler rules."""
_MOST_PLACEMENTS = 10
_REASON_CHARS = 300
_ARN = re.compile(r"arn:[\w:/.-]{1,256}", re.ASCII)


def from_describe(document: object) -> StatedFacts:
    """Return the facts in what `aws sagemaker describe-training-job` printed.

    Raises:
        NotImportableError: it isn't a training job's description.
    """
    if not isinstance(document, dict) or "TrainingJobName" not in document:
        raise NotImportableError(
            "no description of a training job: save the output of "
            "`aws sagemaker describe-training-job --training-job-name NAME`"
        )
    job = _Fields(document)
    resources = job.part("ResourceConfig")
    groups, has_all = _groups(resources)
    billing = _billing(job, resources, has_all)
    arn = job.text("TrainingJobArn").split(":")
    return StatedFacts(
        training_job=job.text("TrainingJobName"),
        provider="aws",
        service="sagemaker_training",
        region=arn[3][: LIMITS.name_chars] if len(arn) > 3 else "",
        instance_type=groups[0].instance_type if groups else "",
        # Managed spot is billed by fewer seconds at the on-demand price.
        purchase_option="on_demand",
        state=_STATES.get(job.text("TrainingJobStatus"), ""),
        started_at=job.moment("TrainingStartTime"),
        ended_at=job.moment("TrainingEndTime"),
        groups=groups,
        billing=billing,
        parameters=_parameters(job.part("HyperParameters").said),
        processing_jobs=tuple(_processing_jobs(document)),
        notes=(*_ending(job), *job.notes()),
    )


@dataclass
class _Fields:
    """An object of the description. What can't be used of it is unknown, and is noted."""

    said: Mapping[str, Any]
    place: str = ""
    bad: dict[str, str] = field(default_factory=dict)
    """The name of each field that can't be used -> what it should have been."""

    def text(self, name: str) -> str:
        said = self._of(name, str, "text")
        return to_printable_name(said or "")

    def resource(self, name: str) -> str:
        """Return the name of the resource that an ARN is of."""
        said = self._of(name, str, "ARN")
        return to_printable_name((said or "").rpartition("/")[2])

    def count(self, name: str, most: int) -> int | None:
        """Return a whole number from 0 to `most`."""
        said = self.said.get(name)
        if said is None or (type(said) is int and 0 <= said <= most):
            return said
        self.reject(name, f"whole number from 0 to {most:,}")
        return None

    def moment(self, name: str) -> datetime | None:
        said = self.said.get(name)
        found = moment(said)
        if said is not None and (found is None or not is_possible(found.timestamp())):
            self.reject(name, "time")
            return None
        return found

    def part(self, name: str) -> _Fields:
        """Return an object in it; its bad fields count as those of the whole."""
        return _Fields(self._of(name, dict, "object") or {}, f"{self.place}{name}.", self.bad)

    def parts(self, name: str, most: int) -> list[_Fields]:
        """Return the objects of a list in it, the first ones."""
        found = []
        for number, each in enumerate((self._of(name, list, "list") or [])[:most]):
            if isinstance(each, dict):
                found.append(_Fields(each, f"{self.place}{name}[{number}].", self.bad))
            else:
                self.reject(f"{name}[{number}]", "object")
        return found

    def reject(self, name: str, what: str) -> None:
        self.bad[f"{self.place}{name}"] = what

    def notes(self) -> Iterator[str]:
        """Yield a sentence for each field that can't be used."""
        for name, what in self.bad.items():
            yield f"The description's {name} is no {what}, so it counts as unknown."

    def _of(self, name: str, kind: type, what: str) -> Any:
        said = self.said.get(name)
        if said is None or isinstance(said, kind):
            return said
        self.reject(name, what)
        return None


def _groups(resources: _Fields) -> tuple[tuple[MachineGroup, ...], bool]:
    """Return the machines of the job by type, and whether these are all of them."""
    said = resources.parts("InstanceGroups", _MOST_GROUPS)
    if resources.said.get("InstanceGroups"):
        groups = [_group(each, "InstanceType", "InstanceCount") for each in said]
        has_all = len(said) == len(resources.said["InstanceGroups"])
    else:
        # Of several types that a job could take, SageMaker names the one that it took.
        chosen = "Selected" if resources.said.get("SelectedInstanceType") else ""
        groups = [_group(resources, f"{chosen}InstanceType", f"{chosen}InstanceCount")]
        has_all = True
    known = tuple(each for each in groups if each is not None)
    has_all = has_all and all(each is not None and each.count is not None for each in groups)
    return known, has_all


def _group(said: _Fields, type_name: str, count_name: str) -> MachineGroup | None:
    """Return the group; None without a type. It names what it lacks."""
    found = said.text(type_name)
    count = said.count(count_name, _MOST_MACHINES)
    if not found and said.said.get(type_name) in (None, ""):
        said.reject(type_name, "name of an instance type")
    if count is None and said.said.get(count_name) is None:
        said.reject(count_name, "number of machines")
    return MachineGroup(found, count) if found else None


def _billing(job: _Fields, resources: _Fields, has_all_machines: bool) -> Billing:
    """Return what of each machine is billed."""
    trained = job.count("TrainingTimeInSeconds", LONGEST_SECONDS)
    billed = job.count("BillableTimeInSeconds", LONGEST_SECONDS)
    pool = job.part("WarmPoolStatus")
    retained = pool.count("ResourceRetainedBillableTimeInSeconds", LONGEST_SECONDS) or 0
    has_ended = job.text("TrainingJobStatus") not in _UNENDED
    notes = [
        *_spot(job, trained, billed),
        *_retained(pool, retained),
        *_reserved(resources),
    ]
    if not has_ended:
        notes.append("The job hadn't ended when it was described, so it cost at least this.")
    if not has_all_machines:
        notes.append("The description doesn't name all machines, so the job cost at least this.")
    return Billing(billed, retained, not (has_ended and has_all_machines), tuple(notes))


def _spot(job: _Fields, trained: int | None, billed: int | None) -> Iterator[str]:
    if job.said.get("EnableManagedSpotTraining") is not True:
        return
    if billed is None:
        yield (
            "Managed spot training: the billed seconds aren't known, so the cost is that of the "
            "whole time at the on-demand price, which is more than was billed."
        )
    elif trained and billed < trained:
        yield (
            f"Managed spot training: {billed:,} s of {trained:,} s are billed at the on-demand "
            "price, for each machine."
        )


def _retained(pool: _Fields, seconds: int) -> Iterator[str]:
    if not seconds:
        return
    used_by = pool.text("ReusedByJob")
    later = f", until the job {used_by} reused them" if used_by else ""
    yield (
        f"The machines were kept in a warm pool for {seconds:,} s after the job{later}. SageMaker "
        "bills these, and they are in the cost."
    )


def _reserved(resources: _Fields) -> Iterator[str]:
    """Yield what was paid for in advance."""
    if plan := resources.resource("TrainingPlanArn"):
        yield (
            f"The machines are those of the training plan {plan}, which is reserved and paid for "
            "in advance. The cost is at the list price, not at the plan's."
        )
    placement = resources.part("InstancePlacementConfig")
    for each in placement.parts("PlacementSpecifications", _MOST_PLACEMENTS):
        if name := each.text("UltraServerId"):
            yield f"The machines are on reserved capacity: the UltraServer {name}."


def _ending(job: _Fields) -> Iterator[str]:
    """Yield why the job failed or was stopped."""
    status, detail = job.text("TrainingJobStatus"), job.text("SecondaryStatus")
    said = job.said.get("FailureReason")
    if status == "Failed" and isinstance(said, str) and said:
        reason = "".join(char if char.isprintable() else " " for char in said)
        yield f"SageMaker on why the job failed: {reason[:_REASON_CHARS]}"
    if status == "Stopped" and detail in _EARLY_ENDS:
        yield f"SageMaker stopped the job: {detail}."


def _processing_jobs(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the `RuleEvaluationJobArn` of each of the profiler's rules, the first ones."""
    said = document.get("ProfilerRuleEvaluationStatuses")
    for each in (said if isinstance(said, list) else [])[:_MOST_PROCESSING_JOBS]:
        arn = each.get("RuleEvaluationJobArn") if isinstance(each, dict) else None
        if isinstance(arn, str) and _ARN.fullmatch(arn):
            yield arn


def _parameters(said: Mapping[str, Any]) -> dict[str, str]:
    """Return the hyperparameters without SageMaker's own, which aren't the training's."""
    ours = {
        str(name)[: LIMITS.name_chars]: str(value)[:200]
        for name, value in said.items()
        if not str(name).startswith("sagemaker_") and not str(name).startswith("_")
    }
    return dict(list(ours.items())[:_MOST_PARAMETERS])
