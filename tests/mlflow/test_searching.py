"""Searches of runs, experiments and models."""

from __future__ import annotations

import pytest

from tests.mlflow.client import refusal
from webapp.accounts.models import Token, Workspace
from webapp.mlflow_api import effort, searching

pytestmark = pytest.mark.django_db


@pytest.fixture
def runs(mlflow):
    """Return three runs, a minute apart: a, b and c."""
    names = {}
    for number, name in enumerate("abc"):
        mlflow.began_ms += 60_000
        run_id = mlflow.start(team="vision" if number else "text", **{"mlflow.runName": name})
        mlflow.log(
            run_id, ("loss", 0.1 * number, 1, 0), params=[{"key": "lr", "value": f"0.{number}"}]
        )
        names[run_id] = name
    mlflow.log(run_id, ("only.here", 5.0, 1, 0))
    mlflow.end(run_id, 60)
    return names


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "cba"),
        ("metrics.loss < 0.15", "ba"),
        ("metric.loss >= 0.1 and params.lr = '0.2'", "c"),
        ("metrics.`only.here` = 5", "c"),
        ('metrics."only.here" != 5', ""),
        ("tags.team = 'vision' AND attributes.status = 'RUNNING'", "b"),
        ('tag.team != "vision"', "a"),
        ("status = 'FINISHED'", "c"),
        ("attributes.run_name LIKE 'A%'", ""),
        ("attributes.`run name` ILIKE 'A%'", "a"),
        ("params.lr IN ('0.0', '0.2')", "ca"),
        ("params.lr not in ('0.0', '0.2')", "b"),
        ("metrics.`only.here` IS NULL", "ba"),
        ("tags.team is not null", "cba"),
        ("tags.none = 'x'", ""),
        ("tags.`mlflow.user` = 'ada'", "cba"),
    ],
)
def test_a_filter_finds_what_it_says(mlflow, runs, text, found):
    said = {"experiment_ids": [mlflow.experiment()], "filter": text, "max_results": 100}
    answer = mlflow.post("runs/search", **said).json()
    assert "".join(runs[each["info"]["run_id"]] for each in answer["runs"]) == found


@pytest.mark.parametrize(
    "text",
    [
        "metrics.loss",
        "metrics.loss < 'x'",
        "params.lr = 0.1",
        "metrics.loss < 1 or metrics.loss > 2",
        "nothing.x = '1'",
        "params.lr LIKE 5",
        "metrics.loss LIKE '1%'",
        "start_time ILIKE '1%'",
        " and ".join(["metrics.loss < 1"] * 51),
        "'; drop table",
    ],
)
def test_what_is_no_filter_is_refused(mlflow, runs, text):
    said = {"experiment_ids": [mlflow.experiment()], "filter": text}
    assert refusal(mlflow.post("runs/search", **said)) == (400, "INVALID_PARAMETER_VALUE")


@pytest.mark.parametrize(
    ("order", "found"),
    [
        (["metrics.loss ASC"], "abc"),
        (["metrics.loss DESC"], "cba"),
        (["tags.team", "attributes.start_time ASC"], "abc"),
        (["metrics.`only.here` ASC"], "cba"),
        (["params.lr"], "abc"),
    ],
)
def test_the_order_is_as_asked_and_pages_follow_one_another(mlflow, runs, order, found):
    pages, token = "", ""
    while True:
        said = {"experiment_ids": [mlflow.experiment()], "order_by": order, "max_results": 2}
        answer = mlflow.post("runs/search", **said, page_token=token).json()
        pages += "".join(runs[each["info"]["run_id"]] for each in answer["runs"])
        token = answer.get("next_page_token", "")
        if not token:
            break
    assert pages == found


def test_a_deleted_run_is_found_only_when_asked_for(mlflow, runs):
    first = next(iter(runs))
    mlflow.post("runs/delete", run_id=first)
    for view, count in [("ACTIVE_ONLY", 2), ("DELETED_ONLY", 1), ("ALL", 3)]:
        said = {"experiment_ids": [mlflow.experiment()], "run_view_type": view}
        assert len(mlflow.post("runs/search", **said).json()["runs"]) == count
    assert mlflow.run(first)["info"]["lifecycle_stage"] == "deleted"
    mlflow.post("runs/restore", run_id=first)
    assert mlflow.run(first)["info"]["lifecycle_stage"] == "active"


def test_experiments_are_searched_as_runs_are(mlflow, workspace):
    one, _ = mlflow.experiment("one"), mlflow.experiment("two")
    mlflow.token = Token.make(workspace, "all", ["ingest", "read", "write"])[1]
    mlflow.post("experiments/set-experiment-tag", experiment_id=one, key="team", value="a")
    for text, found in [
        ("", {"one", "two"}),
        ("name LIKE 't%'", {"two"}),
        ("tags.team = 'a'", {"one"}),
    ]:
        answer = mlflow.post("experiments/search", filter=text, max_results=10).json()
        assert {each["name"] for each in answer["experiments"]} == found
    assert refusal(mlflow.post("experiments/search", max_results=0))[0] == 400
    assert refusal(mlflow.post("experiments/search", page_token="x"))[0] == 400


