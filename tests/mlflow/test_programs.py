"""An unchanged MLflow program becomes a run, and reads again what it logged."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from uuid import UUID, uuid4

import pytest
from trimtab.wire import FIRST_ADDED

from tests.mlflow.client import MlflowClient, refusal
from tests.service.uploads import FakeAgent
from tests.web import factories
from webapp.accounts.models import Token
from webapp.analysis.tasks import evaluate
from webapp.runs.models import Node, Run, Segment, Session
from webapp.runs.progress import count_missing_segments, read_sessions

pytestmark = pytest.mark.django_db
OURS = {
    "trimtab.provider": "aws",
    "trimtab.service": "ec2",
    "trimtab.region": "us-east-1",
    "trimtab.instance_type": "c5.large",
}


def test_a_program_becomes_a_run_of_the_job_that_its_experiment_names(mlflow):
    run_id = mlflow.start(**{"mlflow.source.git.commit": "abc123", "team": "vision"})
    mlflow.post("runs/log-parameter", run_id=run_id, key="lr", value="0.01")
    params = [{"key": "amp", "value": "True"}, {"key": "model", "value": "resnet"}]
    assert (
        mlflow.log(run_id, ("loss", 0.5, 60, 0), ("loss", 0.25, 120, 1), params=params).json() == {}
    )
    assert mlflow.end(run_id, 180).json()["run_info"]["status"] == "FINISHED"
    run = mlflow.judged(run_id)
    assert (run.job.name, run.state, run.owner) == ("digits", "finished", "ada")
    assert run.duration.total_seconds() == 180
    assert run.parameters == {"lr": 0.01, "amp": True, "model": "resnet"}
    assert run.metrics == {"loss": 0.25}
    assert run.tags == {"team": "vision"}
    assert run.workload == {"entry_point": "train.py"}
    assert run.git["commit"] == "abc123"
    assert count_missing_segments(read_sessions(run)) == 0


def test_what_was_logged_is_read_again_as_it_was(mlflow):
    run_id = mlflow.start()
    points = [("loss", 1.0, 1, 0), ("loss", "NaN", 2, 1), ("loss", "Infinity", 3, 2)]
    mlflow.log(run_id, *points, ("accuracy", 0.125, 3, 2))
    mlflow.log(run_id, ("loss", 0.0625, 20_000, 3))
    long_ago = {"key": "old", "value": 7, "timestamp": 1000, "step": -1}
    mlflow.post("runs/log-metric", run_id=run_id, **long_ago)
    mlflow.post("runs/set-tag", run_id=run_id, key="note", value="a" * 500)
    at = mlflow.at
    assert mlflow.history(run_id, "loss") == [
        (1.0, at(1), 0),
        ("NaN", at(2), 1),
        ("Infinity", at(3), 2),
        (0.0625, at(20_000), 3),
    ]
    assert mlflow.history(run_id, "old") == [(7.0, 1000, -1)]
    assert mlflow.history(run_id, "no such metric") == []
    assert mlflow.metrics(run_id) == {"accuracy": 0.125, "loss": 0.0625, "old": 7.0}
    tags = {tag["key"]: tag["value"] for tag in mlflow.run(run_id)["data"]["tags"]}
    assert tags["mlflow.runName"] == "first"
    assert tags["note"] == "a" * 500


def test_a_metric_s_latest_value_is_that_of_its_last_step(mlflow):
    run_id = mlflow.start()
    mlflow.log(run_id, ("loss", 3.0, 9, 5), ("loss", 9.0, 10, 4), ("loss", 2.0, 1, 5))
    assert mlflow.metrics(run_id) == {"loss": 3.0}


def test_a_request_that_is_repeated_logs_nothing_twice(mlflow):
    run_id = mlflow.start()
    for _ in range(3):
        assert mlflow.log(run_id, ("loss", 0.5, 60, 0)).status_code == 200
        mlflow.end(run_id, 90)
    assert Segment.objects.count() == 3
    assert len(mlflow.history(run_id, "loss")) == 1
    assert count_missing_segments(read_sessions(mlflow.judged(run_id))) == 0


def test_the_same_point_in_another_request_is_one_value(mlflow):
    """Clients log a run's metrics again for each model that they save, as with LightGBM."""
    run_id = mlflow.start()
    mlflow.log(run_id, ("loss", 0.5, 60, 0), ("loss", 0.25, 61, 1))
    mlflow.log(run_id, ("loss", 0.25, 61, 1), ("loss", 0.125, 61, 1), ("best", 1.0, 61, 1))
    values = [value for value, _, _ in mlflow.history(run_id, "loss")]
    assert sorted(values) == [0.125, 0.25, 0.5]


def test_a_parameter_keeps_its_value(mlflow):
    run_id = mlflow.start()
    for _ in range(2):
        again = mlflow.post("runs/log-parameter", run_id=run_id, key="lr", value="1")
        assert again.status_code == 200
    other = mlflow.post("runs/log-parameter", run_id=run_id, key="lr", value="2")
    assert refusal(other) == (400, "INVALID_PARAMETER_VALUE")
    assert Run.objects.get().parameters == {"lr": 1}


