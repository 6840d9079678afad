"""The API's description and the API agree: every operation, every scope, right and wrong input."""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta
from itertools import cycle
from typing import Any
from uuid import UUID

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, transaction
from django.utils import timezone
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from trimtab.wire import LIMITS, encode_segment, join_bodies

from tests.service import hostile
from tests.service.uploads import FakeAgent
from tests.web import factories
from webapp.accounts.models import Token, Workspace
from webapp.imports.models import Import
from webapp.ingest.bodies import DECLARATION_TYPE, SEGMENT_TYPE, SEGMENTS_TYPE
from webapp.runs.models import Job, Node, Run
from webapp.urls import api
from webapp.wsgi import application

pytestmark = pytest.mark.django_db

AGENT = FakeAgent(None, "", run_id=UUID(int=11), session_id=UUID(int=12))  # type: ignore[arg-type]
JOB_ID = UUID(int=13)
ADVICE_ID = UUID(int=15)
OTHER_RUN = UUID(int=14)
TRACE = b"a trace"
# What is there, by the name of the parameter that names it. Other parameters are made up.
THERE: dict[str, list[Any]] = {
    "run_id": [str(AGENT.run_id)],
    "session_id": [str(AGENT.session_id)],
    "seq": [0, 1],
    "job_id": [str(JOB_ID)],
    "job": [str(JOB_ID)],
    "recommendation_id": [str(ADVICE_ID)],
    "run": [str(AGENT.run_id)],
    "training": [str(AGENT.run_id)],
    "a": [str(AGENT.run_id)],
    "b": [str(OTHER_RUN)],
    "sha256": [hashlib.sha256(TRACE).hexdigest()],
}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
TOKENS = {
    "each scope": [Token.INGEST, Token.READ, Token.WRITE],
    "ingest": [Token.INGEST],
    "read": [Token.READ],
    "write": [Token.WRITE],
    "another workspace's": [Token.INGEST, Token.READ, Token.WRITE],
    "wrong": None,
    "none": None,
}
EVERYWHERE = {"400", "401", "403", "422", "429"}

UPLOADS = {
    SEGMENT_TYPE: [encode_segment(hostile.whole_segment(AGENT, seq)) for seq in THERE["seq"]],
    DECLARATION_TYPE: [AGENT.declaration_body()],
}

schemathesis.openapi.media_type("application/octet-stream", st.just(TRACE) | st.binary())
for _type, _bodies in UPLOADS.items():
    _changed = [hostile.bodies_like(body) for body in _bodies]
    schemathesis.openapi.media_type(_type, st.sampled_from(_bodies) | st.one_of(_changed))
_several = join_bodies(UPLOADS[SEGMENT_TYPE])
_like = hostile.several_like(UPLOADS[SEGMENT_TYPE][0])
schemathesis.openapi.media_type(SEGMENTS_TYPE, st.just(_several) | _like)

description: dict[str, Any] = json.loads(json.dumps(api.get_openapi_schema()))
schema = schemathesis.openapi.from_dict(description)
schema.app = application
OPERATIONS = {
    f"{found.ok().method.upper()} {found.ok().path}": found.ok()
    for found in schema.get_all_operations()
}


@pytest.fixture
def tokens(workspace, settings) -> dict[str, str | None]:
    """Return a token of each kind; a run and its job are in the workspace."""
    settings.TOKEN_REQUESTS_A_MINUTE = settings.ADDRESS_REQUESTS_A_MINUTE = 0
    settings.WRONG_TOKENS_A_MINUTE = 0
    other = Workspace.objects.create(name="Elsewhere")
    person = factories.member(workspace, other)
    owners = {"another workspace's": other}
    made: dict[str, str | None] = {
        name: Token.make(owners.get(name, workspace), name, scopes, created_by=person)[1]
        for name, scopes in TOKENS.items()
        if scopes
    }
    return made | {"wrong": "tt_wrong", "none": None}


@pytest.fixture
def run(tokens, client):
    AGENT.client, AGENT.token = client, tokens["each scope"]
    assert AGENT.put(hostile.whole_segment(AGENT)).status_code == 200
    assert AGENT.put_artefact(TRACE).status_code == 200
    Job.objects.update(uuid=JOB_ID)
    factories.recommendation(Run.objects.earliest("number"), uuid=ADVICE_ID)
    job = Job.objects.get()
    _make_measured(Run.objects.get(pk=AGENT.run_id))
    Run.objects.create(id=OTHER_RUN, workspace=job.workspace, job=job, number=99)