@pytest.mark.parametrize("method", ["runs/search", "experiments/search"])
def test_a_search_that_takes_too_long_is_given_up(mlflow, runs, monkeypatch, method):
    monkeypatch.setattr(effort, "SEARCH_SECONDS", 0)
    answer = mlflow.post(method, experiment_ids=[mlflow.experiment()])
    assert refusal(answer) == (413, "RESOURCE_LIMIT_EXCEEDED")


def test_a_workspace_s_searches_have_a_share_of_each_minute(mlflow, stranger, runs, monkeypatch):
    said = {"experiment_ids": [mlflow.experiment()]}
    assert len(mlflow.post("runs/search", **said).json()["runs"]) == 3
    monkeypatch.setattr(effort, "MINUTE_SECONDS", 1e-9)
    theirs = [stranger.experiment("theirs")]
    assert stranger.post("runs/search", experiment_ids=theirs).status_code == 200
    answer = mlflow.post("runs/search", **said)
    assert refusal(answer) == (429, "REQUEST_LIMIT_EXCEEDED")
    assert int(answer.headers["Retry-After"]) > 0


def test_a_workspace_has_one_long_search_at_a_time(mlflow, stranger, runs, monkeypatch):
    monkeypatch.setattr(effort, "SHORT_SECONDS", 0)
    said = {"experiment_ids": [mlflow.experiment()]}
    running = effort.bound_effort(Workspace.objects.get(name="Ours").pk, [1, 2])
    next(running)
    assert refusal(mlflow.post("runs/search", **said)) == (429, "REQUEST_LIMIT_EXCEEDED")
    theirs = [stranger.experiment("theirs")]
    assert stranger.post("runs/search", experiment_ids=theirs).status_code == 200
    assert list(running) == [2]
    assert mlflow.post("runs/search", **said).status_code == 200


def test_a_page_of_large_runs_is_shorter(mlflow, runs, monkeypatch):
    monkeypatch.setattr(searching, "AT_ONCE", 1)
    monkeypatch.setattr(searching, "MOST_PAGE_CHARS", 1_500)
    for run_id in runs:
        mlflow.log(run_id, tags=[{"key": "note", "value": "x" * 1_000}])
    said, pages = {"experiment_ids": [mlflow.experiment()], "page_token": ""}, []
    while not pages or said["page_token"]:
        answer = mlflow.post("runs/search", **said).json()
        pages.append("".join(runs[each["info"]["run_id"]] for each in answer["runs"]))
        said["page_token"] = answer.get("next_page_token", "")
    assert pages == ["cb", "a"]


@pytest.mark.parametrize(
    "said", [{"filter": "attributes.nonsense = '1'"}, {"order_by": ["nonsense DESC"]}], ids=str
)
@pytest.mark.parametrize("method", ["runs/search", "experiments/search", "logged-models/search"])
def test_an_attribute_that_no_row_has_is_refused_by_its_name(mlflow, method, said):
    if method == "logged-models/search" and "order_by" in said:
        said = {"order_by": [{"field_name": "nonsense"}]}
    answer = mlflow.post(method, experiment_ids=[mlflow.experiment()], max_results=5, **said)
    assert refusal(answer) == (400, "INVALID_PARAMETER_VALUE")
    assert "'nonsense'" in answer.json()["message"]


def test_filters_find_the_datasets_of_a_run(mlflow):
    experiment = mlflow.experiment()
    for name, context in (("train", "training"), ("array", "testing")):
        run_id = mlflow.start(experiment)
        tags = [{"key": "mlflow.data.context", "value": context}]
        dataset = {"name": name, "digest": f"d-{name}", "source": "{}"}
        mlflow.post("runs/log-inputs", run_id=run_id, datasets=[{"tags": tags, "dataset": dataset}])

    def found(text: str) -> list[str]:
        runs = mlflow.post("runs/search", experiment_ids=[experiment], filter=text).json()["runs"]
        named = (run["inputs"]["dataset_inputs"][0]["dataset"]["name"] for run in runs)
        return sorted(named)

    assert found("dataset.name = 'train'") == ["train"]
    assert found("datasets.digest LIKE 'd-%'") == ["array", "train"]
    assert found("dataset.context IN ('testing')") == ["array"]
    assert found("dataset.name != 'train'") == ["array"]
    answer = mlflow.post("runs/search", experiment_ids=[experiment], filter="dataset.size = '1'")
    assert refusal(answer) == (400, "INVALID_PARAMETER_VALUE")
