"""What a migration does with rows that are there."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.state import StateApps

from tests.web import factories
from webapp.thresholds.models import ParameterValue

CURVE = {"val_loss": [[60.0, 0.9], [300.0, 0.25]]}


def test_curves_of_metrics_move_out_of_the_summary_and_back(owner):
    job = factories.job(owner.workspace)
    summary = factories.summary()
    with_curve = factories.run(job, summary=summary | {"metric_progress": CURVE})
    without = factories.run(job, summary=summary)
    moving = import_module("webapp.runs.migrations.0009_metric_progress_and_indexes")

    moving.move_curves(apps, None)
    with_curve.refresh_from_db()
    without.refresh_from_db()
    assert (with_curve.summary, with_curve.metric_progress) == (summary, CURVE)
    assert (without.summary, without.metric_progress) == (summary, {})

    moving.move_curves_back(apps, None)
    with_curve.refresh_from_db()
    without.refresh_from_db()
    assert with_curve.summary == summary | {"metric_progress": CURVE}
    assert without.summary == summary


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
    return MigrationExecutor(connection).loader.project_state(list(targets)).apps