def _make_measured(run: Run) -> None:
    """Make the run's machine and its use of it known, so that it can be asked what if."""
    run.state, run.summary = Run.FINISHED, factories.summary()
    run.started_at = timezone.now() - timedelta(hours=2)
    run.ended_at = run.started_at + timedelta(hours=1)
    run.save()
    machine = {"provider": "aws", "service": "ec2", "region": "us-east-1", "vcpus": 2}
    Node.objects.filter(attempt__run=run).update(instance_type="c5.large", gpus=[], **machine)
    Import.objects.filter(artefact__run=run).update(given_up_at=timezone.now(), error="it failed")


@pytest.fixture
def kept_connection(run):
    """Keep a connection open. What begins or ends a request closes one that isn't in autocommit,
    and in a test's transaction none is. Django's test client holds it open, and lets go of it
    afterwards; here the application is called without that client.
    """
    ends = (request_started, request_finished)
    for signal in ends:
        signal.disconnect(close_old_connections)
    yield
    for signal in ends:
        signal.connect(close_old_connections)


@st.composite
def _calls(draw: st.DrawFn, name: str) -> schemathesis.Case:
    """Return a call of an operation, right or wrong, about what is there or not."""
    mode = draw(st.sampled_from(list(schemathesis.GenerationMode)))
    case = draw(OPERATIONS[name].as_strategy(mode))
    for parameters in filter(None, (case.path_parameters, case.query)):
        for parameter, value in dict(parameters).items():
            there = THERE.get(parameter, [])
            parameters[parameter] = draw(st.sampled_from([*there * 2, value]))
    return case


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_answers_as_it_is_described(name, tokens, kept_connection):
    answered = set()
    # Every token has its turn, however few calls there are.
    turns = cycle(["each scope"] * 4 + list(TOKENS))
    is_sample = examples.default.derandomize

    @given(_calls(name))
    @examples(
        max_examples=40 if is_sample else 2 * examples.default.max_examples,
        derandomize=True,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    def each(case):
        token = tokens[next(turns)]
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        with transaction.atomic():
            answer = case.call(headers=headers)
            transaction.set_rollback(True)
        case.validate_response(answer, checks=CHECKS)
        answered.add(answer.status_code)

    each()
    assert {401, 403} <= answered
    assert any(200 <= status < 300 for status in answered), "say in THERE what its parameters name"


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_says_who_may_call_it_and_each_way_in_which_it_can_go_wrong(name):
    method, _, path = name.partition(" ")
    operation = description["paths"][path][method.lower()]
    (security,) = operation["security"]
    assert security["Bearer"]
    assert set(security["Bearer"]) <= {Token.INGEST, Token.READ, Token.WRITE}
    wanted = EVERYWHERE | ({"404"} if "{" in path else set())
    wanted |= {"413"} if "requestBody" in operation else set()
    wanted |= {"409"} if method != "GET" else set()
    assert wanted <= set(operation["responses"])
    for status in wanted:
        (content_type,) = operation["responses"][status]["content"]
        assert content_type == "application/problem+json"


def test_the_description_says_how_to_authenticate(client):
    published = client.get("/api/v1/openapi.json").json()
    (bearer,) = published["components"]["securitySchemes"].values()
    assert (bearer["type"], bearer["scheme"]) == ("http", "bearer")
    assert bearer["description"]


def test_uploads_are_described_as_binary_of_a_bounded_size():
    for path in ("/api/v1/runs/{run_id}", "/api/v1/runs/{run_id}/segments/{session_id}/{seq}"):
        (content,) = description["paths"][path]["put"]["requestBody"]["content"].values()
        assert content["schema"]["format"] == "binary"
        assert content["schema"]["maxLength"] == LIMITS.body_bytes


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("get", "/api/v1/nothing", 404),
        ("get", "/api/v2/jobs", 404),
        ("delete", "/api/v1/jobs", 405),
        ("put", "/api/v1/runs/%00", 422),
        ("put", f"/api/v1/runs/{UUID(int=1)}/segments/{UUID(int=2)}/{'9' * 5000}", 422),
    ],
)
def test_an_address_or_method_that_is_not_there_is_a_problem_too(
    method, path, status, client, tokens
):
    bearer = {"Authorization": f"Bearer {tokens['each scope']}"}
    answer = getattr(client, method)(path, headers=bearer)
    assert answer.status_code == status
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["detail"]
    assert answer.json()["fix"]
    assert status != 405 or answer.headers["Allow"] == "GET"


def test_a_crash_inside_the_api_is_a_problem_and_shows_nothing(client, tokens, monkeypatch):
    def broken(*_: object) -> None:
        raise RuntimeError("secret of the insides")

    monkeypatch.setattr("webapp.runs.scope.jobs_of", broken)
    client.raise_request_exception = False
    bearer = {"Authorization": f"Bearer {tokens['each scope']}"}
    answer = client.get("/api/v1/jobs", headers=bearer)
    assert answer.status_code == 500
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert b"secret" not in answer.content
