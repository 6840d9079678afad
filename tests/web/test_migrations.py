"""What a migration does with rows that are there."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.state import StateApps

from tests.web import factories
from webapp.thresholds.models import ParameterValue

CURVE = {"val_loss": [[60.0, 0.9], [300.0, 0.25]]}


SUMMARY = {"steps": 300, "phase_seconds": {"train": 550.0}}


def test_curves_of_metrics_move_out_of_the_summary_and_back(owner):
    job = factories.job(owner.workspace)
    made = [factories.run(job).pk, factories.run(job).pk]
    at_the_time = _state(("runs", "0009_metric_progress_and_indexes"))
    runs = at_the_time.get_model("runs", "Run").objects
    runs.filter(pk=made[0]).update(summary=SUMMARY | {"metric_progress": CURVE})
    runs.filter(pk=made[1]).update(summary=SUMMARY)
    moving = import_module("webapp.runs.migrations.0009_metric_progress_and_indexes")

    def rows() -> list[tuple[object, object]]:
        kept = runs.in_bulk(made)
        return [(kept[pk].summary, kept[pk].metric_progress) for pk in made]

    moving.move_curves(at_the_time, None)
    assert rows() == [(SUMMARY, CURVE), (SUMMARY, {})]

    moving.move_curves_back(at_the_time, None)
    assert [summary for summary, _ in rows()] == [SUMMARY | {"metric_progress": CURVE}, SUMMARY]


@pytest.mark.django_db(transaction=True)
def test_set_parameters_survive_their_move_to_thresholds_and_back():
    job = factories.job(factories.workspace())
    of_job = {"workspace_id": job.workspace_id, "job_id": job.pk, "rule": "input_bound"}
    ParameterValue.objects.create(**of_job, name="before", value=1)
    try:
        moved_back = _migrated(("rulebook", "0001_parameter_values"))
        rows = moved_back.get_model("rulebook", "ParameterValue").objects
        assert list(rows.values_list("rule", "name", "value")) == [("input_bound", "before", 1)]
        rows.create(**of_job, name="meanwhile", value=2)
    finally:
        _migrated(*MigrationExecutor(connection).loader.graph.leaf_nodes())

    rows = ParameterValue.objects.order_by("value").values_list("job", "rule", "name", "value")
    assert list(rows) == [
        (job.pk, "input_bound", "before", 1),
        (job.pk, "input_bound", "meanwhile", 2),
    ]


def _migrated(*targets: tuple[str, str]) -> StateApps:
    """The models as they are once the migrations have gone there."""
    MigrationExecutor(connection).migrate(list(targets))
    return _state(*targets)


def _state(*targets: tuple[str, str]) -> StateApps:
    """The models as they were after these migrations."""
    return MigrationExecutor(connection).loader.project_state(list(targets)).apps
