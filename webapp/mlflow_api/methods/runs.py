"""Runs: begun, logged to, and ended."""

from __future__ import annotations

import json
import os
import time
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction
from trimtab.wire import LIMITS, Declaration, NodeFacts

from advisor import mlflow_names
from webapp.accounts.models import Token
from webapp.ingest import declarations, own_runs, uploaders
from webapp.mlflow_api import agents, changing, feeding, labels, machines, scope, shown, taking
from webapp.mlflow_api.arguments import MOST_NAME_CHARS, MOST_TAG_CHARS, Arguments
from webapp.mlflow_api.errors import invalid_parameter, missing_resource
from webapp.mlflow_api.labels import MOST_SENT_CHARS
from webapp.mlflow_api.models import Feed, TrackedRun
from webapp.quotas import admission
from webapp.quotas.amounts import UploadAmounts
from webapp.runs import registration
from webapp.runs.models import Job

STATUSES = ("RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED")
MOST_DATASETS, MOST_MODELS = 100, 100
_MOST_DATASET_CHARS, _MOST_MODEL_CHARS = 100_000, 100_000
_SHORT_DATASET_CHARS = {"name": 500, "digest": 36}
_MODELS = "mlflow.log-model.history"
_DATASET_FIELDS = ("name", "digest", "source_type", "source", "schema", "profile")
_NOBODY = ("", "root", "unknown", "ubuntu", "ec2-user", "jovyan", "user")
"""The names that machines give their users."""