@pytest.mark.parametrize(
    ("status", "state"), [("FINISHED", "finished"), ("FAILED", "failed"), ("KILLED", "stopped")]
)
def test_a_run_ends_as_the_program_says(mlflow, status, state):
    run_id = mlflow.start()
    mlflow.end(run_id, 60, status)
    assert Run.objects.get().state == state
    # What is still being sent then counts, and begins nothing.
    mlflow.log(run_id, ("loss", 1.0, 59, 0))
    assert Run.objects.get().state == state
    assert count_missing_segments(read_sessions(Run.objects.get())) == 0


def test_a_run_that_ended_goes_on_when_it_is_started_again(mlflow):
    run_id = mlflow.start()
    mlflow.end(run_id, 60)
    mlflow.post("runs/update", run_id=run_id, status="RUNNING")
    assert Run.objects.get().state == "running"
    assert Session.objects.count() == 2
    mlflow.post("runs/log-metric", run_id=run_id, key="loss", value=1, timestamp=mlflow.at(3601))
    mlflow.end(run_id, 3660)
    assert Run.objects.get().state == "finished"
    assert count_missing_segments(read_sessions(Run.objects.get())) == 0


def test_system_metrics_are_series_that_rules_judge(mlflow):
    run_id = mlflow.start()
    for tick in range(31):
        mlflow.log(
            run_id,
            ("system/cpu_utilization_percentage", 40.5, tick * 10, tick),
            ("system/system_memory_usage_megabytes", 2000.0, tick * 10, tick),
            ("system/network_receive_megabytes", 1.5 * tick, tick * 10, tick),
            ("system/gpu_0_utilization_percentage", 90.0, tick * 10, tick),
            ("system/gpu_1_utilization_percentage", "NaN", tick * 10, tick),
            ("system/gpu_1_power_usage_watts", 250.0, tick * 10, tick),
        )
    mlflow.end(run_id, 305)
    run = mlflow.judged(run_id)
    assert run.summary.cpu_busy_p95_pct == pytest.approx(40.5)
    assert run.summary.memory_p99_bytes == 2_000_000_000
    assert run.summary.gpu_busy_p95_pct == 90
    assert run.summary.unsampled_seconds < 30
    assert run.metrics == {}
    assert len(Node.objects.get().gpus) == 2
    name = "system/network_receive_megabytes"
    assert mlflow.history(run_id, name)[-1] == (45.0, mlflow.at(300), 30)
    # What isn't a number wasn't measured.
    assert mlflow.history(run_id, "system/gpu_1_utilization_percentage") == []


def test_each_named_node_is_a_machine(mlflow):
    run_id = mlflow.start(**OURS)
    for node in ("n0", "n1"):
        mlflow.log(run_id, (f"system/{node}/cpu_utilization_percentage", 10.0, 10, 0))
    mlflow.end(run_id, 60)
    assert mlflow.judged(run_id).state == "finished"
    first, second = Node.objects.order_by("number")
    assert second.machine_id == f"{first.machine_id}/n1"
    assert mlflow.history(run_id, "system/n1/cpu_utilization_percentage")[0][0] == 10.0


def test_tags_name_the_machine_and_its_price(mlflow, prices):
    run_id = mlflow.start(**OURS)
    mlflow.end(run_id, 3600)
    run = mlflow.judged(run_id)
    assert run.cost_usd == Decimal("0.085")
    later = mlflow.start()
    for key, value in OURS.items():
        mlflow.post("runs/set-tag", run_id=later, key=key, value=value)
    mlflow.end(later, 1800)
    assert mlflow.judged(later).cost_usd == Decimal("0.0425")


def test_without_a_machine_there_is_no_price_and_the_page_asks(mlflow, prices, workspace, client):
    run_id = mlflow.start()
    mlflow.end(run_id, 3600)
    run = mlflow.judged(run_id)
    assert run.cost_usd is None
    client.force_login(factories.member(workspace))
    assert "On which machine did this run?" in client.get(f"/runs/{run.pk}/").content.decode()
    said = {"instance_type": "c5.large", "region": "us-east-1", "purchase_option": "on_demand"}
    client.post(f"/runs/{run.pk}/machine/", said)
    assert mlflow.judged(run_id).cost_usd == Decimal("0.085")
    assert "On which machine" not in client.get(f"/runs/{run.pk}/").content.decode()


def test_nested_runs_share_the_machine_of_their_parent(mlflow, prices):
    parent = mlflow.start(**OURS)
    children = [mlflow.start(parent=parent) for _ in range(2)]
    for run_id in (*children, parent):
        mlflow.end(run_id, 3600)
    costs = [mlflow.judged(run_id).cost_usd for run_id in (parent, *children)]
    assert sum(costs) == pytest.approx(Decimal("0.085"), abs=Decimal("1e-8"))
    assert max(costs) - min(costs) < Decimal("1e-8")
    assert mlflow.judged(children[0]).workload["part"] == "of another run"


