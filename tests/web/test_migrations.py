"""What a migration does with rows that are there."""

from __future__ import annotations

from importlib import import_module

from django.apps import apps

from tests.web import factories

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