def create(token: Token, experiment: Job, said: Arguments) -> dict[str, Any]:
    """Begin a run: the one that the agent measures, if the program runs inside one that has none
    yet.
    """
    _, tags = labels.shorten({}, labels.tags(said, MOST_SENT_CHARS))
    agent = agents.session_of(tags)
    started_ms = said.moment_ms("start_time", time.time_ns() // 1_000_000)
    tracked = TrackedRun(
        experiment=_saved(scope.check_active(experiment)),
        user=said.text("user_id", 250, default="") or tags.get("mlflow.user", "")[:250],
        started_ms=started_ms,
    )
    tracked.name = said.text("run_name", MOST_SENT_CHARS, default="")[:MOST_NAME_CHARS]
    labels.add_tags(tracked, {k: v for k, v in tags.items() if k != agents.TAG})
    if agent and (known := _measured(token, tracked, agent)):
        return {"run": shown.run(known)}
    return {"run": shown.run(_new(token, tracked, agent))}


def begin_ended_run(token: Token, experiment: Job, name: str) -> TrackedRun:
    """Return a run that took no time, for what a program logs outside of a run."""
    now_ms = time.time_ns() // 1_000_000
    tracked = TrackedRun(experiment=_saved(scope.check_active(experiment)), started_ms=now_ms)
    tracked.name = name
    return taking.change(token, _new(token, tracked, {}), "FINISHED", now_ms)


def _saved(job: Job) -> Job:
    """Return the saved job. The default job is made with its first run."""
    if not job._state.adding:
        return job
    with transaction.atomic():
        return registration.make_job(job.workspace, job.key)


def _measured(token: Token, tracked: TrackedRun, agent: dict[str, Any]) -> TrackedRun | None:
    """Return the agent's own run, or None if another one of the program already is."""
    run_id = UUID(agent["run"])
    taken = UploadAmounts(run_id, own_runs.is_new_run(token.workspace, run_id), 0)
    known = TrackedRun.objects.filter(pk=run_id, run__workspace=token.workspace).first()
    if known is not None and known.agent.get("session") == agent["session"]:
        return None
    with admission.count_while_written(token.workspace, token, taken), transaction.atomic():
        run = own_runs.lock_own_run(token.workspace, run_id, agent["job"])
        held = known or tracked
        held.run, held.agent = run, agent
        held.name = held.name or str(run)
        held.status, held.ended_ms = "RUNNING", None
        held.save()
    _label(token, held)
    return held


def _new(token: Token, tracked: TrackedRun, agent: dict[str, Any]) -> TrackedRun:
    """Begin a run of its own, with its first segment.

    Args:
        agent: of another run, on the same machine and of the same job.
    """
    tracked.run_id = uuid4()
    job = agent.get("job") or tracked.experiment.key
    known = machines.machine_of_new_run(token.workspace, tracked.run_id, tracked.tags, agent)
    begun = feeding.new(tracked, known.machine_id)
    feeding.send(token, tracked, [begun], job)
    is_part = bool(agent) or machines.PARENT in tracked.tags
    said = _declaration(tracked, begun.feed, job, known, is_part)
    declarations.store_declaration(token.workspace, said, 0, token)
    with transaction.atomic():
        tracked.run = own_runs.lock_own_run(token.workspace, tracked.run_id, job)
        tracked.name = tracked.name or str(tracked.run)
        tracked.save(force_insert=True)
        begun.feed.save()
    uploaders.remember_uploader(token, tracked.run_id)
    return tracked


def _declaration(
    tracked: TrackedRun, feed: Feed, job: str, known: NodeFacts, is_part: bool
) -> Declaration:
    """Return what the tags say of the run."""
    source = tracked.tags.get("mlflow.source.name", "")
    entry_point = os.path.basename(source)[: LIMITS.name_chars]  # noqa: PTH119 - of another machine
    user = tracked.user[: LIMITS.name_chars]
    return Declaration(
        run_id=tracked.pk,
        job=job,
        attempt=feed.attempt,
        session_id=feed.session_id,
        node=known,
        owner="" if user in _NOBODY else user,
        tags=mlflow_names.shown_tags(tracked.tags),
        command=[source[: LIMITS.text_chars]] if source else [],
        git_commit=tracked.tags.get("mlflow.source.git.commit", "")[: LIMITS.name_chars],
        git_branch=tracked.tags.get("mlflow.source.git.branch", "")[: LIMITS.name_chars],
        workload=_workload(entry_point, is_part),
    )


def _workload(entry_point: str, is_part: bool) -> dict[str, str]:
    """Return the workload. A run within another one does other work than that, though it is of the
    same script.
    """
    known = {"entry_point": entry_point, "part": "of another run" if is_part else ""}
    return {name: text for name, text in known.items() if text}


def _label(token: Token, tracked: TrackedRun) -> None:
    declarations.add_labels(token.workspace, tracked.pk, {}, mlflow_names.shown_tags(tracked.tags))
    uploaders.remember_uploader(token, tracked.pk)


def update(token: Token, tracked: TrackedRun, said: Arguments) -> dict[str, Any]:
    """Continue, end or rename a run. Ending and renaming change what others sent."""
    status = said.text("status") if "status" in said else ""
    if "run_name" in said or status in mlflow_names.STATES:
        scope.check_changeable(token, tracked)
    if "run_name" in said:
        taking.log_values(token, tracked, tags={"mlflow.runName": said.text("run_name")})
    if status:
        if status not in STATUSES:
            raise invalid_parameter(f"Invalid status '{status[:40]}'.")
        ended_ms = said.moment_ms("end_time", time.time_ns() // 1_000_000)
        taking.change(token, tracked, status, ended_ms)
    tracked.refresh_from_db()
    return {"run_info": shown.info(tracked)}


def delete(token: Token, tracked: TrackedRun, _said: Arguments) -> dict[str, Any]:
    changing.mark(token, tracked, is_deleted=True)
    return {}


def restore(token: Token, tracked: TrackedRun, _said: Arguments) -> dict[str, Any]:
    changing.mark(token, tracked, is_deleted=False)
    return {}


def log_metric(token: Token, tracked: TrackedRun, said: Arguments) -> dict[str, Any]:
    taking.log_values(token, tracked, [labels.metric(said)])
    return {}


def log_parameter(token: Token, tracked: TrackedRun, said: Arguments) -> dict[str, Any]:
    taking.log_values(token, tracked, params={said.key(): said.value(MOST_SENT_CHARS)})
    return {}


def log_batch(token: Token, tracked: TrackedRun, said: Arguments) -> dict[str, Any]:
    metrics, params = labels.metrics(said), labels.params(said, MOST_SENT_CHARS)
    tags = labels.tags(said, MOST_SENT_CHARS)
    if tags:
        scope.check_changeable(token, tracked)
    taking.log_values(token, tracked, metrics, params, tags)
    return {}


def set_tag(token: Token, tracked: TrackedRun, said: Arguments) -> dict[str, Any]:
    tags = {said.key(): said.value(MOST_SENT_CHARS)}
    if scope.has_uploaded(token, tracked):
        taking.log_values(token, tracked, tags=tags)
    else:
        changing.tag(token, tracked, tags)
    return {}


def delete_tag(_token: Token, tracked: TrackedRun, said: Arguments) -> dict[str, Any]:
    """Delete a tag that the client set. The run's own tag stays: a person may have set it, and
    agents can't remove any either.
    """
    key = said.key()
    with transaction.atomic():
        held = scope.lock_run(tracked)
        if held.tags.pop(key, None) is None:
            raise missing_resource(f"No tag with name: {key} in run with id {tracked.pk.hex}")
        held.save(update_fields=["tags"])
    return {}


def log_model(token: Token, tracked: TrackedRun, said: Arguments) -> dict[str, Any]:
    """Store what clients before version 3 say of a logged model: MLflow's server keeps it in this
    tag.

    A tag is bounded: the newest models that fit are kept. One that doesn't fit alone is left out.
    """
    try:
        model = json.loads(said.text("model_json", _MOST_MODEL_CHARS))
    except (ValueError, RecursionError):
        raise invalid_parameter("Not JSON: 'model_json'.") from None
    if not isinstance(model, dict):
        raise invalid_parameter("Not an object: 'model_json'.")
    if len(json.dumps([model])) > MOST_TAG_CHARS:
        return {}
    with transaction.atomic():
        held = scope.lock_run(tracked)
        models = [*_logged_models(held), model]
        while len(json.dumps(models)) > MOST_TAG_CHARS:
            models.pop(0)
        taking.log_values(token, held, tags={_MODELS: json.dumps(models)})
    return {}


def _logged_models(tracked: TrackedRun) -> list[Any]:
    """Return the models in the tag; none if a program wrote something else into it."""
    try:
        known = json.loads(tracked.tags.get(_MODELS, "[]"))
    except (ValueError, RecursionError):
        return []
    return known if isinstance(known, list) else []


def log_inputs(_token: Token, tracked: TrackedRun, said: Arguments) -> dict[str, Any]:
    """Store datasets for clients, while they are few and short."""
    new = [_dataset(each) for each in said.parts("datasets", MOST_DATASETS)]
    with transaction.atomic():
        held = scope.lock_run(tracked)
        for each in new:
            is_small = len(json.dumps([*held.inputs, each])) <= labels.MOST_CHARS
            if each not in held.inputs and is_small and len(held.inputs) < MOST_DATASETS:
                held.inputs.append(each)
        held.save(update_fields=["inputs"])
    return {}


def _dataset(said: Arguments) -> dict[str, Any]:
    dataset = said.part("dataset")
    fields = {
        name: dataset.text(name, _SHORT_DATASET_CHARS.get(name, _MOST_DATASET_CHARS), default="")
        for name in _DATASET_FIELDS
    }
    return {
        "tags": shown.pairs(labels.tags(said)),
        "dataset": {name: text for name, text in fields.items() if text},
    }


def log_outputs(_token: Token, tracked: TrackedRun, said: Arguments) -> dict[str, Any]:
    new = [
        {"model_id": each.text("model_id", 40), "step": each.whole_number("step", 0)}
        for each in said.parts("models", MOST_MODELS)
    ]
    with transaction.atomic():
        held = scope.lock_run(tracked)
        known = [*held.outputs, *(each for each in new if each not in held.outputs)]
        held.outputs = known[:MOST_MODELS]
        held.save(update_fields=["outputs"])
    return {}
