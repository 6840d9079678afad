"""`trimtab import prometheus+URL` and `mlflow+URL`: fetched by the command, converted by the
service."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import httpx
import pytest
from trimtab.cli import main
from trimtab.fetching import prometheus as ranges

from tests.imports.metrics_server import Prometheus
from tests.mlflow.client import MlflowClient
from tests.mlflow.pythons import VARIABLES, python_with
from tests.running_service import free_port, wait_until
from webapp.accounts.models import Token, Workspace
from webapp.analysis import tasks as analyses
from webapp.imports import tasks
from webapp.imports.models import Import
from webapp.runs.models import Node, Run

pytestmark = pytest.mark.django_db
BEGIN = 1_767_225_600
"""2026-01-01 00:00 UTC."""


@pytest.fixture
def workspace(live_server, settings, monkeypatch, tmp_path) -> Workspace:
    """Return a workspace, with the agent's settings in the environment."""
    settings.OBJECTS_URL = str(tmp_path / "objects")
    workspace = Workspace.objects.create(name="Ours")
    monkeypatch.setenv("TRIMTAB_URL", live_server.url)
    monkeypatch.setenv("TRIMTAB_TOKEN", Token.make(workspace, "agent", [Token.INGEST])[1])
    monkeypatch.setenv("TRIMTAB_STATE_DIR", str(tmp_path / "state"))
    for name in ("PROMETHEUS_TOKEN", "MLFLOW_TRACKING_TOKEN", "TRIMTAB_JOB"):
        monkeypatch.delenv(name, raising=False)
    return workspace


@pytest.fixture
def prometheus() -> Iterator[Prometheus]:
    server = Prometheus(BEGIN)
    yield server
    server.close()


def work() -> Run:
    """Do what a worker does with the newest import."""
    row = Import.objects.latest("pk")
    tasks.convert(row.artefact_id)
    row.refresh_from_db()
    assert (row.error, row.done) == ("", row.wanted)
    run = row.artefact.run
    run.refresh_from_db()
    return run


# Prometheus


def test_a_day_of_prometheus_is_asked_in_pieces_and_becomes_a_run(workspace, prometheus, capsys):
    words = ["--start", "2026-01-01T00:00:00Z", "--end", "2026-01-02T01:00:00+01:00"]
    words += ["--step", "5s", "--job", "resnet", "--instance-type", "p3.8xlarge"]
    assert main(["import", f"prometheus+{prometheus.url}", *words]) == 0
    assert "fetched 9 answers from 127.0.0.1" in capsys.readouterr().out
    points = 0
    for asked in prometheus.asked:
        start, end = float(asked["start"]), float(asked["end"])
        assert asked["query"] == '{__name__=~"DCGM_FI_.+"}'
        points += round((end - start) / 5) + 1
    assert points == 86_400 // 5 + 1, "none twice, none left out"
    run = work()
    assert Import.objects.get().result["records"] == {"samples": 2 * points}
    assert Import.objects.get().result["skipped"] == []
    assert (run.job.name, run.duration.total_seconds()) == ("resnet", 86_400)
    assert len(Node.objects.get().gpus) == 4, "as the machine has"
    assert main(["import", f"prometheus+{prometheus.url}", *words]) == 0
    work()
    assert Run.objects.count() == 1


def test_an_answer_that_is_too_large_is_asked_in_halves(workspace, prometheus, monkeypatch):
    monkeypatch.setattr(ranges, "_MOST_BYTES", 20_000)
    words = ["--start", str(BEGIN), "--end", str(BEGIN + 2000), "--step", "1"]
    assert main(["import", f"prometheus+{prometheus.url}/", *words]) == 0
    work()
    assert Import.objects.get().result["records"] == {"samples": 2 * 2001}
    monkeypatch.setattr(ranges, "_MOST_BYTES", 10)
    assert main(["import", f"prometheus+{prometheus.url}", *words]) == 1


def test_its_token_comes_from_a_variable_and_goes_nowhere_else(
    workspace, prometheus, monkeypatch, capsys
):
    prometheus.header = "Bearer secret-of-prometheus"
    words = ["--start", str(BEGIN), "--end", str(BEGIN + 60)]
    address = f"prometheus+{prometheus.url}"
    assert main(["import", address, *words]) == 1
    assert "answers 401" in (said := capsys.readouterr().err)
    assert "Set PROMETHEUS_TOKEN" in said
    monkeypatch.setenv("PROMETHEUS_TOKEN", "secret-of-prometheus")
    assert main(["import", address, *words]) == 0
    other = Prometheus(BEGIN)
    prometheus.redirect = other.url
    assert main(["import", address, *words]) == 1
    said = capsys.readouterr()
    assert "secret-of-prometheus" not in said.out + said.err
    assert other.headers == []
    other.close()
    with_password = address.replace("://", "://ada:secret@")
    assert main(["import", with_password, *words]) == 1
    assert "PROMETHEUS_TOKEN" in (said := capsys.readouterr().err)
    assert "secret@" not in said


