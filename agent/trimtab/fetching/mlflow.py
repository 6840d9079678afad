"""One run of an MLflow server: what it is, its parameters and tags, and all values of its metrics.

https://mlflow.org/docs/latest/api_reference/rest-api.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trimtab.fetching.server import FetchError, Server

PREFIX = "MLFLOW_TRACKING"
"""The beginning of the variables with its credentials, which MLflow's own clients read, too."""
_API = "api/2.0/mlflow"
_PAGE = "25000"
_MOST_BYTES, _MOST_RUN_BYTES = 32 * 1024 * 1024, 16 * 1024 * 1024
_MOST_PAGES = 10_000
_RUN = re.compile(
    r"(?:.*/runs/)?([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})(?:[/?].*)?"
)


def address(url: str) -> tuple[str, str]:
    """Return the server's URL and the run's id, from the address of the run's page (`...#RUN` is
    enough).

    Raises:
        ValueError: with a sentence.
    """
    parts = urlsplit(url)
    found = _RUN.fullmatch(parts.fragment)
    if not found:
        raise ValueError(
            "the address names no run. Use that of the run's page, such as "
            "mlflow+https://mlflow.example/#/experiments/1/runs/RUN_ID."
        )
    return parts._replace(fragment="", query="").geturl(), found[1].replace("-", "").lower()


def fetch(server: Server, run_id: str, into: Path) -> str:
    """Save the run as files of a folder. Returns the name of its experiment.

    Raises:
        FetchError
    """
    answer = server.document(f"{_API}/runs/get", {"run_id": run_id}, _MOST_RUN_BYTES)
    run = answer.get("run")
    if not isinstance(run, dict) or not isinstance(run.get("info"), dict):
        raise FetchError(f"{server.host} gives no answer of MLflow. Check the address.")
    experiment = _experiment(server, str(run["info"].get("experiment_id", "")))
    document = {"experiment": experiment, "run": run}
    (into / "mlflow-run.json").write_text(json.dumps(document, sort_keys=True))
    (into / "metrics").mkdir()
    for number, key in enumerate(_keys(run)):
        for page, points in enumerate(_history(server, run_id, key)):
            path = into / "metrics" / f"{number:05d}-{page:05d}.json"
            path.write_text(json.dumps({"key": key, "metrics": points}, sort_keys=True))
    return experiment


def _experiment(server: Server, experiment_id: str) -> str:
    asked = {"experiment_id": experiment_id}
    answer = server.document(f"{_API}/experiments/get", asked, _MOST_RUN_BYTES)
    experiment = answer.get("experiment")
    name = experiment.get("name") if isinstance(experiment, dict) else None
    return name if isinstance(name, str) else ""


def _keys(run: dict[str, Any]) -> list[str]:
    """Return the names of its metrics, system metrics included."""
    data = run.get("data")
    latest = data.get("metrics") if isinstance(data, dict) else None
    listed = latest if isinstance(latest, list) else []
    return sorted({str(each["key"]) for each in listed if isinstance(each, dict) and "key" in each})


def _history(server: Server, run_id: str, key: str) -> Iterator[list[Any]]:
    """Yield all values of a metric, page by page."""
    asked = {"run_id": run_id, "metric_key": key, "max_results": _PAGE}
    for _ in range(_MOST_PAGES):
        answer = server.document(f"{_API}/metrics/get-history", asked, _MOST_BYTES)
        points = answer.get("metrics")
        if isinstance(points, list) and points:
            yield [_plain(each) for each in points if isinstance(each, dict)]
        token = answer.get("next_page_token")
        if not token:
            return
        asked["page_token"] = str(token)


def _plain(point: dict[str, Any]) -> dict[str, Any]:
    return {name: point.get(name) for name in ("timestamp", "step", "value")}
