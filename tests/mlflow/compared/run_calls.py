"""Makes the calls of a folder with the MLflow client of this Python, and prints what each gave.

    python run_calls.py FOLDER

Each statement of a file is one call. It runs in a process of its own with no other module of the
project. The last line is a JSON object: "AREA: STATEMENT" -> what the call gave. Ids, times and the
server's address differ between any two servers, so they are replaced: what a statement assigned to
`first` is `<first>`.
"""

from __future__ import annotations

import ast
import dataclasses
import faulthandler
import json
import math
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import mlflow
from mlflow import MlflowClient
from mlflow.entities._mlflow_object import _MlflowObject

_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?")
_RANDOM = re.compile(
    r"\b(tr-|m-|d-|a-|s-)?([0-9a-f]{40}|[0-9a-f]{32}|[0-9a-f]{16})\b"
    r"|\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-\w{12}\b"
)
_PLACE = re.compile(
    r"(mlflow-artifacts:(?://[^/]+)?(?:/api/2.0/mlflow-artifacts/artifacts)?/)(\d+)"
)
_EARLIEST_MS = 1_500_000_000_000
_ID_FIELDS = ("run_id", "experiment_id", "model_id", "trace_id", "request_id")
_MOST_SECONDS = 900
_ABSENT = (AttributeError, ImportError, TypeError)
"""Errors of a client that doesn't know the call."""


class Description:
    """Describes values of calls as JSON, with the names of what earlier calls assigned."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {os.environ["MLFLOW_TRACKING_URI"]: "<server>"}
        self._experiments: dict[str, str] = {"0": "<Default>"}

    def name_ids(self, name: str, value: Any) -> None:
        """Remember the ids in `value` under the name that it was assigned to."""
        if isinstance(value, str):
            self._remember(name, "experiment_id" if value.isdecimal() else "", value)
        for field in _ID_FIELDS:
            for owner in (value, getattr(value, "info", None)):
                if isinstance(found := getattr(owner, field, None), str):
                    self._remember(name, field, found)

    def _remember(self, name: str, field: str, value: str) -> None:
        if field == "experiment_id":
            self._experiments.setdefault(value, f"<{name}>")
        elif value:
            self._names.setdefault(value, f"<{name}>")

    def describe(self, value: Any, field: str = "") -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, (int, float)):
            return self._number(value)
        if isinstance(value, (str, Path)):
            return self._text(str(value), field)
        if isinstance(value, Mapping):
            pairs = sorted((str(key), each) for key, each in value.items())
            return {self._text(key, ""): self.describe(each, key) for key, each in pairs}
        is_list = hasattr(value, "__iter__") and hasattr(value, "__len__")
        if is_list and type(value).__name__ != "DataFrame":
            return [self.describe(each, field.removesuffix("s")) for each in value]
        return self._object(value)

    def _number(self, value: float) -> Any:
        if not math.isfinite(value):
            return str(value)
        return "<time>" if value > _EARLIEST_MS else round(value, 9)

    def _text(self, text: str, field: str) -> str:
        if field == "experiment_id":
            return self._experiments.get(text, "<experiment>")
        for known, name in sorted(self._names.items(), key=lambda pair: -len(pair[0])):
            text = text.replace(known, name)
        text = _PLACE.sub(
            lambda found: found[1] + self._experiments.get(found[2], "<experiment>"), text
        )
        return _RANDOM.sub("<id>", _TIME.sub("<time>", text))

    def _object(self, value: Any) -> Any:
        kind = type(value).__name__
        if kind == "DataFrame":
            columns = sorted(map(str, value.columns))
            return {
                "columns": [self._text(column, "") for column in columns],
                "rows": [self.describe(row) for row in value.to_dict("records")],
            }
        return {"": kind, **{name: self.describe(each, name) for name, each in _fields(value)}}


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields of one of MLflow's entities; none of anything else."""
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        yield from ((name, getattr(value, name)) for name in names)
    elif isinstance(value, _MlflowObject):
        yield from sorted(dict(value).items())
    elif hasattr(value, "isoformat"):
        yield "time", "<time>"


def main(folder: Path) -> None:
    warnings.simplefilter("ignore")
    faulthandler.dump_traceback_later(_MOST_SECONDS, exit=True)
    client = MlflowClient()
    said = Description()
    given: dict[str, Any] = {}
    own = Path(tempfile.mkdtemp())
    os.chdir(own)
    said.name_ids("folder", str(own))
    for path in sorted(folder.glob("*.txt")):
        scope: dict[str, Any] = {
            "mlflow": mlflow,
            "client": client,
            "Path": Path,
            "time": __import__("time"),
        }
        for statement in ast.parse(path.read_text(), str(path)).body:
            call = f"{path.stem}: {ast.unparse(statement)}"
            again = sum(known.partition(" #")[0] == call for known in given)
            given[f"{call} #{again + 1}" if again else call] = _outcome(statement, scope, said)
        while mlflow.active_run():
            mlflow.end_run()
    sys.stdout.write(f"GIVEN {json.dumps(given)}\n")


def _outcome(statement: ast.stmt, scope: dict[str, Any], said: Description) -> dict[str, Any]:
    """Return what the call gave: its value, its error, or that the client doesn't have it."""
    try:
        value = _run(statement, scope)
    except _ABSENT as error:
        return {"absent": f"{type(error).__name__}: {error}"[:200]}
    except Exception as error:
        code = getattr(error, "error_code", "")
        return {"error": f"{type(error).__name__} {code}".strip(), "message": str(error)[:500]}
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        said.name_ids(statement.targets[0].id, value)
        if isinstance(value, str) and value.isdecimal():
            return {"value": "<experiment>"}
    return {"value": said.describe(value)}


def _run(statement: ast.stmt, scope: dict[str, Any]) -> Any:
    if not isinstance(statement, (ast.Expr, ast.Assign)):
        exec(compile(ast.Module([statement], []), "<call>", "exec"), scope)  # noqa: S102
        return None
    value = eval(compile(ast.Expression(statement.value), "<call>", "eval"), scope)  # noqa: S307
    if isinstance(statement, ast.Assign) and isinstance(target := statement.targets[0], ast.Name):
        scope[target.id] = value
    return value


if __name__ == "__main__":
    main(Path(sys.argv[1]))
