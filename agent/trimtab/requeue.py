"""Identifies the scheduler's job, which it starts again after an interruption.

Runs with the same id continue one another, unless the one before finished. Runs that already share
their run id by it (Slurm's job id, SageMaker's job name) are attempts of one run.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from pathlib import Path

from trimtab.identity import shorten_name

_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_INDEXED = re.compile(r"(?P<job>.+)-(?P<index>\d+)\Z")


def requeue_id(environment: Mapping[str, str], namespace_file: Path = _NAMESPACE) -> str:
    """Return `scheduler/its names`; empty if no known scheduler is used."""
    found = (
        _slurm(environment)
        or _sagemaker(environment)
        or _torchelastic(environment)
        or _kubernetes(environment, namespace_file)
    )
    return shorten_name(found)


def _slurm(environment: Mapping[str, str]) -> str:
    """Return Slurm's id. An array's tasks are jobs of their own."""
    job, cluster = _text(environment, "SLURM_JOB_ID"), _text(environment, "SLURM_CLUSTER_NAME")
    return f"slurm/{cluster}/{job}" if job else ""


def _sagemaker(environment: Mapping[str, str]) -> str:
    name = _text(environment, "TRAINING_JOB_ARN") or _text(environment, "TRAINING_JOB_NAME")
    return f"sagemaker/{name}" if name else ""


def _torchelastic(environment: Mapping[str, str]) -> str:
    run = _text(environment, "TORCHELASTIC_RUN_ID")
    return f"torchelastic/{run}" if run and run != "none" else ""


def _kubernetes(environment: Mapping[str, str], namespace_file: Path) -> str:
    """Return the id of an indexed Job: its pods are named by the Job and their index, however often
    they are replaced. Other pods have a name of their own each time.
    """
    index = _text(environment, "JOB_COMPLETION_INDEX")
    named = _INDEXED.match(socket.gethostname())
    if not index or not named or named["index"] != index:
        return ""
    try:
        namespace = namespace_file.read_text().strip()
    except (OSError, ValueError):
        namespace = ""
    return f"kubernetes/{namespace}/{named['job']}"


def _text(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name, "").strip()
