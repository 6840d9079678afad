"""Statements that Django compiles once say the same as ordinary queries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from django.db import connection
from django.db.models import DateTimeField
from django.test.utils import CaptureQueriesContext

from tests.service.test_carrying_on import analyse, results, runner, send
from tests.service.uploads import FakeAgent
from webapp.analysis.results import outcome_rows
from webapp.background import claims, pulling
from webapp.database import prepared
from webapp.database.prepared import Models, Slot, Values
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db


@contextmanager
def django_of(versions: set[tuple[int, int]]) -> Iterator[None]:
    """Compile statements once with these versions of Django only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepared, "COMPILED", versions)
        patch.setattr(claims, "_statements", {})
        patch.setattr(claims, "_readings", {})
        for kept in (outcome_rows._writing, pulling._counting):
            kept.cache_clear()
        yield
    for kept in (outcome_rows._writing, pulling._counting):
        kept.cache_clear()


def outcome(agent: FakeAgent) -> dict[str, object]:
    send(agent, range(3))
    pulling.sweep()
    analyse(agent)
    send(agent, range(3, 5))
    analyse(agent)
    return results(agent)


def test_another_django_gives_the_same_results(token: str) -> None:
    with django_of({(5, 2)}):
        compiled = outcome(runner(token))
    with django_of(set()):
        ordinary = outcome(runner(token, machine="machine-2"))
    assert compiled["ledger"]
    assert ordinary == compiled


def test_rows_and_models_are_the_same_either_way(agent: FakeAgent) -> None:
    assert agent.put(agent.segment(0)).status_code == 200
    before = datetime(2100, 1, 1, tzinfo=UTC)
    slot = Slot("before", DateTimeField())
    own = Run.objects.select_related("job", "workspace").filter(created_at__lt=slot)
    found = []
    for versions in ({(5, 2)}, set()):
        with django_of(versions):
            values = Values(lambda: own.values_list("pk", "created_at", "summary"))
            [values_row] = values(before=before)
            with CaptureQueriesContext(
                connection,
            ) as queries:
                [model] = Models(lambda: own)(before=before)
                found.append((tuple(values_row), model, model.job.name, model.workspace.name))
            assert len(queries) == 1
            assert Models(lambda: own)(before=datetime(2000, 1, 1, tzinfo=UTC)) == []
    assert found[0] == found[1]
