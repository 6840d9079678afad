"""Answers programs that trace. No trace is kept, and no program fails for it.

The first trace of a run is refused, so that MLflow's client warns that none is kept. Those that
follow are taken and dropped: for each one that is refused the client would warn again. Clients
before version 3 fail if a trace can't be started; they are refused the file of its spans. Searches
find no traces, and what is said about one is dropped, too.

https://mlflow.org/docs/latest/api_reference/rest-api.html#start-trace
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID, uuid4

from django.core.cache import cache

from advisor import mlflow_names
from webapp.accounts.models import Token
from webapp.http.problems import Problem
from webapp.mlflow_api import scope, taking
from webapp.mlflow_api.arguments import MOST_TAG_CHARS, Arguments, read_run_id
from webapp.mlflow_api.errors import MlflowError, missing_resource

NO_PLACE = "traces-not-kept"
"""The folder of the artefact store that clients before version 3 write spans to."""
_KEPT_SILENT_SECONDS = 600
"""The time without traces after which the next one is refused again."""
_SPANS_PLACE = {"mlflow.trace.spansLocation": "TRACKING_STORE"}
"""Keeps the client from uploading the spans as a file of their own."""
Answer = Callable[[Token, Arguments], dict[str, Any]]


def find_answer(verb: str, version: str, path: str) -> Answer | None:
    """Return what answers the request, or None if clients that trace send no such request."""
    for verbs, own, pattern, answer in _ANSWERS:
        if verb in verbs and version == own and re.fullmatch(pattern, path):
            return answer
    return None


def _start(token: Token, said: Arguments) -> dict[str, Any]:
    """Refuse the first trace of a run or experiment; take and drop the next ones."""
    info = said.part("trace").part("trace_info").document()
    metadata, tags = info.get("trace_metadata"), info.get("tags")
    run_id = _source_run(metadata if isinstance(metadata, dict) else {})
    if run_id is not None:
        _name_in_run(token, run_id)
    refuse_first(token, run_id.hex if run_id else _experiment(info))
    own = tags if isinstance(tags, dict) else {}
    return {"trace": {"trace_info": {**info, "tags": {**own, **_SPANS_PLACE}}}}


def _start_before_3(token: Token, said: Arguments) -> dict[str, Any]:
    """Start a trace of a client before version 3, whose spans have no place."""
    metadata = {
        each.key(): each.value(MOST_TAG_CHARS) for each in said.parts("request_metadata", 100)
    }
    run_id = _source_run(metadata)
    if run_id is not None:
        _name_in_run(token, run_id)
    of = run_id.hex if run_id else said.text("experiment_id")
    place = {"key": "mlflow.artifactLocation", "value": f"mlflow-artifacts:/{NO_PLACE}/{of}"}
    info = said.document()
    tags = [*said.list("tags", 100), place]
    return {"trace_info": {**info, "request_id": f"tr-{uuid4().hex}", "tags": tags}}


def _end_before_3(_token: Token, said: Arguments) -> dict[str, Any]:
    return {"trace_info": said.document()}


def refuse_first(token: Token, of: str) -> None:
    """Raise MlflowError for the first trace of a run or experiment that a token sends."""
    if not _has_been_told(token, of):
        raise MlflowError(
            "BAD_REQUEST",
            "Trimtab keeps no traces: this one and those that follow are left out. The program "
            "isn't affected. See /docs/mlflow/.",
        )


def _has_been_told(token: Token, of: str) -> bool:
    key = f"mlflow-traces:{token.pk}:{of}"
    if cache.add(key, 1, _KEPT_SILENT_SECONDS):
        return False
    cache.touch(key, _KEPT_SILENT_SECONDS)
    return True


def _source_run(metadata: Mapping[str, Any]) -> UUID | None:
    with suppress(MlflowError):
        return read_run_id(metadata.get("mlflow.sourceRun"))
    return None


def _experiment(info: dict[str, Any]) -> str:
    return re.sub(r"\W", "", str(info.get("trace_location")))[:200]


def _name_in_run(token: Token, run_id: UUID) -> None:
    """Tell people on the page of a run of this token that its traces aren't kept."""
    with suppress(MlflowError, Problem):
        tracked = scope.changeable_run(token, run_id)
        if mlflow_names.TRACES not in tracked.tags:
            taking.log_values(token, tracked, tags={mlflow_names.TRACES: "not kept"})


def _find_none(_token: Token, _said: Arguments) -> dict[str, Any]:
    return {"traces": [], "trace_infos": []}


def _miss(_token: Token, _said: Arguments) -> dict[str, Any]:
    raise missing_resource("Trimtab keeps no traces. See /docs/mlflow/.")


def _drop(_token: Token, _said: Arguments) -> dict[str, Any]:
    return {"traces_deleted": 0}


def _drop_assessment(_token: Token, said: Arguments) -> dict[str, Any]:
    """Return the assessment as the client sent it, with an id: clients read both."""
    return {
        "assessment": {"assessment_id": f"a-{uuid4().hex}", **said.part("assessment").document()}
    }


_ID, _ASSESSMENT = r"[^/]+", r"[^/]+/assessments/[^/]+"
_ANSWERS: tuple[tuple[tuple[str, ...], str, str, Answer], ...] = (
    (("POST",), "3.0", "", _start),
    (("POST",), "3.0", "search|batchGet|batchGetInfos", _find_none),
    (("GET",), "2.0", "", _find_none),
    (("POST",), "2.0", "", _start_before_3),
    (("PATCH",), "2.0", _ID, _end_before_3),
    (("GET",), "3.0", f"{_ID}|{_ASSESSMENT}", _miss),
    (("GET",), "2.0", f"{_ID}/info", _miss),
    (("PATCH", "DELETE"), "2.0", f"{_ID}/tags", _drop),
    (("POST",), "2.0", "delete-traces|link-to-run", _drop),
    (("POST",), "3.0", f"{_ID}/assessments", _drop_assessment),
    (("PATCH",), "3.0", _ASSESSMENT, _drop_assessment),
    (("DELETE",), "3.0", _ASSESSMENT, _drop),
)
