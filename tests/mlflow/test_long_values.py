"""Values that are too long are cut as MLflow's server cuts them, and the run says so."""

from __future__ import annotations

import pytest

from webapp.runs.models import Run

pytestmark = pytest.mark.django_db


def test_long_values_are_cut_and_named_on_the_run(mlflow):
    run_id = mlflow.start()
    long = [{"key": "long", "value": "x" * 20_000}]
    assert mlflow.log(run_id, params=long, tags=long).status_code == 200
    mlflow.post("runs/log-parameter", run_id=run_id, key="other", value="x" * 6_001)
    data = mlflow.run(run_id)["data"]
    params = {each["key"]: len(each["value"]) for each in data["params"]}
    tags = {each["key"]: each["value"] for each in data["tags"]}
    assert params == {"long": 6_000, "other": 6_000}
    assert len(tags["long"]) == 8_000
    assert tags["trimtab.truncated"] == "params.long, tags.long, params.other"
    assert Run.objects.get().tags["trimtab.truncated"] == tags["trimtab.truncated"]


def test_a_long_value_again_changes_nothing(mlflow):
    run_id = mlflow.start()
    for _ in range(2):
        said = mlflow.post("runs/log-parameter", run_id=run_id, key="a", value="x" * 7_000)
        assert said.status_code == 200
    tags = {each["key"]: each["value"] for each in mlflow.run(run_id)["data"]["tags"]}
    assert tags["trimtab.truncated"] == "params.a"


def test_tags_with_which_a_run_begins_are_cut(mlflow):
    run_id = mlflow.start(note="x" * 9_000)
    tags = {each["key"]: each["value"] for each in mlflow.run(run_id)["data"]["tags"]}
    assert (len(tags["note"]), tags["trimtab.truncated"]) == (8_000, "tags.note")


def test_values_that_fit_are_not_marked(mlflow):
    run_id = mlflow.start(note="x" * 8_000)
    mlflow.log(run_id, params=[{"key": "a", "value": "x" * 6_000}])
    tags = [each["key"] for each in mlflow.run(run_id)["data"]["tags"]]
    assert "trimtab.truncated" not in tags