def test_a_user_and_a_password_are_basic_credentials(workspace, prometheus, monkeypatch):
    prometheus.header = "Basic YWRhOnNlY3JldA=="
    monkeypatch.setenv("PROMETHEUS_USERNAME", "ada")
    monkeypatch.setenv("PROMETHEUS_PASSWORD", "secret")
    words = ["--start", str(BEGIN), "--end", str(BEGIN + 60)]
    assert main(["import", f"prometheus+{prometheus.url}", *words]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--start says from when"),
        (["--start", "2026-01-01T00:00:00"], "names no time zone"),
        (["--start", "yesterday"], "yesterday is not a time"),
        (["--start", "1767225600", "--end", "1767225600"], "--end is not after --start"),
        (["--start", "1767225600", "--step", "0"], "0 is not a step"),
        (["--start", "1767225600", "--step", "1y"], "1y is not a step"),
        (["--start", "nan"], "nan is not a time"),
    ],
)
def test_wrong_options_are_said(workspace, prometheus, words, said, capsys):
    assert main(["import", f"prometheus+{prometheus.url}", *words]) == 2
    assert said in capsys.readouterr().err
    assert prometheus.asked == []


def test_no_series_and_no_prometheus_are_said(workspace, prometheus, capsys, monkeypatch):
    monkeypatch.setattr("trimtab.fetching.server._PAUSES_SECONDS", (0.0,))
    words = ["--start", "2025-01-01T00:00:00Z", "--end", "2025-01-02T00:00:00Z"]
    assert main(["import", f"prometheus+{prometheus.url}", *words]) == 1
    assert "has no series for" in capsys.readouterr().err
    assert main(["import", f"prometheus+{prometheus.url}/elsewhere/x?", *words]) == 1
    assert main(["import", "prometheus+http://127.0.0.1:9", *words]) == 1
    assert "127.0.0.1 doesn't answer" in capsys.readouterr().err
    assert not Import.objects.exists()


# MLflow


def test_a_run_of_mlflow_is_the_run_that_its_program_would_have_logged(
    workspace, live_server, client, monkeypatch
):
    theirs = Workspace.objects.create(name="Theirs")
    token = Token.make(theirs, "all", [Token.INGEST, Token.READ])[1]
    mlflow = MlflowClient(client, token)
    said = {"team": "vision", "trimtab.instance_type": "g5.xlarge", "trimtab.provider": "aws"}
    run_id = mlflow.start(mlflow.experiment("digits"), **said)
    for tick in range(31):
        mlflow.log(
            run_id,
            ("system/cpu_utilization_percentage", 40.5, tick * 10, tick),
            ("system/network_receive_megabytes", 1.5 * tick, tick * 10, tick),
            ("system/gpu_0_utilization_percentage", 90.0, tick * 10, tick),
            ("loss", 1 / (tick + 1), tick * 10 + 1, tick),
            ("val_loss", "NaN" if tick == 3 else 1.0, tick * 10 + 2, tick),
        )
    mlflow.post("runs/log-parameter", run_id=run_id, key="lr", value="0.01")
    mlflow.end(run_id, 305)
    logged = mlflow.judged(run_id)
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", token)
    address = f"mlflow+{live_server.url}/#/experiments/1/runs/{run_id}/metrics"
    assert main(["import", address]) == 0
    run = work()
    analyses.evaluate(str(run.pk))
    run.refresh_from_db()
    assert run.pk != logged.pk
    for name in ("state", "parameters", "tags", "metrics"):
        assert getattr(run, name) == getattr(logged, name), name
    assert (run.job.name, run.job.workspace) == ("digits", workspace)
    assert run.duration == logged.duration
    assert run.summary.cpu_busy_p95_pct == logged.summary.cpu_busy_p95_pct
    assert run.summary.gpu_busy_p95_pct == logged.summary.gpu_busy_p95_pct == 90
    assert run.metric_progress == logged.metric_progress
    states, before = (dict(each.judgements.values_list("rule", "state")) for each in (run, logged))
    assert states == before
    node = Node.objects.get(attempt__run=run)
    assert (node.instance_type, len(node.gpus)) == ("g5.xlarge", 1)
    counted = Import.objects.get().result
    assert counted["format"] == "MLflow run"
    assert counted["records"] == {"samples": 3 * 31, "metrics": 2 * 31}
    assert main(["import", address]) == 0
    assert work() == run


