"""The rules: read and set the thresholds of a workspace or a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, cast
from uuid import UUID

from ninja import Field, Query, Router, Schema
from pydantic import ConfigDict, StrictFloat, StrictInt

from rules import materiality
from rules.overrides import parse_overrides
from rules.parameter import Parameter, Preset
from rules.registry import all_rules, parameter_of
from rules.rule import Rule
from webapp.accounts.access import TokenRequest
from webapp.accounts.bearer import Bearer
from webapp.accounts.models import Token, Workspace
from webapp.api.changes import Key, Name
from webapp.http.problems import Problem
from webapp.rulebook import changes
from webapp.runs.models import Job
from webapp.runs.scope import jobs_of
from webapp.thresholds.values import Overrides, set_by, values_of

router = Router(tags=["rules"])
MOST_ASSIGNMENTS = 1_000
_JOB = "A job's id, for the thresholds of that job; without it, those of the workspace."
OfJob = Annotated[UUID | None, Query(description=_JOB)]
Value = float | str
"""A number in the parameter's unit, or the word of a choice."""


class ParameterOut(Schema):
    name: str
    unit: str
    value: Value = Field(description="Effective value: a number in the unit, or a choice.")
    set_by: str = Field(description="`job`, `workspace` or `preset`.")
    default: Value
    low: float | None = Field(description="Minimum; null for a choice.")
    high: float | None
    is_whole: bool
    choices: list[str]
    is_measured: bool = Field(description="A new value needs the samples, not just stored numbers.")
    help: str
    source: str = Field(description="Source of the default.")
    sagemaker_name: str


class RuleOut(Schema):
    rule: str
    title: str
    category: str
    version: int
    sagemaker_name: str
    may_stop: bool = Field(description="The rule may stop a run, if its owner allows that.")
    parameters: list[ParameterOut]


class RulesOut(Schema):
    job: UUID | None
    preset: Preset
    own: dict[str, Value] = Field(
        description="Values set by the job, or without one by the workspace; as PUT takes them."
    )
    rules: list[RuleOut]


class RulesIn(Schema):
    model_config = ConfigDict(extra="forbid")

    preset: Preset | None = Field(None, description="For the workspace only. Null: unchanged.")
    parameters: dict[Key, StrictFloat | StrictInt | Name] = Field(
        max_length=MOST_ASSIGNMENTS,
        description="All values to set: `<rule>.<parameter>` or, in SageMaker's units, "
        "`<RuleName>_<parameter>` -> value; `materiality.<parameter>` for all rules. Parameters "
        "not named are inherited.",
    )


@router.get(
    "/rules",
    response=RulesOut,
    auth=Bearer(Token.READ),
    summary="List the rules with their parameters, bounds and effective values",
)
def get_rules(request: TokenRequest, job: OfJob = None) -> dict[str, Any]:
    """Answers the thresholds. A job inherits the workspace's values, and a workspace those of its
    preset.
    """
    return _document(request.auth.workspace, _job(request, job))


@router.put(
    "/rules",
    response=RulesOut,
    auth=Bearer(Token.WRITE),
    summary="Set the preset and parameters of the workspace, or parameters of a job",
)
def put_rules(request: TokenRequest, wanted: RulesIn, job: OfJob = None) -> dict[str, Any]:
    """Replaces all values set before. Runs are judged again within a minute. Setting the values of
    the workspace needs a token that an owner created."""
    of_job, workspace = _job(request, job), request.auth.workspace
    if of_job is None and not request.auth.is_an_owners:
        fix = "Use a token that an owner created, or name a job."
        raise Problem(403, "Only owners can set the rules of a workspace.", "Authorization", fix)
    if of_job is not None and wanted.preset is not None:
        fix = "Omit the preset, or omit the job."
        raise Problem(422, "A job has no preset.", "preset", fix)
    own = _parsed(wanted.parameters)
    changes.save(workspace, of_job, request.auth, wanted.preset, own)
    workspace.refresh_from_db()
    return _document(workspace, of_job)


def _job(request: TokenRequest, job: UUID | None) -> Job | None:
    if job is None:
        return None
    chosen = jobs_of(request.auth.workspace).filter(uuid=job).first()
    if chosen is None:
        raise Problem(422, f"There is no job {job}.", "job", "Send the id of a job.")
    return chosen


def _parsed(parameters: Mapping[str, float | str]) -> Overrides:
    """Parse thresholds. If a parameter is named twice, the last one counts. Raises Problem 422."""
    overrides: Overrides = {}
    for name, value in parameters.items():
        try:
            parsed = parse_overrides([f"{name}={value}"])
        except ValueError as error:
            fix = "GET /api/v1/rules lists the names and bounds."
            raise Problem(422, str(error), f"parameters.{name}", fix) from None
        for rule, values in parsed.items():
            overrides.setdefault(rule, {}).update(values)
    return overrides


def _document(workspace: Workspace, job: Job | None) -> dict[str, Any]:
    layers = {"workspace": set_by(workspace)} | ({"job": set_by(workspace, job)} if job else {})
    values, own = values_of(workspace, job), layers["job" if job else "workspace"]
    return {
        "job": job.uuid if job else None,
        "preset": cast(Preset, workspace.preset),
        "own": dict(_flat(own)),
        "rules": [
            {
                "rule": rule.id,
                "title": rule.title,
                "category": rule.category.id,
                "version": rule.version,
                "sagemaker_name": rule.sagemaker_name,
                "may_stop": rule.may_stop,
                "parameters": [
                    _parameter(each, values[rule.id][each.name], _set_by(layers, rule, each))
                    for each in rule.parameters
                ],
            }
            for rule in all_rules().values()
        ],
    }


def _parameter(parameter: Parameter, value: float, setter: str) -> dict[str, Any]:
    is_choice = bool(parameter.choices)
    return {
        "name": parameter.name,
        "unit": parameter.unit,
        "value": _shown(parameter, value),
        "set_by": setter,
        "default": _shown(parameter, parameter.default),
        "low": None if is_choice else parameter.low,
        "high": None if is_choice else parameter.high,
        "is_whole": parameter.whole,
        "choices": list(parameter.choices),
        "is_measured": parameter.measured,
        "help": parameter.help,
        "source": parameter.source,
        "sagemaker_name": parameter.sagemaker_name,
    }


def _set_by(layers: Mapping[str, Overrides], rule: Rule, parameter: Parameter) -> str:
    owners = {rule.id, materiality.SHARED} if materiality.has_floor(rule) else {rule.id}
    setters = [
        name
        for name, own in layers.items()
        if any(parameter.name in own.get(owner, {}) for owner in owners)
    ]
    return setters[-1] if setters else "preset"


def _flat(own: Overrides) -> Iterator[tuple[str, Value]]:
    for rule, values in sorted(own.items()):
        for name, value in sorted(values.items()):
            yield f"{rule}.{name}", _shown(parameter_of(rule, name), value)


def _shown(parameter: Parameter, value: float) -> Value:
    return parameter.choices[int(value)] if parameter.choices else value
