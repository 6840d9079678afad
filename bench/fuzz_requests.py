"""Hostile requests of every kind that a token of an agent can send: segments, MLflow's calls, and
imports."""

from __future__ import annotations

import hashlib
import io
import json
import random
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode
from uuid import UUID

from django.test import Client
from trimtab.wire import encode_segment, join_bodies

from bench import fuzz_imports
from tests.service import hostile
from tests.service.uploads import FakeAgent
from webapp.mlflow_api.methods import METHODS

RUN_INPUTS = 500
"""Requests for one run: the next ones go to a new one."""
CONVERSIONS = 0.04
"""The share of imports that a worker converts, each in a process of its own."""
MLFLOW, STORE = "/api/2.0/mlflow", "/api/2.0/mlflow-artifacts/artifacts"
Call = Callable[[str, str, dict[str, Any]], dict[str, Any]]
"""A valid call of MLflow's API, by method, path and document; its answer."""


@dataclass(frozen=True)
class HostileRequest:
    """One request. An accepted upload of `run_id` must be readable afterwards."""

    method: str
    path: str
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    run_id: UUID | None = None
    is_mlflow: bool = False


def make_requests(count: int, seed: str, call: Call) -> Iterator[HostileRequest]:
    """Yield so many requests: five of ten are an agent's, three MLflow's, and two imports."""
    chance = random.Random(seed)
    agents, clients, imports = (
        uploads(chance),
        mlflow_calls(chance, call),
        make_import_requests(chance),
    )
    turns = [agents] * 5 + [clients] * 3 + [imports] * 2
    for number in range(count):
        yield next(turns[number % len(turns)])


def uploads(chance: random.Random) -> Iterator[HostileRequest]:
    """Yield segments, alone and together, and declarations, each segment under a number of its
    own.
    """
    json_type = {"Content-Type": "application/json"}
    several_type = {"Content-Type": "application/vnd.trimtab.segments"}
    while True:
        agent = _agent(chance, "fuzz")
        path = f"/api/v1/runs/{agent.run_id}"
        declaration = hostile.Damage(agent.declaration_body(owner="ada"))
        for seq in range(RUN_INPUTS):
            segment = hostile.Damage(encode_segment(hostile.whole_segment(agent, seq)))
            of_session = f"{path}/segments/{agent.session_id}"
            if seq % 4 == 2:
                yield HostileRequest("PUT", path, declaration.body(chance), json_type, agent.run_id)
            elif seq % 4 == 3:
                body = join_bodies([segment.body(chance) for _ in range(chance.randint(1, 4))])
                body = hostile.flipped(chance, body) if chance.random() < 0.5 else body
                yield HostileRequest("POST", of_session, body, several_type)
            else:
                body = segment.body(chance)
                yield HostileRequest("PUT", f"{of_session}/{seq}", body, json_type, agent.run_id)


def _agent(chance: random.Random, job: str) -> FakeAgent:
    run_id, session_id = (UUID(int=chance.getrandbits(128)) for _ in range(2))
    name = f"{job}-{chance.randrange(200)}"
    return FakeAgent(Client(), "", job=name, run_id=run_id, session_id=session_id)


# MLflow


def mlflow_calls(chance: random.Random, call: Call) -> Iterator[HostileRequest]:
    """Yield calls of all methods, with documents that are nearly right, and files under hostile
    paths.
    """
    methods = sorted(METHODS)
    while True:
        known = _known(chance, call)
        for number in range(RUN_INPUTS):
            if number % 5 == 4:
                yield _file(chance, known)
            elif number % 5 == 3:
                yield _search(chance, known)
            else:
                yield _method(chance, known, *chance.choice(methods))


def _known(chance: random.Random, call: Call) -> dict[str, Any]:
    """Return rows that exist, and fields of every method with valid values."""
    name = f"fuzz-{chance.getrandbits(40):x}"
    experiment = call("POST", "experiments/create", {"name": name})["experiment_id"]
    began = 1_767_000_000_000
    created = {"experiment_id": experiment, "run_name": "first", "start_time": began}
    run_id = call("POST", "runs/create", created)["run"]["info"]["run_id"]
    metric = {"key": "loss", "value": 0.5, "timestamp": began + 1000, "step": 1}
    tag = {"key": "team", "value": "a" * 300}
    return {
        "experiment_id": experiment,
        "experiment_ids": [experiment],
        "experiment_name": name,
        "name": name,
        "run_id": run_id,
        "run_uuid": run_id,
        "run_name": "second",
        "source_run_id": run_id,
        "start_time": began,
        "end_time": began + 60_000,
        "status": "RUNNING",
        "metric_key": "loss",
        "max_results": 100,
        "order_by": ["metrics.loss DESC"],
        "path": "a/b",
        "metrics": [metric],
        "params": [{"key": "lr", "value": "0.1"}],
        "tags": [tag],
        "datasets": [{"dataset": {"name": "d", "digest": "1", "source": "{}"}}],
        "models": [{"model_id": f"m-{chance.getrandbits(128):032x}", "step": 1}],
        **metric,
        "model_json": json.dumps({"artifact_path": "model", "run_id": run_id, "flavors": {}}),
    }


