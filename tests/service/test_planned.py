"""PostgreSQL parses and plans a repeated statement once a connection."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import connection

from tests.service.uploads import FakeAgent
from webapp import env
from webapp.analysis import queue
from webapp.analysis.models import Analysis
from webapp.runs.models import Run


@pytest.mark.django_db
def test_uploads_of_any_size_share_their_statements(agent: FakeAgent) -> None:
    for seq in range(12):
        assert agent.put(agent.segment(seq, start_ms=seq * 10**seq % 10**9)).status_code == 200
    if connection.vendor != "postgresql":
        return
    planned = _planned()
    assert sum("INSERT INTO runs_segment" in each for each in planned) == 1
    assert sum("UPDATE runs_session SET last_ms" in each for each in planned) == 1


@pytest.mark.django_db
def test_a_query_with_other_values_is_the_same_statement() -> None:
    for number in range(12):
        assert not Run.objects.filter(number=number, owner=f"ada-{number}").exists()
    if connection.vendor == "postgresql":
        assert sum('"runs_run"."owner" = ' in each for each in _planned()) == 1


@pytest.mark.django_db
def test_claims_are_never_planned_for_their_values(agent: FakeAgent) -> None:
    """Planning one takes several times as long as claiming a row."""
    assert agent.put(agent.segment(0)).status_code == 200
    for _ in range(12):
        Analysis.objects.update(leased_until=None, lease=None)
        assert queue.claim(agent.run_id)
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT generic_plans > 0, custom_plans FROM pg_prepared_statements"
            """ WHERE statement LIKE 'UPDATE "analysis_analysis" SET "kills"%'"""
        )
        assert cursor.fetchall() == [(True, 0)]


def _planned() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement, prepare_time FROM pg_prepared_statements")
        return [" ".join(statement.split()) for statement, _ in cursor.fetchall()]


@pytest.mark.parametrize(
    ("query", "threshold"),
    [("", 5), ("?prepare_threshold=none", None), ("?prepare_threshold=1", 1)],
)
def test_a_pooler_can_do_without(
    monkeypatch: pytest.MonkeyPatch, query: str, threshold: int | None
) -> None:
    monkeypatch.setenv("DATABASE_URL", f"postgresql://ada@db:5432/trimtab{query}")
    found = env.database("DATABASE_URL", Path("/nowhere"))
    assert found["OPTIONS"] == {"server_side_binding": True, "prepare_threshold": threshold}
