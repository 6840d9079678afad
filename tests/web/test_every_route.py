"""Every door, found from the URL configuration itself: nobody's data goes to anybody else.

A new route fails here until it says, by its place in one of the tables, who may see what.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from tests.web import factories
from webapp.accounts.models import Token

SECRET = "secret-job/train.py"
OPEN_TO_ALL = {
    "healthz",
    "readyz",
    "accounts:sign_in",
    "accounts:use_link",
    "api:openapi-json",
    "api:api-root",
}
"""They show nothing of any workspace."""
OF_A_PERSON = {
    "runs:jobs",
    "runs:job",
    "runs:run",
    "runs:series_json",
    "runs:series_csv",
    "runs:compare",
    "accounts:sign_out",
    "accounts:switch_workspace",
}
OF_A_TOKEN = {
    "/api/v1/runs/<run_id>",
    "/api/v1/runs/<run_id>/series",
    "/api/v1/runs/<run_id>/segments/<session_id>/<seq>",
    "/api/v1/jobs",
}


def routes() -> list[str]:
    """Each by its name; the API's by their pattern."""
    return sorted(set(_routes(get_resolver().url_patterns, "", "")))


def _routes(patterns: list, prefix: str, namespace: str) -> Iterator[str]:
    for each in patterns:
        path = f"{prefix}{each.pattern}"
        if isinstance(each, URLResolver):
            inner = f"{namespace}{each.namespace}:" if each.namespace else namespace
            yield from _routes(each.url_patterns, path, inner)
        elif isinstance(each, URLPattern):
            own = f"{namespace}{each.name}"
            is_operation = own.startswith("api:") and own not in OPEN_TO_ALL
            yield f"/{path}" if is_operation else own


@pytest.fixture
def secret_run(owner):  # type: ignore[no-untyped-def]
    """A run of the owner's with everything that could leak."""
    run = factories.costed(factories.run(factories.job(owner.workspace, SECRET)))
    factories.judgement(run)
    factories.recommendation(run)
    return run


def _address(name: str, run) -> str:  # type: ignore[no-untyped-def]
    arguments = {"runs:job": [run.job.uuid], "runs:jobs": [], "runs:compare": []}
    if not name.startswith("runs:"):
        return reverse(name)
    address = reverse(name, args=arguments.get(name, [run.pk]))
    other = factories.run(run.job)
    return f"{address}?a={run.pk}&b={other.pk}&names=host.cpu_busy_pct"


def test_every_route_says_who_may_see_it():
    found = set(routes())
    print(f"{len(found)} routes")  # noqa: T201 - the count is part of the evidence
    assert found == OPEN_TO_ALL | OF_A_PERSON | OF_A_TOKEN


@pytest.mark.parametrize("name", sorted(OF_A_PERSON))
def test_nobody_sees_a_page_without_signing_in(client, secret_run, name):
    answer = client.get(_address(name, secret_run))
    assert answer.status_code in (302, 405)
    assert SECRET.encode() not in answer.content


@pytest.mark.parametrize("name", sorted(OF_A_PERSON))
def test_a_member_of_another_workspace_sees_nothing_of_it(stranger, secret_run, name):
    answer = stranger.client.get(_address(name, secret_run))
    assert answer.status_code in ((200,) if name == "runs:jobs" else (404, 405))
    assert SECRET.encode() not in answer.content
    assert str(secret_run.pk).encode() not in answer.content


def _operations(run) -> list[tuple[str, str]]:  # type: ignore[no-untyped-def]
    base = f"/api/v1/runs/{run.pk}"
    return [
        ("get", base),
        ("get", f"{base}/series?names=host.cpu_busy_pct"),
        ("put", base),
        ("put", f"{base}/segments/{uuid4()}/0"),
        ("get", "/api/v1/jobs"),
    ]


def test_no_operation_answers_without_a_token(client, secret_run):
    for method, address in _operations(secret_run):
        assert getattr(client, method)(address).status_code == 401, address


def test_the_token_of_another_workspace_reads_and_changes_nothing(client, stranger, secret_run):
    scopes = [Token.INGEST, Token.READ, Token.WRITE]
    headers = {"Authorization": f"Bearer {Token.make(stranger.workspace, 'all', scopes)[1]}"}
    for method, address in _operations(secret_run):
        answer = getattr(client, method)(address, headers=headers)
        expected = 200 if address.endswith("/jobs") else (400 if method == "put" else 404)
        assert answer.status_code == expected, address
        assert SECRET.encode() not in answer.content
