"""Rows as MLflow's clients read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from webapp.mlflow_api.models import LoggedModel, ModelVersion, RegisteredModel, TrackedRun
from webapp.mlflow_api.scope import DEFAULT_ID, DEFAULT_NAME, is_deleted
from webapp.runs.models import Job


def experiment_id(job: Job) -> str:
    """Return a number, as MLflow's own ids are, but none that can be guessed: it lets a token
    write.
    """
    return DEFAULT_ID if job.key == DEFAULT_NAME else str(job.uuid.int)


def experiment(job: Job) -> dict[str, Any]:
    created_ms = int(job.created_at.timestamp() * 1000)
    return {
        **named_experiment(job, job.name),
        "creation_time": created_ms,
        "last_update_time": created_ms,
        "tags": pairs(job.tags),
    }


def named_experiment(job: Job, name: str) -> dict[str, Any]:
    """Return what a client needs to begin a run, and what it knows by the name."""
    return {
        "experiment_id": experiment_id(job),
        "name": name,
        "artifact_location": f"mlflow-artifacts:/{experiment_id(job)}",
        "lifecycle_stage": "deleted" if is_deleted(job) else "active",
    }


def run(tracked: TrackedRun) -> dict[str, Any]:
    metrics = [
        {"key": key, "value": value, "timestamp": timestamp, "step": step}
        for key, (value, timestamp, step) in sorted(tracked.latest.items())
    ]
    return {
        "info": info(tracked),
        "data": {
            "metrics": metrics,
            "params": pairs(tracked.params),
            "tags": pairs(all_tags(tracked)),
        },
        "inputs": {"dataset_inputs": tracked.inputs},
        "outputs": {"model_outputs": tracked.outputs},
    }


def all_tags(tracked: TrackedRun) -> dict[str, str]:
    return {**tracked.tags, "mlflow.runName": tracked.name}


def info(tracked: TrackedRun) -> dict[str, Any]:
    run_id = tracked.pk.hex
    is_hidden = tracked.is_deleted or is_deleted(tracked.experiment)
    document = {
        "run_id": run_id,
        "run_uuid": run_id,
        "run_name": tracked.name,
        "experiment_id": experiment_id(tracked.experiment),
        "user_id": tracked.user,
        "status": tracked.status,
        "start_time": tracked.started_ms,
        "artifact_uri": artifact_uri(tracked),
        "lifecycle_stage": "deleted" if is_hidden else "active",
    }
    return document if tracked.ended_ms is None else document | {"end_time": tracked.ended_ms}


def artifact_uri(tracked: TrackedRun) -> str:
    place = experiment_id(tracked.experiment)
    return f"mlflow-artifacts:/{place}/{tracked.pk.hex}/artifacts"


def model(logged: LoggedModel) -> dict[str, Any]:
    place = experiment_id(logged.tracked.experiment)
    return {
        "info": {
            "model_id": logged.pk,
            "experiment_id": place,
            "name": logged.name,
            "creation_timestamp_ms": int(logged.created_at.timestamp() * 1000),
            "last_updated_timestamp_ms": int(logged.updated_at.timestamp() * 1000),
            "artifact_uri": f"mlflow-artifacts:/{place}/models/{logged.pk}/artifacts",
            "status": logged.status,
            "model_type": logged.kind,
            "source_run_id": logged.tracked_id.hex,
            "tags": pairs(logged.tags),
        },
        "data": {"params": pairs(logged.params), "metrics": []},
    }


def registered_model(model: RegisteredModel, newest: Iterable[ModelVersion]) -> dict[str, Any]:
    return {
        "name": model.name,
        "creation_timestamp": _milliseconds(model.created_at),
        "last_updated_timestamp": _milliseconds(model.updated_at),
        "description": model.description,
        "latest_versions": [model_version(version) for version in newest],
        "tags": pairs(model.tags),
        "aliases": [
            {"alias": alias, "version": str(number)}
            for alias, number in sorted(model.aliases.items())
        ],
    }


def model_version(version: ModelVersion) -> dict[str, Any]:
    aliases = version.registered.aliases.items()
    return {
        "name": version.registered.name,
        "version": str(version.number),
        "creation_timestamp": _milliseconds(version.created_at),
        "last_updated_timestamp": _milliseconds(version.updated_at),
        "current_stage": version.stage,
        "description": version.description,
        "source": version.source,
        "run_id": version.tracked_id.hex if version.tracked_id else "",
        "run_link": version.run_link,
        "status": "READY",
        "tags": pairs(version.tags),
        "aliases": sorted(alias for alias, number in aliases if number == version.number),
    }


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def pairs(values: Mapping[str, Any]) -> list[dict[str, str]]:
    return [{"key": key, "value": str(value)} for key, value in sorted(values.items())]
