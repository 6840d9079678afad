"""Tables of a run as CSV, JSON and Parquet, and as columns in a notebook."""

from __future__ import annotations

import csv
import io
from datetime import datetime, timedelta
from decimal import Decimal

import pandas as pd
import pyarrow.parquet as pq
import pytest
import trimtab
from django.test import Client
from trimtab.loading import LoadError
from trimtab.wire import Event

from tests.html import read_page
from tests.service.uploads import FakeAgent
from webapp.accounts.models import Token
from webapp.analysis.tasks import evaluate
from webapp.api import export_tables
from webapp.prices.models import Price
from webapp.runs.models import Run

TABLES = sorted(export_tables.TABLES)


@pytest.fixture
def agent(agent, workspace) -> FakeAgent:
    """Return an agent that has sent a run of 30 s, which is judged."""
    Price.objects.create(
        provider="aws",
        service="ec2",
        region="us-east-1",
        instance_type="c5.large",
        valid_from=datetime.fromisoformat("2024-01-01T00:00:00+00:00"),
        usd_per_hour=Decimal("0.085"),
        source="AWS price list",
    )
    agent.token = Token.make(workspace, "all", ["ingest", "read"])[1]
    agent.declare()
    for segment in agent.segments(3):
        data = {"rank": 0, "name": "=loss", "value": 0.5, "step": segment.seq}
        segment.events.append(Event(2_000, "metric", data))
        segment.events.append(Event(3_000, "epoch", {"rank": 0, "number": segment.seq}))
        agent.put(segment)
    evaluate(str(agent.run_id))
    return agent


def export(agent: FakeAgent, table: str = "series", form: str = "json", **query: object):  # type: ignore[no-untyped-def]
    said = {"run": str(agent.run_id), "table": table, "format": form, **query}
    headers = {"Authorization": f"Bearer {agent.token}"}
    return agent.client.get("/api/v1/export", said, headers=headers)


@pytest.mark.django_db
@pytest.mark.parametrize("table", TABLES)
def test_each_table_is_the_same_in_each_form(agent, table):
    names = {"names": "host.cpu_busy_pct"} if table == "samples" else {}
    columns = export(agent, table, **names).json()["columns"]
    assert columns
    assert len({len(values) for values in columns.values()}) == 1
    lines = list(csv.reader(io.StringIO(read_page(export(agent, table, "csv", **names)))))
    stored = pq.read_table(io.BytesIO(export(agent, table, "parquet", **names).content))
    assert lines[0] == stored.column_names == list(columns)
    rows = len(next(iter(columns.values())))
    assert len(lines) - 1 == len(stored) == rows
    for name, values in columns.items():
        known = stored[name].to_pylist()
        if name == "time":
            known = [each.isoformat() for each in known]
        assert known == values


@pytest.mark.django_db
def test_series_are_columns_of_means(agent):
    columns = export(agent, buckets=3).json()["columns"]
    assert columns["seconds"] == [0, 10, 20]
    assert set(columns["node"]) == {"node-1"}
    assert columns["host.memory_used_bytes"] == [512 * 2**20] * 3
    assert columns["host.cpu_busy_pct"][0] == pytest.approx(42.7, abs=0.5)
    # A counter is its rate.
    assert columns["disk.read_bytes"] == pytest.approx([2000] * 3, rel=0.05)
    one = export(agent, buckets=3, names="host.cpu_busy_pct", **{"from": 10, "to": 20})
    part = one.json()["columns"]
    assert list(part) == ["time", "seconds", "node", "host.cpu_busy_pct"]
    assert min(part["seconds"]) == 10


@pytest.mark.django_db
def test_samples_steps_and_metrics_come_one_by_one(agent):
    samples = export(agent, "samples", names="host.cpu_busy_pct").json()["columns"]
    assert len(samples["value"]) == 60
    assert samples["seconds"][:3] == pytest.approx([0, 0.5, 1], abs=0.001)
    steps = export(agent, "steps").json()["columns"]
    assert len(steps["rank"]) == 150
    assert steps["duration_seconds"][0] == 0.2
    assert steps["data_wait_seconds"][0] == 0.12
    assert steps["samples"][0] == 64
    metrics = export(agent, "metrics").json()["columns"]
    assert metrics["seconds"] == pytest.approx([2, 12, 22], abs=0.001)
    assert metrics["step"] == [0, 1, 2]
    assert "'=loss" in read_page(export(agent, "metrics", "csv"))


@pytest.mark.django_db
def test_costs_add_up_exactly(agent):
    for table in ("cost", "ledger"):
        amounts = export(agent, table).json()["columns"]["usd"]
        assert sum(map(Decimal, amounts)) == Run.objects.get().cost_usd


@pytest.mark.django_db
def test_a_run_without_samples_has_empty_tables(client, workspace, token):
    agent = FakeAgent(client, token)
    agent.declare()
    for table in TABLES:
        columns = export(agent, table, names="host.cpu_busy_pct").json()["columns"]
        assert not any(columns.values())


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"table": "users"}, "query.table"),
        ({"form": "xml"}, "query.format"),
        ({"buckets": 0}, "query.buckets"),
        ({"from": -1}, "query.from"),
        ({"table": "samples"}, "names"),
    ],
)
def test_what_is_no_table_is_refused_by_name(agent, query, field):
    answer = export(agent, **query)
    assert (answer.status_code, answer.json()["field"]) == (422, field)


@pytest.mark.django_db
def test_too_much_at_once_is_refused_with_the_way_to_ask_for_less(agent, monkeypatch):
    monkeypatch.setattr(export_tables, "MOST_CELLS", 100)
    for table in ("series", "samples", "steps"):
        answer = export(agent, table, names="host.cpu_busy_pct")
        assert answer.status_code == 422
        assert "part of the run" in answer.json()["fix"]


@pytest.mark.django_db(transaction=True)
def test_a_notebook_loads_a_table_by_the_run_s_name(agent, live_server):
    asked = {"url": live_server.url, "token": agent.token}
    frame = pd.DataFrame(trimtab.load("digits#1", buckets=10, **asked))
    assert len(frame) == 10
    assert frame["time"].dt.tz is not None
    assert frame["time"].diff().dropna().eq(timedelta(seconds=3)).all()
    assert frame["host.cpu_busy_pct"].between(40, 47).all()
    steps = pd.DataFrame(trimtab.load(str(agent.run_id), "steps", start=10, **asked))
    assert len(steps) == 100
    for run, table in [("digits#9", "series"), ("digits#1", "users")]:
        with pytest.raises(LoadError):
            trimtab.load(run, table, **asked)
    with pytest.raises(LoadError, match="TRIMTAB_URL"):
        trimtab.load("digits#1", url="", token="")


@pytest.mark.django_db
def test_another_workspace_has_no_such_run(agent, stranger):
    stranger.run_id = agent.run_id
    assert export(stranger).status_code == 404
    assert export(FakeAgent(Client(), "tt_no", run_id=agent.run_id)).status_code == 401
