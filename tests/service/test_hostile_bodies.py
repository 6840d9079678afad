"""A hundred thousand bodies that are nearly right: none breaks the service or what it holds.

`python -m bench.fuzz --http 100000` sends as many to a started service.
"""

from __future__ import annotations

import shutil
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from django.http import HttpResponse
from django.test import Client
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from trimtab.wire import encode_segment

from tests.service import hostile
from tests.service.uploads import FakeAgent
from webapp.accounts.models import Token
from webapp.runs.models import Job, Node, Run, Segment, Session

pytestmark = pytest.mark.django_db
HELD = (Run, Job, Node, Session, Segment)
SERIES = "host.cpu_busy_pct,step.seconds"

# A run that nobody knows yet, and one that is there: each body meets one of them.
NEW = FakeAgent(Client(), "", run_id=UUID(int=1), session_id=UUID(int=2))
TAKEN = FakeAgent(Client(), "", run_id=UUID(int=3), session_id=UUID(int=4))


def _uploads() -> st.SearchStrategy[tuple[FakeAgent, int | None, bytes]]:
    """Return who sends, the number of the segment (None: a declaration), and the body."""
    agents = st.sampled_from([NEW, TAKEN])
    uploads = []
    for agent in (NEW, TAKEN):
        just = st.just(agent)
        for seq in (0, 1):
            body = encode_segment(hostile.whole_segment(agent, seq))
            uploads.append(st.tuples(just, st.just(seq), hostile.bodies_like(body)))
        body = agent.declaration_body()
        uploads.append(st.tuples(just, st.none(), hostile.bodies_like(body)))
    uploads.append(st.tuples(agents, st.sampled_from([None, 0]), st.binary(max_size=200)))
    return st.one_of(uploads)


@pytest.fixture
def readers(workspace, settings) -> dict[str, str]:
    """Return headers of a reader; the agents have their token, and a run is there."""
    settings.TOKEN_REQUESTS_A_MINUTE = settings.ADDRESS_REQUESTS_A_MINUTE = 0
    _, plain = Token.make(workspace, "all", [Token.INGEST, Token.READ])
    NEW.token = TAKEN.token = plain
    assert TAKEN.put(TAKEN.segment(0)).status_code == 200
    assert TAKEN.declare(owner="ada").status_code == 200
    return {"Authorization": f"Bearer {plain}"}


def _held() -> list[Any]:
    return [list(model.objects.order_by("pk").values()) for model in HELD]


def _is_a_problem(answer: HttpResponse) -> bool:
    problem = answer.json()  # type: ignore[attr-defined]
    right = answer.headers["Content-Type"] == "application/problem+json"
    return right and bool(problem["detail"] and problem["field"] and problem["fix"])


def _readable(run_id: UUID, headers: dict[str, str]) -> bool:
    """Return whether what was taken can be shown."""
    pages = (f"/api/v1/runs/{run_id}", f"/api/v1/runs/{run_id}/series?names={SERIES}")
    return all(NEW.client.get(page, headers=headers).status_code == 200 for page in pages)


def _try(upload: tuple[FakeAgent, int | None, bytes], headers: dict[str, str]) -> None:
    agent, seq, body = upload
    before = _held()
    with transaction.atomic():
        answer = agent.declare_body(body) if seq is None else agent.put_body(seq, body)
        if answer.status_code == 200:
            assert _readable(agent.run_id, headers)
        else:
            assert 400 <= answer.status_code < 500
            assert _is_a_problem(answer)
            assert _held() == before
        transaction.set_rollback(True)


_examples = examples(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    phases=[Phase.generate, Phase.shrink],
    database=None,
)


@given(upload=_uploads())
@examples(_examples, max_examples=100, derandomize=True)
def test_no_body_breaks_the_service(readers, upload):
    _try(upload, readers)


@pytest.mark.long
@pytest.mark.timeout(7200)
@given(upload=_uploads())
@examples(_examples, max_examples=100_000)
def test_none_of_a_hundred_thousand_bodies_breaks_the_service(readers, settings, upload):
    try:
        _try(upload, readers)
    finally:
        shutil.rmtree(f"{settings.OBJECTS_URL}/runs/{NEW.run_id}", ignore_errors=True)
