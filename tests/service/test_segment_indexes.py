"""A service has a row for every segment. What is asked often reads those that matter only."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from webapp.analysis.samples import compaction
from webapp.quotas import storage
from webapp.retention import deletion
from webapp.runs.models import Segment


@pytest.fixture
def plans(db):
    """Return the plan of each statement that a call makes about segments."""

    def of(call) -> list[str]:  # type: ignore[no-untyped-def]
        asked: list[tuple[str, object]] = []

        def noted(execute, sql, parameters, many, context):  # type: ignore[no-untyped-def]
            if sql.startswith("SELECT") and "runs_segment" in sql:
                asked.append((sql, parameters))
            return execute(sql, parameters, many, context)

        with connection.execute_wrapper(noted):
            call()
        explain = "EXPLAIN QUERY PLAN " if connection.vendor == "sqlite" else "EXPLAIN "
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute("SET LOCAL enable_seqscan = off")
            found = []
            for sql, parameters in asked:
                cursor.execute(explain + sql, parameters)
                found.append("\n".join(str(row) for row in cursor.fetchall()))
        return found

    return of


CALLS = {
    "replaced objects": lambda: compaction.delete_replaced(timezone.now()),
    "what is due to be compacted": lambda: compaction.due_nodes(timezone.now()),
    "what each workspace stores": lambda: storage.count(timezone.now()),
    "what has expired": lambda: deletion.plan_deletions(timezone.now() + timedelta(days=400)),
}


def reads_all(line: str) -> bool:
    """Return a line of a plan of SQLite or PostgreSQL."""
    is_scan = "SCAN runs_segment" in line or "Seq Scan on runs_segment" in line
    return is_scan and "hot_segments" not in line and "segments_with_object" not in line


@pytest.mark.parametrize("name", CALLS)
def test_no_statement_reads_all_segments(agent, plans, name):
    agent.put(agent.segment(0, last=True))
    Segment.objects.update(received_at=timezone.now() - timedelta(hours=3))
    found = plans(CALLS[name])
    assert found
    for plan in found:
        assert not [line for line in plan.splitlines() if reads_all(line)], plan