def test_what_is_no_run_of_mlflow_is_said(workspace, live_server, capsys):
    assert main(["import", f"mlflow+{live_server.url}/#/experiments/1"]) == 2
    assert "names no run" in capsys.readouterr().err
    assert main(["import", f"mlflow+{live_server.url}/#/experiments/1/runs/{'0' * 32}"]) == 1
    assert "Set MLFLOW_TRACKING_TOKEN" in capsys.readouterr().err


LOGGING = """
import json, sys, time
import mlflow
mlflow.set_tracking_uri(sys.argv[1])
mlflow.set_experiment("digits")
with mlflow.start_run(log_system_metrics=True) as run:
    mlflow.log_params({"lr": 0.01, "amp": True})
    mlflow.set_tag("team", "vision")
    for step in range(50):
        mlflow.log_metric("loss", 1 / (step + 1), step=step)
        time.sleep(0.05)
    time.sleep(3)
keys = [key for key in mlflow.get_run(run.info.run_id).data.metrics]
print("SAID " + json.dumps([run.info.run_id, run.info.experiment_id, keys]))
"""


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("requirement", VARIABLES)
def test_a_run_of_the_real_server_is_imported(workspace, tmp_path, requirement, monkeypatch):
    python, port = python_with(requirement), free_port()
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.5")
    url = f"http://127.0.0.1:{port}"
    words = [python, "-m", "mlflow", "server", "--port", str(port), "--workers", "1"]
    # The last release before 3 doesn't work with the SQLAlchemy of today.
    rows = {"mlflow": f"sqlite:///{tmp_path}/mlflow.db", "mlflow<3": f"file://{tmp_path}/runs"}
    words += ["--backend-store-uri", rows[requirement]]
    words += ["--artifacts-destination", str(tmp_path / "artifacts")]
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(words, cwd=tmp_path, stdout=log, stderr=log)
    try:
        wait_until(lambda: _is_up(url), 120, "MLflow's server", (tmp_path / "log").read_text)
        done = subprocess.run(
            [python, "-W", "ignore", "-c", LOGGING, url],
            capture_output=True, text=True, timeout=300, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        line = next(each for each in done.stdout.splitlines() if each.startswith("SAID "))
        run_id, experiment, keys = json.loads(line[5:])
        address = f"mlflow+{url}/#/experiments/{experiment}/runs/{run_id}"
        assert main(["import", address]) == 0
    finally:
        server.terminate()
        server.wait(30)
    run = work()
    analyses.evaluate(str(run.pk))
    run.refresh_from_db()
    assert (run.job.name, run.state, run.tags) == ("digits", "finished", {"team": "vision"})
    assert run.parameters == {"lr": 0.01, "amp": True}
    assert run.metrics == {"loss": pytest.approx(1 / 50)}
    counted = Import.objects.get().result
    assert counted["records"]["metrics"] == 50
    assert counted["skipped"] == []
    assert [key for key in keys if key.startswith("system/")]
    assert run.summary.cpu_busy_p95_pct is not None
    assert UUID(hex=run_id)


def _is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def test_a_folder_that_another_program_saved_so_is_damaged_without_harm(tmp_path):
    from advisor.importers.recording import NotImportableError
    from advisor.importers.stated_facts import StatedFacts
    from advisor.offline.importing import import_path

    folder = Path(tmp_path, "saved")
    (folder / "metrics").mkdir(parents=True)
    (folder / "mlflow-run.json").write_text('{"run": {"info": {"start_time": "x"}}}')
    with pytest.raises(NotImportableError, match="no start time and no metric"):
        import_path(folder, StatedFacts())
    far = [{"timestamp": 1_767_225_600_000, "value": 1.0}, {"timestamp": 4_000_000_000_000}]
    far += [{"timestamp": 4_000_000_000_000, "value": 2.0}, {"timestamp": True, "value": "x"}]
    (folder / "metrics" / "0.json").write_text(json.dumps({"key": "loss", "metrics": far}))
    tally = import_path(folder, StatedFacts()).imported.tally
    assert tally.records == {"metrics": 1}
    assert sum(each.count for each in tally.skipped.values()) == 3
