"""Rows that are written as one document are read as they were made."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from math import inf
from typing import Any
from uuid import uuid4

import pytest

from webapp.accounts.models import Workspace
from webapp.analysis.models import Judgement, LedgerEntry
from webapp.database import documents
from webapp.runs.models import Attempt, Job, Node, Run

ODD = "a \"b\" \\ 'c'\nü {}, %s"


@dataclass(frozen=True)
class Made:
    run: Run
    node: Node


@pytest.fixture
def made(workspace: Workspace) -> Made:
    job = Job.objects.create(workspace=workspace, name="job")
    run = Run.objects.create(id=uuid4(), workspace=workspace, job=job, number=1)
    attempt = Attempt.objects.create(run=run, number=1)
    return Made(run, Node.objects.create(attempt=attempt, machine_id="m"))


def judgement(run: Run, rule: str, **more: Any) -> Judgement:
    columns = {"rule_version": 1, "values": {"a": 0.1}, "numbers": {"n": [1e-9, None, True, ODD]}}
    return Judgement(run=run, rule=rule, state="fired", severity="high", **columns | more)


def test_each_column_keeps_its_value(made: Made) -> None:
    rows = [
        judgement(
            made.run,
            "one",
            summary=ODD,
            waste_seconds_low=0.1 + 0.2,
            waste_seconds_high=inf,
            waste_usd_low=Decimal("0.000000001"),
            waste_usd_high=None,
            is_provisional=False,
            first_fired_at=datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
        ),
        judgement(made.run, "two"),
    ]
    documents.save(rows, unique=("run", "rule"))
    names = [f.attname for f in Judgement._meta.concrete_fields if f.name != "id"]
    read = Judgement.objects.order_by("rule")
    for row, known in zip(rows, read, strict=True):
        assert {n: getattr(row, n) for n in names} == {n: getattr(known, n) for n in names}


def test_known_rows_are_written_again(made: Made) -> None:
    documents.save([judgement(made.run, "one", summary="old")], unique=("run", "rule"))
    known = Judgement.objects.get()
    new = [judgement(made.run, name, summary="new") for name in ("one", "two")]
    documents.save(new, unique=("run", "rule"))
    assert set(Judgement.objects.values_list("rule", "summary")) == {("one", "new"), ("two", "new")}
    assert Judgement.objects.get(rule="one").pk == known.pk


def test_without_a_key_all_rows_are_new(made: Made) -> None:
    for _ in range(2):
        row = LedgerEntry(run=made.run, node=made.node, gpu=None, label="idle", microseconds=7)
        documents.save([row])
    assert (
        list(LedgerEntry.objects.values_list("gpu", "microseconds", "usd")) == [(None, 7, None)] * 2
    )


def test_no_rows_need_no_statement(db: None, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        documents.save([])