def context(agent: FakeAgent) -> dict[str, str]:
    """Return what `trimtab run` puts into MLFLOW_RUN_CONTEXT."""
    said = {
        "run": str(agent.run_id),
        "job": agent.job,
        "attempt": agent.attempt,
        "machine": agent.machine_id,
        "session": str(agent.session_id),
        "boot": "boot-1",
        "started_at_ns": agent.started_at_ns,
        "started_mono_ns": 5_000_000_000,
    }
    return {"trimtab.agent": json.dumps(said)}


@pytest.mark.parametrize("is_first", [True, False])
def test_a_program_inside_trimtab_run_logs_to_the_agent_s_run(mlflow, prices, is_first):
    """The program or the agent may arrive first."""
    agent = FakeAgent(mlflow.client, mlflow.token)
    mlflow.began_ms = agent.started_at_ns // 10**6 + 5
    if not is_first:
        agent.declare()
    run_id = mlflow.start(mlflow.experiment("of mlflow"), **context(agent))
    assert UUID(hex=run_id) == agent.run_id
    mlflow.log(run_id, ("loss", 0.5, 3, 0), ("system/cpu_utilization_percentage", 99.0, 3, 0))
    inner = mlflow.start(parent=run_id, **context(agent))
    agent.declare()
    mlflow.end(inner, 6)
    mlflow.end(run_id, 15)
    for segment in agent.segments(2):
        assert agent.put(segment).status_code == 200
    run = mlflow.judged(run_id)
    assert (run.state, run.job.key, run.metrics) == ("finished", agent.job, {"loss": 0.5})
    assert run.summary.cpu_busy_p95_pct < 50
    assert count_missing_segments(read_sessions(run)) == 0
    node = Node.objects.get(attempt__run=run)
    assert node.sessions.get().pk == agent.session_id
    assert node.sessions.get().segments.filter(seq__gte=FIRST_ADDED).count() == 1
    # The second run of the program is one of its own, on the same machine.
    other = mlflow.judged(inner)
    evaluate(run_id)
    run.refresh_from_db()
    assert other.job == run.job
    assert run.cost_usd + other.cost_usd == pytest.approx(Decimal("0.085") * 20 / 3600)


def test_a_program_that_is_started_again_goes_on_with_the_agent_s_run(mlflow):
    agent = FakeAgent(mlflow.client, mlflow.token)
    first = mlflow.start(**context(agent))
    agent.attempt, agent.session_id = 1, uuid4()
    assert mlflow.start(**context(agent)) == first
    mlflow.log(first, ("loss", 0.5, 60, 0))
    assert Session.objects.get().pk == agent.session_id


def test_what_is_no_agent_s_session_begins_a_run_of_its_own(mlflow, stranger):
    agent = FakeAgent(stranger.client, stranger.token)
    agent.declare()
    said = json.loads(context(agent)["trimtab.agent"])
    for wrong in ("nonsense", "[]", json.dumps(said | {"attempt": -1}), json.dumps({"run": 1})):
        assert UUID(hex=mlflow.start(**{"trimtab.agent": wrong})) != agent.run_id
    answer = mlflow.post(
        "runs/create", tags=[{"key": k, "value": v} for k, v in context(agent).items()]
    )
    assert refusal(answer) == (404, "RESOURCE_DOES_NOT_EXIST")


@pytest.mark.parametrize("form", ["{0}:", "any:{0}", ":{0}"])
def test_the_token_may_be_sent_as_basic_credentials(mlflow, form):
    credentials = base64.b64encode(form.format(mlflow.token).encode()).decode()
    headers = {"Authorization": f"Basic {credentials}"}
    url = "/api/2.0/mlflow/experiments/get?experiment_id=0"
    assert mlflow.client.get(url, headers=headers).status_code == 200


def test_the_program_that_names_no_experiment_has_the_default_one(mlflow):
    run_id = mlflow.start("0")
    assert mlflow.run(run_id)["info"]["experiment_id"] == "0"
    assert Run.objects.get().job.name == "Default"
    found = mlflow.post("runs/search", experiment_ids=["0"], max_results=10).json()["runs"]
    assert [each["info"]["run_id"] for each in found] == [run_id]


def test_a_token_that_may_only_upload_reads_its_own_runs(mlflow, workspace):
    theirs = mlflow.start()
    own = MlflowClient(mlflow.client, Token.make(workspace, "agent", ["ingest"])[1])
    run_id = own.start()
    found = own.post("runs/search", experiment_ids=[own.experiment()]).json()["runs"]
    assert [each["info"]["run_id"] for each in found] == [run_id]
    assert refusal(own.get("runs/get", run_id=theirs)) == (404, "RESOURCE_DOES_NOT_EXIST")
    reader = MlflowClient(mlflow.client, Token.make(workspace, "reader", ["read"])[1])
    assert reader.run(theirs)["info"]["status"] == "RUNNING"
    assert refusal(reader.log(theirs, ("loss", 1.0, 1, 0))) == (403, "PERMISSION_DENIED")
