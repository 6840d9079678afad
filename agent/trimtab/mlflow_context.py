"""Tells MLflow's clients their run.

They send the tags in MLFLOW_RUN_CONTEXT, a JSON object, with each run that they begin. The service
takes such a run for the agent's. Another MLflow server keeps the tag and ignores it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from trimtab import run_folder
from trimtab.wire import Declaration, SessionClock

VARIABLE, TAG = "MLFLOW_RUN_CONTEXT", "trimtab.agent"


def describe(declaration: Declaration, clock: SessionClock) -> str:
    """Return the session, as the service reads it."""
    return json.dumps(
        {
            "run": str(declaration.run_id),
            "job": declaration.job,
            "attempt": declaration.attempt,
            "machine": declaration.node.machine_id,
            "session": str(clock.session_id),
            "boot": clock.boot_id,
            "started_at_ns": clock.started_at_ns,
            "started_mono_ns": clock.started_mono_ns,
        },
        separators=(",", ":"),
    )


def environment(outer: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return `outer` with the tag added, if its variable is empty or holds what MLflow
    documents.
    """
    with suppress(OSError, ValueError):
        tags = json.loads(outer.get(VARIABLE) or "{}")
        session = run_folder.read_published_run(folder).session
        if isinstance(tags, dict) and session:
            return {**outer, VARIABLE: json.dumps({**tags, TAG: session})}
    return dict(outer)