def _method(chance: random.Random, known: dict[str, Any], verb: str, name: str) -> HostileRequest:
    said = hostile.changed(chance, known)
    if chance.random() < 0.3:
        said = {key: said[key] for key in chance.sample(list(said), min(6, len(said)))}
    name = name.replace("{id}", f"m-{chance.getrandbits(128):032x}")
    version = chance.choice(["", "", "", "preview/mlflow/"])
    path = f"{MLFLOW}/{version}{name}"
    if verb == "GET":
        return HostileRequest("GET", f"{path}?{_query(said)}", is_mlflow=True)
    body = json.dumps(said).encode("utf-8", "surrogatepass")
    body = hostile.flipped(chance, body) if chance.random() < 0.2 else body
    headers = {"Content-Type": "application/json"}
    return HostileRequest(verb, path, body, headers, is_mlflow=True)


def _query(said: dict[str, Any]) -> str:
    """Return a query, short enough for a line of a request."""
    pairs = [(str(key)[:99], str(value)[:500]) for key, value in said.items()]
    encoded = {
        key.encode("utf-8", "surrogatepass"): value.encode("utf-8", "surrogatepass")
        for key, value in pairs[:10]
    }
    return urlencode(encoded)


def _search(chance: random.Random, known: dict[str, Any]) -> HostileRequest:
    where = chance.choice(["runs/search", "experiments/search", "logged-models/search"])
    said = {
        "experiment_ids": known["experiment_ids"],
        "filter": fuzz_imports.search(chance),
        "order_by": [fuzz_imports.search(chance)[:200] for _ in range(chance.randint(0, 3))],
        "max_results": chance.choice([1, 100, 50_000, *hostile.NUMBERS[:8]]),
        "page_token": chance.choice(["", "MTA=", "x" * 99, *hostile.TEXTS[:6]]),
    }
    body = json.dumps(said).encode("utf-8", "surrogatepass")
    headers = {"Content-Type": "application/json"}
    return HostileRequest("POST", f"{MLFLOW}/{where}", body, headers, is_mlflow=True)


def _file(chance: random.Random, known: dict[str, Any]) -> HostileRequest:
    parts = ["model", "Model", "..", ".", "a b", "ü", "x" * 200, "%2e%2e", "\\", "nul\0", "\u202e"]
    name = "/".join(chance.choices(parts, weights=[9, 9, *[1] * 9], k=chance.randint(1, 5)))
    root = f"{known['experiment_id']}/{known['run_id']}/artifacts"
    roots = [*[root] * 6, "models/m-1/artifacts", f"{known['experiment_id']}/models/x", ""]
    path = f"{chance.choice(roots)}/{name}"
    verb = chance.choice(["PUT", "PUT", "GET", "GET", "DELETE", "LIST", "PATCH"])
    if verb == "LIST":
        return HostileRequest("GET", f"{STORE}?{_query({'path': path})}", is_mlflow=True)
    body = chance.randbytes(chance.choice([0, 9, 3_000])) if verb == "PUT" else b""
    return HostileRequest(verb, f"{STORE}/{quote(path)}", body, is_mlflow=True)


# Imports


def make_import_requests(chance: random.Random) -> Iterator[HostileRequest]:
    """Yield parts, descriptions that name them, and archives, under hostile names and kinds."""
    while True:
        agent = _agent(chance, "import")
        parts: list[str] = []
        for _ in range(chance.randint(2, 30)):
            body = fuzz_imports.archive(chance)
            parts.append(hashlib.sha256(body).hexdigest())
            yield _artefact(chance, agent, body, "import-part", "part")
        if chance.random() < CONVERSIONS * 10:
            yield _converted(chance, agent, parts)


def _converted(chance: random.Random, agent: FakeAgent, parts: list[str]) -> HostileRequest:
    what = chance.randrange(3)
    if what == 0:
        return _artefact(chance, agent, _packed(chance), "import", "old.tar.gz")
    if what == 1:
        return _artefact(chance, agent, chance.randbytes(99), "profile", "rank0.trace.json.gz")
    body = fuzz_imports.description(chance)
    if chance.random() < 0.6:
        body = json.dumps({"version": 1, "name": "x", "parts": parts}).encode()
    return _artefact(chance, agent, body, "import", "x.import.json")


def _packed(chance: random.Random) -> bytes:
    """Return an archive that holds files of a known format."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as written:
        for name in ("a.csv", "b.json", "c.txt"):
            content = f"time,gpu0.busy_pct\n1767225600,{chance.choice(hostile.TEXTS)}\n".encode(
                "utf-8", "surrogatepass"
            )
            member = tarfile.TarInfo(name)
            member.size = len(content)
            written.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def _artefact(
    chance: random.Random, agent: FakeAgent, body: bytes, kind: str, name: str
) -> HostileRequest:
    sha256 = hashlib.sha256(body).hexdigest()
    if chance.random() < 0.1:
        sha256 = chance.choice(["0" * 64, sha256.upper(), "x", sha256[:-1], "..%2F.."])
    if chance.random() < 0.1:
        kind, name = chance.choice(hostile.TEXTS), chance.choice(hostile.TEXTS)
    headers = {
        "X-Trimtab-Kind": quote(kind.encode("utf-8", "surrogatepass"), safe=""),
        "X-Trimtab-Name": quote(name.encode("utf-8", "surrogatepass")),
        "X-Trimtab-Job": quote(agent.job),
        "Content-Type": "application/octet-stream",
    }
    path = f"/api/v1/runs/{agent.run_id}/artefacts/{sha256}"
    return HostileRequest("PUT", path, body, headers)
