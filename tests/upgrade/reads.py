"""Everything that the API answers about a workspace, by address."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import requests

SERIES = ("host.cpu_busy_pct", "host.memory_used_bytes", "gpu0.busy_pct")
TIMEOUT_SECONDS = 30
Answers = dict[str, Any]
"""Path and query -> the JSON that was answered."""


class Api:
    """The API of one service, as one token sees it. Answers that aren't 2xx raise HTTPError."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._session = requests.Session()
        self._session.headers["Authorization"] = f"Bearer {token}"

    def get(self, address: str) -> Any:
        """Return the answer's JSON, without the service's own address."""
        return self.send("GET", address)

    def send(self, method: str, address: str, document: Any = None) -> Any:
        answer = self._session.request(
            method, self._url + address, json=document, timeout=TIMEOUT_SECONDS
        )
        answer.raise_for_status()
        return _without(answer.json(), self._url) if answer.content else None


def answers(api: Api, run_ids: Sequence[str], months: Sequence[str]) -> Answers:
    """Return every read of the API about these runs, their jobs and these months."""
    return {address: api.get(address) for address in _addresses(api, run_ids, months)}


def _addresses(api: Api, run_ids: Sequence[str], months: Sequence[str]) -> Iterator[str]:
    yield "/api/v1/jobs"
    yield "/api/v1/rules"
    yield "/api/v1/budgets"
    for job in api.get("/api/v1/jobs")["jobs"]:
        yield f"/api/v1/rules?job={job['id']}"
    for month in months:
        for by in ("job", "owner", "tag", "month"):
            yield f"/api/v1/spend?month={month}&by={by}"
    for run_id in run_ids:
        yield f"/api/v1/runs/{run_id}"
        yield f"/api/v1/runs/{run_id}/artefacts"
        yield f"/api/v1/runs/{run_id}/series?names={','.join(SERIES)}&buckets=30"
        yield f"/api/v1/cost?run={run_id}"
    for a, b in pairwise(run_ids):
        yield f"/api/v1/compare?a={a}&b={b}"


def _without(value: Any, url: str) -> Any:
    if isinstance(value, dict):
        return {key: _without(each, url) for key, each in value.items()}
    if isinstance(value, list):
        return [_without(each, url) for each in value]
    return value.replace(url, "") if isinstance(value, str) else value
