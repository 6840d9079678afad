"""Migrations of existing rows."""

from __future__ import annotations

from decimal import Decimal
from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.state import StateApps
from django.utils import timezone

from rules.claims import Claim
from tests.web import factories
from webapp.analysis.models import Analysis, Judgement
from webapp.background import conditions
from webapp.notify.models import Mail
from webapp.notify.queue import KIND as MAIL
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
    """Return the models as they are once the migrations have gone there."""
    MigrationExecutor(connection).migrate(list(targets))
    return _state(*targets)


def _state(*targets: tuple[str, str]) -> StateApps:
    """Return the models as they were after these migrations."""
    return MigrationExecutor(connection).loader.project_state(list(targets)).apps


def test_analyses_that_were_tried_too_often_stay_given_up_and_the_others_due(owner):
    job = factories.job(owner.workspace)
    rows = {
        "attempts": {"done": 0, "attempts": 3, "error": "OSError: away"},
        "kills": {"done": 0, "kills": 10},
        "tried": {"done": 0, "attempts": 2, "kills": 9},
        "done since": {"attempts": 3},
    }
    analyses = {name: factories.analysis(factories.run(job), **row) for name, row in rows.items()}

    import_module("webapp.analysis.migrations.0007_analyses_given_up").give_up(apps, None)

    given_up = Analysis.objects.filter(given_up_at__isnull=False)
    assert set(given_up) == {analyses["attempts"], analyses["kills"]}


def test_mails_that_wait_are_still_sent_and_the_others_are_not(owner):
    states = ("waiting", "sent", "failed", "withdrawn")
    for state in states:
        Mail.objects.create(
            user=owner.user,
            workspace=owner.workspace,
            kind="budget",
            subject_key=state,
            message_id=state,
            state=state,
            attempts=2,
            sent_at=timezone.now() if state == "sent" else None,
        )
    carrying = import_module("webapp.notify.migrations.0003_mails_done_and_given_up")

    carrying.carry_states_over(apps, None)

    rows = MAIL.rows.annotate(work_state=conditions.state(timezone.now()))
    work_states = dict(rows.values_list("state", "work_state"))
    assert work_states == {
        "waiting": "retry",
        "sent": "done",
        "failed": "failed",
        "withdrawn": "done",
    }
    assert [mail.state for mail in conditions.due_rows(MAIL, timezone.now())] == ["waiting"]


@pytest.mark.django_db(transaction=True)
def test_mails_that_were_written_before_channels_go_by_mail_and_stay(owner):
    try:
        before = _migrated(("notify", "0003_mails_done_and_given_up"))
        values = {"kind": "budget", "subject_key": "1", "message_id": "<1@localhost>"}
        row = before.get_model("notify", "Mail").objects.create(
            user_id=owner.user.pk, workspace_id=owner.workspace.pk, about="Budget", **values
        )
    finally:
        _migrated(*MigrationExecutor(connection).loader.graph.leaf_nodes())

    mail = Mail.objects.get()
    assert (mail.pk, mail.uuid, mail.message_id) == (row.pk, row.uuid, "<1@localhost>")
    assert (mail.channel, mail.state, mail.about) == ("mail", "waiting", "Budget")


@pytest.mark.django_db(transaction=True)
def test_findings_keep_what_they_counted_and_claim_what_they_estimated(owner):
    run = factories.run(factories.job(owner.workspace))
    waste = {"waste_seconds_low": 100.0, "waste_seconds_high": 200.0}
    row = {"values_hash": "", "values": {}, "numbers": {}, "state": "fired", "summary": ""} | waste
    usd = {"waste_usd_low": Decimal("0.1"), "waste_usd_high": Decimal("0.2")}
    try:
        before = _migrated(("analysis", "0020_rules_called_for"))
        rows = before.get_model("analysis", "Judgement").objects
        rows.create(
            run_id=run.pk, rule="idle_tail", rule_version=1, counted_share=0.25, **row, **usd
        )
        rows.create(run_id=run.pk, rule="gone", rule_version=1, counted_share=1, **row)
        folded = {"explained_by": "idle_tail", "counted_share": 0}
        rows.create(run_id=run.pk, rule="batch_size", rule_version=1, **folded, **row, **usd)
    finally:
        _migrated(*MigrationExecutor(connection).loader.graph.leaf_nodes())

    after = {row.rule: row for row in Judgement.objects.filter(run=run)}
    assert {rule: row.waste_seconds_high for rule, row in after.items()} == {
        "idle_tail": 50.0,
        "gone": 200.0,
        "batch_size": 0.0,
    }
    assert after["idle_tail"].waste_usd_high == Decimal("0.05")
    assert after["gone"].waste_usd_high is None
    assert after["idle_tail"].own_claims == [Claim(("idle_tail",), 200.0, 0.5, 1.0)]
    assert all(row.own_claims for row in after.values()), "a new price divides them"
